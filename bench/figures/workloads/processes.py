"""Four processes on one SQLite file, all in one session: none is refused, none starves, nothing is lost.

The bare side is the same four processes with SQLite's own busy waiting, each with a session of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from statistics import median

import msgspec

from bench.figures.bare.sqlite import BareSqlite
from bench.figures.figure import Figure, Round, ratio
from bench.figures.lab import Lab
from bench.figures.worker import Outcome, Task
from bench.figures.workers import Worker
from outlast.session import ConversationSession
from outlast.store import open_store

PROCESSES = 4
TITLE = f"{PROCESSES} processes on one SQLite file"


class Together(msgspec.Struct):
    """How the processes of one round fared."""

    outcomes: list[Outcome]
    seconds: float
    lost: int = 0
    gaps: int = 0

    @property
    def speed(self) -> float:
        return sum(outcome.appended for outcome in self.outcomes) / self.seconds

    @property
    def share(self) -> float:
        counts = [outcome.appended for outcome in self.outcomes]
        return min(counts) / max(max(counts), 1)

    @property
    def longest_ms(self) -> float:
        return max(outcome.longest_ms for outcome in self.outcomes)

    @property
    def errors(self) -> int:
        return sum(outcome.errors for outcome in self.outcomes)

    @property
    def trouble(self) -> str:
        """What went wrong, in words."""
        parts = [f"{count} {what}" for count, what in ((self.lost, "lost"), (self.gaps, "gaps")) if count]
        return ", ".join(parts + [outcome.first_error for outcome in self.outcomes if outcome.first_error])


def processes(lab: Lab, kind: str) -> Iterator[Figure]:
    seconds = max(0.2, 2.0 * lab.options.scale)
    pairs = [(_bare(lab, seconds), _ours(lab, kind, seconds)) for _ in range(lab.rounds)]
    ours = [found for _, found in pairs]
    rounds = [Round(bare.speed, found.speed) for bare, found in pairs]
    yield ratio("processes", TITLE, "bare, the same", rounds, measured_in="appends/s", goal=0.7, at_least=True)
    wrong = sum(found.errors + found.lost + found.gaps for found in ours)
    note = "; ".join(found.trouble for found in ours if found.trouble)
    yield _fact("processes-errors", "errors, lost, gaps", float(wrong), 0.0, unit="in all", note=note)
    bare_wait = median(bare.longest_ms for bare, _ in pairs)
    wait = median(found.longest_ms for found in ours)
    yield _fact("processes-wait", "longest wait", wait, 500.0, unit="ms", note=f"bare: {bare_wait:.0f} ms")
    bare_share = median(bare.share for bare, _ in pairs)
    share = median(found.share for found in ours)
    note = f"bare: {bare_share:.2f}"
    yield _fact("processes-share", "least to most share", share, 0.3, unit="share", at_least=True, note=note)


def _fact(name: str, what: str, value: float, goal: float, *, unit: str, note: str, at_least: bool = False) -> Figure:
    title = f"{TITLE}: {what}"
    return Figure(name=name, title=title, against="-", value=value, goal=goal, unit=unit, at_least=at_least, note=note)


def _bare(lab: Lab, seconds: float) -> Together:
    path = lab.folder() / "bare.db"
    with closing(BareSqlite(path)) as limit:
        limit.append("somebody else")
    tasks = [Task(session_id=f"{number:026d}", bare=str(path), seconds=seconds) for number in range(PROCESSES)]
    return Together(_run(tasks), seconds)


def _ours(lab: Lab, kind: str, seconds: float) -> Together:
    url = lab.url(kind)
    with open_store(url) as store:
        session = ConversationSession(store=store)
        session.persist()
        together = Together(
            _run([Task(session_id=session.session_id, url=url, seconds=seconds) for _ in range(PROCESSES)]), seconds
        )
        stored = [event.seq for event in store.read(session.session_id)]
    told = sorted(seq for outcome in together.outcomes for seq in outcome.seqs)
    together.gaps = sum(one != other for one, other in zip(stored, range(1, len(stored) + 1), strict=True))
    together.lost = len(told) - len(set(told) & set(stored))
    return together


def _run(tasks: list[Task]) -> list[Outcome]:
    workers = [Worker(task) for task in tasks]
    try:
        for worker in workers:
            worker.await_ready()
        for worker in workers:
            worker.tell("go")
        return [msgspec.json.decode(worker.hear(), type=Outcome) for worker in workers]
    finally:
        for worker in workers:
            worker.close()
