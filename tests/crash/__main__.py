"""`python -m tests.crash`: one run of the laboratory, as long as asked.

    python -m tests.crash --faults 1000 --store postgres --report docs/internals/soak.md
    python -m tests.crash --seed 7 --minutes 10 --store sqlite

It prints a progress line, then what was found: nothing, or each broken promise with the shortest history that concerns
it, and the seed. Exit code 1 when a promise was broken. Ctrl-C ends it early; it is judged all the same.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.crash.checker import violations
from tests.crash.durability import keep, kept
from tests.crash.environment import can_mount
from tests.crash.history import history
from tests.crash.laboratory import Laboratory, Outcome, Setup, has_workers, new_folder
from tests.crash.plan import LEASE_SECONDS, PER_PROCESS
from tests.crash.report import write_report
from tests.crash.violation import Violation

OWN_MOUNTS = "--own-mounts"
SHOWN = 10
FAULTS = 60
EVIDENCE = "evidence"


def main(words: list[str]) -> int:
    if OWN_MOUNTS not in words and os.geteuid() == 0 and "sqlite" in words and can_mount():
        # A namespace of our own, so that a full disk is nobody else's and goes with us.
        own = ["unshare", "--mount", sys.executable, "-m", "tests.crash", *words, OWN_MOUNTS]
        os.execvp("unshare", own)  # noqa: S606
    given = _arguments(words)
    if given.check:
        return _again(Path(given.check))
    setup = _setup(given)
    folder = Path(given.keep) if given.keep else Path(tempfile.mkdtemp(prefix="hf-crash-")) / "run"
    print(
        f"seed {setup.seed}: {setup.faults} faults on {setup.store}, {setup.servers} servers, {setup.workers} workers"
    )
    outcome = asyncio.run(Laboratory(setup, new_folder(folder), _progress).run())
    print()
    if given.keep:
        keep(outcome.evidence, folder / EVIDENCE)
    found = judged(outcome)
    tell(outcome, found)
    if given.report:
        write_report(Path(given.report), outcome, found)
    return 1 if found else 0


def _again(folder: Path) -> int:
    """Judge a run that was kept."""
    evidence = kept(folder / EVIDENCE)
    found = violations(evidence)
    for violation in found[:SHOWN]:
        print(f"\n{violation}")
        print("\n".join(history(violation, evidence, [])))
    print(f"{len(found)} promises broken")
    return 1 if found else 0


def judged(outcome: Outcome) -> list[Violation]:
    """Everything that is wrong: what the checker finds, and what the laboratory saw."""
    return violations(outcome.evidence) + [Violation(*seen) for seen in outcome.found]


def tell(outcome: Outcome, found: list[Violation]) -> None:
    ended = outcome.settled.ended
    print(f"{sum(outcome.faults.values())} faults, {len(outcome.evidence.acks)} acknowledged, {ended} turns,", end=" ")
    print(f"settled in {outcome.settle_seconds:.1f} s, {outcome.seconds:.0f} s in all")
    for kind, why in outcome.skipped.items():
        print(f"left out: {kind} ({why})")
    for violation in found[:SHOWN]:
        print(f"\n{violation}")
        print("\n".join(history(violation, outcome.evidence, outcome.diary.entries)))
    if found:
        print(f"\n{len(found)} promises broken; seed {outcome.setup.seed}")
    else:
        print("no promise was broken")


def _progress(line: str) -> None:
    end = "\r" if sys.stdout.isatty() else "\n"
    print(line, end=end, flush=True)


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description="The crash laboratory.")
    parser.add_argument("--seed", type=int, help="the same schedule again; without it a new one")
    parser.add_argument("--faults", type=int, help=f"how many ({FAULTS})")
    parser.add_argument("--minutes", type=float, help="how long, instead of or besides --faults")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--workers", type=int, help="3 on PostgreSQL, none on SQLite")
    parser.add_argument("--lease-seconds", type=float, default=LEASE_SECONDS)
    parser.add_argument("--users", type=int, default=8, help="who post at the same time")
    parser.add_argument("--report", metavar="FILE.md", help="write a report, and FILE.svg beside it")
    parser.add_argument("--keep", metavar="FOLDER", help="leave everything of the run there")
    parser.add_argument("--check", metavar="FOLDER", help="judge a run that was kept there, and run nothing")
    parser.add_argument(OWN_MOUNTS, action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def _setup(given: argparse.Namespace) -> Setup:
    workers = given.workers
    if workers is None:
        workers = 3 if given.store == "postgres" and has_workers() else 0
    seconds = given.minutes * 60 if given.minutes else None
    faults = given.faults or (int(seconds * (given.servers + workers) / PER_PROCESS) if seconds else FAULTS)
    return Setup(
        seed=given.seed if given.seed is not None else int.from_bytes(os.urandom(3), "big"),
        store=given.store,
        faults=faults,
        seconds=seconds,
        servers=given.servers,
        workers=workers,
        users=given.users,
        lease_seconds=given.lease_seconds,
        may_mount=given.own_mounts,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
