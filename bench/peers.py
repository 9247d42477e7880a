"""Outlast beside what a developer would pick instead: `make bench-peers`, or `python -m bench.peers --help`.

Each store has its own session of the same 600-byte messages. The appends of all stores take turns within a round, bare
SQLite among them, and what is told is the median over the rounds of the ratio to bare SQLite in the same round. Then
four processes append to one session of each store, and what was acknowledged and is not there counts as lost.

The table goes into docs/benchmarks.md, every number into bench/results/peers.json.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import outlast
from bench import CHECKOUT
from bench.figures.messages import text
from bench.figures.report import machine, table, write_section
from bench.figures.server import Server, Unavailable
from bench.stores import PEERS, Peer

HERE = Path(__file__).parent
ROUNDS, PIECE, PROCESSES, EACH = 5, 10, 4, 100
PACKAGES = {
    "openai-agents": "openai-agents",
    "adk": "google-adk",
    "strands": "strands-agents",
    "langgraph": "langgraph-checkpoint-sqlite",
    "langgraph-postgres": "langgraph-checkpoint-postgres",
}


class Places:
    """A folder or a database of its own for each session that is measured."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root, self._stack = root, stack
        self._server: Server | None = None

    def new(self, peer: type[Peer]) -> str:
        if peer.needs == "folder":
            return tempfile.mkdtemp(dir=self.root)
        if self._server is None:
            self._server = self._stack.enter_context(Server(self.root, None))
        return self._server.new_database()


def main() -> None:
    arguments = _arguments()
    if arguments.child:
        _child(*arguments.child)
        return
    lengths = [int(length) for length in arguments.lengths.split(",")]
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outlast-peers-", dir=arguments.dir)))
        places = Places(root, stack)
        found = _measured(places, arguments.only or list(PEERS), lengths, arguments.each)
    found |= {"at": time.strftime("%Y-%m-%d", time.gmtime()), "machine": machine()}
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "peers.json").write_text(json.dumps(found, indent=1) + "\n")
    page = _page(found, lengths)
    print(page)
    if arguments.report:
        write_section(arguments.report, "peers", "make bench-peers", page)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Outlast beside other session stores")
    parser.add_argument(
        "--only", action="append", choices=list(PEERS), help="one store (repeatable); bare is always in"
    )
    parser.add_argument("--lengths", default="100,1000", help="measure appends at these lengths (default 100,1000)")
    parser.add_argument("--each", type=int, default=EACH, help="appends of each of the 4 processes")
    parser.add_argument("--dir", type=Path, default=None, help="a directory on a real disk")
    parser.add_argument("--report", type=Path, default=None, help="put the table into this page")
    parser.add_argument("--child", nargs=4, metavar=("NAME", "PLACE", "NUMBER", "COUNT"), help=argparse.SUPPRESS)
    return parser.parse_args()


def _measured(places: Places, names: list[str], lengths: list[int], each: int) -> dict[str, Any]:
    peers, missing = _opened(places, ["bare", *(name for name in names if name != "bare")])
    rows: dict[str, dict[str, Any]] = {name: {"append": {}, "us": {}} for name in peers}
    filled = 0
    for length in lengths:
        for name, peer in peers.items():
            _say(f"{name}: filling to {length}")
            for _ in range(length - filled):
                peer.append(text())
        filled = length + ROUNDS * PIECE
        taken = _append_in_turns(peers)
        for name, times in taken.items():
            rows[name]["append"][str(length)] = _ratio(times, taken["bare"])
            rows[name]["us"][str(length)] = median(times) * 1e6
    for name, ratio in _last_in_turns(peers).items():
        rows[name]["last_50"] = ratio
    for peer in peers.values():
        peer.close()
    for name in peers:
        _say(f"{name}: {PROCESSES} processes")
        rows[name] |= _processes(places, name, each)
        rows[name]["version"] = _version(name)
    return {"rows": rows, "missing": missing, "processes": PROCESSES, "each": each}


