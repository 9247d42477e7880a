"""`python -m tests.simulation`: one simulated run; the same seed is the same run, to the last step.

    python -m tests.simulation --seed 7 --workers 50 --sessions 5000 --progress

Exit code 1 when a promise was broken. `--json` prints the figures for a program, `--progress` a line on stderr now and
then.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.fleet import Fleet

REAL = time.perf_counter
SHOWN = 10
TELL_SECONDS = 5.0


def main(words: list[str]) -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of a set must not depend on the start
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *words], environment)  # noqa: S606
    given = _arguments(words)
    memory = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="hf-sim-", dir=memory))
    try:
        code = _run(given, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    os._exit(code)  # what was killed is left as it was: nothing of it may run now


def _run(given: argparse.Namespace, folder: Path) -> int:
    # Not above: whatever they import has to be there before the world is set.
    from tests.crash.checker import violations
    from tests.crash.history import history
    from tests.crash.scenario import Tale
    from tests.simulation.fleet import Fleet, Scale
    from tests.simulation.world import begin

    said = Said()
    logging.basicConfig(handlers=[said], level=logging.WARNING)
    scale = Scale(seed=given.seed, workers=given.workers, sessions=given.sessions, users=given.users)
    began = REAL()
    loop = begin(scale.seed)
    fleet = Fleet(scale, loop, folder)
    if given.progress:
        threading.Thread(target=_tell, args=(fleet, began), daemon=True).start()
    found = loop.run_until_complete(fleet.run())
    ran = REAL() - began
    broken = violations(found.evidence)
    rows = sum(len(session) for session in found.evidence.stored.rows.values())
    figures = {
        "seed": scale.seed,
        "workers": scale.workers,
        "sessions": len(found.evidence.stored.rows),
        "acknowledged": len(found.evidence.acks),
        "events": rows,
        "turns": Counter(turn.outcome for turn in Tale.of(found.evidence).turns),
        "faults": dict(found.faults),
        "users": dict(found.counts),
        "said": dict(said.counts),
        "simulated_seconds": round(found.seconds, 3),
        "settle_seconds": round(found.settle_seconds, 3),
        "settled": found.is_settled,
        "steps": loop.steps,
        "trace": loop.trace,
        "real_seconds": round(ran, 1),
        "checked_in": round(REAL() - began - ran, 1),
        "broken": [str(violation) for violation in broken[:SHOWN]],
        "count": len(broken),
    }
    if given.json:
        print(json.dumps(figures))
        return 1 if broken else 0
    print("\n".join(f"{name:18} {value}" for name, value in figures.items() if name != "broken"))
    for violation in broken[:SHOWN]:
        print(f"\n{violation}")
        print("\n".join(history(violation, found.evidence, [])))
    return 1 if broken else 0


def _tell(fleet: Fleet, began: float) -> None:
    """From a thread of its own, which only looks: the run is the same with it and without."""
    while True:
        time.sleep(TELL_SECONDS)
        line = (
            f"{REAL() - began:6.0f} s  simulated {fleet.loop.time():.0f} s  faults {fleet.faults.total()}  "
            f"sessions {len(fleet.memory.sessions)}/{fleet.scale.sessions}  at work {len(fleet.memory.work)}"
        )
        print(line, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


class Said(logging.Handler):
    """What the processes say, counted; what nobody foresaw is told in full."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.counts[record.getMessage().split(" ")[0]] += 1
        if record.exc_info is not None:
            print(self.format(record), file=sys.stderr)


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="The simulated fleet.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=5_000)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--progress", action="store_true")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
