"""Resuming an agent's session must not cost more because it is old: a long one beside a short one, in new processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench import CHECKOUT
from bench.figures.figure import Figure, Round, ratio
from bench.figures.lab import Lab
from bench.figures.workloads.worked import worked_session
from outlast.store import open_store

LONG, SHORT, WARM = 100_000, 1_000, 60
TIMES = 3
"""A round is the best of so many: a process that starts is easily in another one's way."""


class Resumed(msgspec.Struct, kw_only=True):
    """What `bench.figures.resumer` tells: milliseconds from asking for the session to its window, and its memory."""

    ms: float
    messages: int
    peak_mb: float


def resume_worked(lab: Lab, kind: str) -> Iterator[Figure]:
    url, folder, long = lab.url(kind), lab.folder(), lab.count(LONG, 400)
    with open_store(url) as store:
        big, small, warm = (worked_session(store, events) for events in (long, min(SHORT, long // 2), WARM))
    found: list[Resumed] = []
    rounds: list[Round] = []
    for _ in range(lab.rounds):
        pairs = [[_resumed(url, name, warm, folder) for name in (small, big)] for _ in range(TIMES)]
        rounds.append(Round(min(pair[0].ms for pair in pairs), min(pair[1].ms for pair in pairs)))
        found += [pair[1] for pair in pairs]
    title = f"resume an agent's session of {long:,} events"
    note = f"to its window of {found[0].messages} messages"
    yield ratio("resume-session", title, f"one of {SHORT:,}", rounds, measured_in="ms", goal=1.5, note=note)
    yield Figure(
        name="resume-memory",
        title=f"memory of a process that resumed {long:,} events",
        against="-",
        value=max(one.peak_mb for one in found),
        goal=150,
        unit="MB",
    )


def _resumed(url: str, session_id: str, warm_up: str, folder: Path) -> Resumed:
    words = [sys.executable, "-m", "bench.figures.resumer", url, session_id, warm_up, str(folder)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, cwd=CHECKOUT)
    return msgspec.json.decode(done.stdout, type=Resumed)