def _version(name: str) -> str:
    if name.startswith("outlast"):
        return outlast.__version__
    return importlib.metadata.version(PACKAGES[name]) if name in PACKAGES else "-"


def _ratio(times: list[float], bare: list[float]) -> float:
    return median(one / other for one, other in zip(times, bare, strict=True))


def _append_in_turns(peers: dict[str, Peer]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(ROUNDS):
        for name, peer in peers.items():
            began = time.perf_counter()
            for _ in range(PIECE):
                peer.append(text())
            times[name].append((time.perf_counter() - began) / PIECE)
    return times


def _last_in_turns(peers: dict[str, Peer]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(ROUNDS):
        for name, peer in peers.items():
            began = time.perf_counter()
            for _ in range(3):
                assert len(peer.last(50)) == 50, name
            times[name].append((time.perf_counter() - began) / 3)
    return {name: _ratio(found, times["bare"]) for name, found in times.items()}


def _opened(places: Places, names: list[str]) -> tuple[dict[str, Peer], dict[str, str]]:
    peers: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            peers[name] = PEERS[name](places.new(PEERS[name]))
        except (ImportError, Unavailable) as error:
            missing[name] = str(error).splitlines()[0]
            _say(f"{name}: left out ({missing[name]})")
    return peers, missing


# ---- several processes on one session -------------------------------------------------------------------------------


def _processes(places: Places, name: str, each: int) -> dict[str, Any]:
    place = places.new(PEERS[name])
    first = PEERS[name](place)
    first.append("before 0")
    first.close()
    command = [sys.executable, "-m", "bench.peers", "--child", name, place]
    children = [
        subprocess.Popen(
            [*command, str(number), str(each)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
        )
        for number in range(PROCESSES)
    ]
    for child in children:
        child.stdout.readline()  # ready
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    told = [json.loads(child.stdout.readline()) for child in children]
    for child in children:
        child.communicate()
    last = PEERS[name](place)
    stored = {found.split(" ")[0] for found in last.last(PROCESSES * each + 10)}
    last.close()
    acknowledged = [mark for answer in told for mark in answer["acknowledged"]]
    errors = sum(answer["errors"] for answer in told)
    return {"lost": sum(mark not in stored for mark in acknowledged), "errors": errors, "of": PROCESSES * each}


def _child(name: str, place: str, number: str, count: str) -> None:
    peer = PEERS[name](place)
    print("ready", flush=True)
    sys.stdin.readline()
    acknowledged: list[str] = []
    errors = 0
    for turn in range(int(count)):
        mark = f"p{number}-{turn}"
        try:
            peer.append(f"{mark} {text()}")
            acknowledged.append(mark)
        except Exception:  # noqa: BLE001 (whatever that library raises is a refused append)
            errors += 1
    print(json.dumps({"acknowledged": acknowledged, "errors": errors}), flush=True)
    peer.close()


# ---- the table ------------------------------------------------------------------------------------------------------


def _page(found: dict[str, Any], lengths: list[int]) -> str:
    headings = (
        "store",
        "version",
        *(f"append at {length:,}" for length in lengths),
        "last 50",
        f"{found['processes']} processes: lost + refused of {found['processes'] * found['each']}",
    )
    rows = [
        (
            PEERS[name].name,
            row["version"],
            *(f"{row['append'][str(length)]:.1f} x" for length in lengths),
            f"{row['last_50']:.1f} x",
            f"{row['lost']} + {row['errors']}",
        )
        for name, row in found["rows"].items()
    ]
    said = f"{found['at']}, {found['machine']}; x = times bare SQLite (INSERT + COMMIT, FULL) in the same rounds."
    left = [f"\nNot run: {PEERS[name].name} ({why})." for name, why in found["missing"].items()]
    return "\n".join([said, "", table(headings, rows), *left])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
