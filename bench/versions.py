"""How fast a new version is against an old one, in one run on a machine that others use, too.

    python bench/versions.py --old PYTHON:NAME --new PYTHON:NAME [--rounds 9] [--only append-sqlite] [--json]

Short blocks of both versions alternate, so that the machine's moods hit both. A round is the best of some blocks of
each; who begins changes from round to round. Rounds are spread over several generations of processes, since a process
can be lucky with its memory. Each ratio is of two medians of rounds, with a 95 % interval by bootstrap. What looks
slower is measured with three times the rounds, all of which count. Exit 1 when a ratio is above 1.10, or an interval
lies wholly above 1.03.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from measuring.postgres import Postgres
from measuring.version import Version

WORST_RATIO, WORST_BOUND = 1.10, 1.03
RESAMPLES = 4000
BLOCKS = 6
GENERATIONS = 3
TOKEN = "a-token-of-at-least-thirty-two-characters"
INSIDE = (
    "append-sqlite",
    "append-files",
    "append-postgres",
    "crowd-sqlite",
    "crowd-files",
    "crowd-postgres",
    "threads-sqlite",
    "processes-sqlite",
    "processes-files",
    "turn-sqlite",
    "turn-postgres",
    "open-sqlite",
    "open-files",
)
HTTP = ("http-create", "http-post", "http-open")
PROCESSES = ("import", "cli-help", "cli-list")
NAMES = (*INSIDE, *HTTP, *PROCESSES)
Times = dict[str, list[float]]


class Figure(NamedTuple):
    """One measurement: medians in seconds, their ratio and its interval."""

    name: str
    rounds: int
    old: float
    new: float
    ratio: float
    low: float
    high: float

    @property
    def is_worse(self) -> bool:
        return self.ratio > WORST_RATIO or self.low > WORST_BOUND


# --- one version at work


class Side:
    """Everything that is measured of one version: a child for works, a server, and processes. A stack closes it."""

    def __init__(self, version: Version, folder: Path, pg_url: str, stack: ExitStack) -> None:
        self._version = version
        self._folder = folder
        self._pg_url = pg_url
        self._stack = stack
        self._home = folder / "home"
        self._home.mkdir(parents=True)
        self._child: subprocess.Popen[str] | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._session = ""

    def block(self, name: str) -> float:
        """One short block of a measurement: the median of its units, in seconds."""
        if name in INSIDE:
            return self._inside(name)
        if name in HTTP:
            return self._over_http(name)
        return self._process(name)

    # --- works in the child

    def _inside(self, work: str) -> float:
        if self._child is None:
            command = self._version.script("pace.py", str(self._folder), self._pg_url)
            self._child = self._version.start(command, self._home, self._folder, stderr=None)
            self._stack.callback(_leave, self._child)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps({"work": work}) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit(f"{self._version.label}: the child failed at {work}")
        return float(json.loads(line)["seconds"])

    # --- a server, and requests over one connection that stays open

    def _over_http(self, name: str) -> float:
        if self._connection is None:
            self._serve()
        if name == "http-create":
            body = {"repo_path": str(self._folder)}
            return _median(8, lambda: self._request("POST", "/api/sessions", body))
        path = f"/api/sessions/{self._session}"
        if name == "http-open":
            return _median(6, lambda: self._request("GET", path))
        other = self._request("POST", "/api/sessions", {"repo_path": str(self._folder)})["session_id"]
        return _median(8, lambda: self._request("POST", f"/api/sessions/{other}/messages", {"content": "hello " * 20}))

    def _serve(self) -> None:
        version = self._version
        store = f"sqlite:///{self._folder}/serve.db"
        words = version.command("serve", "--json", "--port", "0", "--model", "none", "--store", store)
        token = {f"{version.name.upper()}_TOKEN": TOKEN}
        process = subprocess.Popen(
            words,
            cwd=self._folder,
            env=version.environment(self._home, **token),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(_stop, process)
        assert process.stdout is not None
        place = urlsplit(json.loads(process.stdout.readline())["url"])
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        self._session = self._request("POST", "/api/sessions", {"repo_path": str(self._folder)})["session_id"]
        for number in range(200):
            body = {"content": f"message {number} " + "of some length " * 10}
            self._request("POST", f"/api/sessions/{self._session}/messages", body)

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        assert self._connection is not None
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status == 200, f"{method} {path}: {answer.status} {text[:200]!r}"
        return json.loads(text)

    # --- processes

    def _process(self, name: str) -> float:
        version = self._version
        store = f"sqlite:///{self._folder}/listed.db"
        commands = {
            "import": [version.python, "-c", f"import {version.name}"],
            "cli-help": version.command("--help"),
            "cli-list": version.command("sessions", "list", "--store", store),
        }
        if name == "cli-list" and not (self._folder / "listed.db").exists():
            self._run(version.command("-p", "hello", "--model", "none", "--store", store))
        return self._run(commands[name])

    def _run(self, command: list[str]) -> float:
        began = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._version.environment(self._home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.perf_counter() - began
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return took


def _median(count: int, do: Callable[[], Any]) -> float:
    times: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        do()
        times.append(time.perf_counter() - began)
    return median(times)


def _leave(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=60)


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate(timeout=60)


# --- comparing


class Race:
    """Two versions, and the times of every round that they ran."""

    def __init__(self, versions: tuple[Version, Version], folder: Path, server: Postgres | None) -> None:
        self._versions = versions
        self._folder = folder
        self._server = server
        self._generation = 0
        self._times: dict[str, Times] = {}

    def run(self, names: list[str], rounds: int) -> None:
        """Run so many rounds more of each measurement, in several generations of processes."""
        for part in range(GENERATIONS):
            share = rounds // GENERATIONS + (part < rounds % GENERATIONS)
            self._generation += 1
            with ExitStack() as stack:
                old, new = (self._side(version, stack) for version in self._versions)
                for name in names:
                    times = self._times.setdefault(name, {"old": [], "new": []})
                    for side in (old, new):
                        side.block(name)
                    for number in range(share):
                        order = (("old", old), ("new", new))
                        for label, took in one_round(name, order if number % 2 else order[::-1]).items():
                            times[label].append(took)

    def figure(self, name: str) -> Figure:
        """What came of one measurement."""
        old, new = self._times[name]["old"], self._times[name]["new"]
        low, high = interval(old, new)
        was, now = median(old), median(new)
        return Figure(name, len(old), was, now, now / was, low, high)

    def _side(self, version: Version, stack: ExitStack) -> Side:
        label = f"{version.label}_{self._generation}"
        pg_url = self._server.fresh(label) if self._server is not None else ""
        return Side(version, self._folder / label, pg_url, stack)


def one_round(name: str, order: tuple[tuple[str, Side], ...]) -> dict[str, float]:
    """The best of some blocks of each side, which alternate."""
    best = {label: float("inf") for label, _ in order}
    for _ in range(BLOCKS):
        for label, side in order:
            best[label] = min(best[label], side.block(name))
    return best


def interval(old: list[float], new: list[float]) -> tuple[float, float]:
    """Between which two values 95 of 100 resampled ratios of medians lie; rounds are drawn as pairs."""
    chance = random.Random(1)
    pairs = list(zip(old, new, strict=True))
    ratios: list[float] = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(pairs, k=len(pairs))
        ratios.append(median(now for _, now in drawn) / median(was for was, _ in drawn))
    ratios.sort()
    return ratios[int(RESAMPLES * 0.025)], ratios[int(RESAMPLES * 0.975)]


def shown(seconds: float) -> str:
    """A time in a unit that fits it."""
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--old", required=True, metavar="PYTHON:NAME")
    parser.add_argument("--new", required=True, metavar="PYTHON:NAME")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", action="append", metavar="NAME", help=f"one of {', '.join(NAMES)}, or its beginning")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    return parser.parse_args()


def main() -> int:
    """Measure everything that is wanted and tell whether something became slower."""
    given = parsed()
    wanted = [name for name in NAMES if not given.only or any(name.startswith(only) for only in given.only)]
    versions = (Version.parse("old", given.old), Version.parse("new", given.new))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="versions-", ignore_cleanup_errors=True)))
        server = stack.enter_context(Postgres(versions[0])) if any("postgres" in name for name in wanted) else None
        race = Race(versions, folder, server)
        race.run(wanted, given.rounds)
        suspects = [name for name in wanted if race.figure(name).is_worse]
        if suspects:
            print(f"again, with more rounds: {', '.join(suspects)}", file=sys.stderr)
            race.run(suspects, 2 * given.rounds)
        figures = [race.figure(name) for name in wanted]
    if given.json:
        print(json.dumps([{**figure._asdict(), "worse": figure.is_worse} for figure in figures], indent=2))
    else:
        show(figures)
    return 1 if any(figure.is_worse for figure in figures) else 0


def show(figures: list[Figure]) -> None:
    """Print the table."""
    print(f"{'':16} {'old':>10} {'new':>10} {'ratio':>6}  95 % interval  rounds")
    for figure in figures:
        row = f"{figure.name:16} {shown(figure.old):>10} {shown(figure.new):>10} {figure.ratio:6.3f}"
        print(f"{row}  {figure.low:.3f} - {figure.high:.3f}  {figure.rounds:6}{'  SLOWER' * figure.is_worse}")


if __name__ == "__main__":
    sys.exit(main())
