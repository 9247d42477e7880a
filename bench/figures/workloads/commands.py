"""What a command costs before it does anything, and whether many sessions make it slower: whole processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from bench.figures.figure import Figure, ratio
from bench.figures.lab import Lab
from bench.figures.turns import Work, in_turns
from bench.figures.workloads.filled import create_sessions
from outlast.store import open_store

MANY, FEW = 10_000, 100


def starting(lab: Lab, kind: str) -> Iterator[Figure]:
    """`outlast sessions list` and `--help` against importing what draws their command lines."""
    few, many = _stored(lab, kind, lab.count(FEW, 5)), _stored(lab, kind, lab.count(MANY, 10))
    count = lab.count(6, 1)
    typer, listing = _process("-c", "import typer"), _listing(few)
    for name, title, work in (
        ("start-help", "`outlast --help`, whole process", _process("-m", "outlast", "--help")),
        ("start-list", "`outlast sessions list`, whole process", listing),
    ):
        rounds = in_turns(lab.rounds, count, typer, work, per=1e3, piece=1)
        yield ratio(name, title, '`python -c "import typer"`', rounds, measured_in="ms", goal=2.5)
    rounds = in_turns(lab.rounds, count, listing, _listing(many), per=1e3, piece=1)
    title = f"`outlast sessions list` over {lab.count(MANY, 10):,} sessions"
    yield ratio("sessions-list", title, f"the same over {lab.count(FEW, 5):,}", rounds, measured_in="ms", goal=2.0)


def _stored(lab: Lab, kind: str, sessions: int) -> str:
    url = lab.url(kind)
    with open_store(url) as store:
        create_sessions(store, sessions)
    return url


def _listing(url: str) -> Work:
    return _process("-m", "outlast", "sessions", "list", "--all-projects", "--store", url)


def _process(*words: str) -> Work:
    def some(count: int) -> None:
        for _ in range(count):
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)

    return some
