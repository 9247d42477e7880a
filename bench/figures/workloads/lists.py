"""Finding a session among many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from bench.figures.bare.sqlite import BareSqlite
from bench.figures.figure import Figure, ratio
from bench.figures.lab import Lab
from bench.figures.turns import Work, in_turns
from bench.figures.workloads.filled import create_sessions
from outlast.session import ConversationSession
from outlast.store.log_store import LogStore

MANY, FEW, SHOWN, TYPED = 10_000, 10, 50, 12


def list_newest(lab: Lab, kind: str) -> Iterator[Figure]:
    many = lab.count(MANY, 100)
    with lab.store(kind) as store, closing(BareSqlite(lab.folder() / "bare.db")) as limit:
        limit.fill_sessions(create_sessions(store, many))

        def bare(count: int) -> None:
            for _ in range(count):
                assert limit.newest(SHOWN) == SHOWN

        def ours(count: int) -> None:
            for _ in range(count):
                assert len(ConversationSession.list(store=store, limit=SHOWN)) == SHOWN

        rounds = in_turns(lab.rounds, lab.count(200, 5), bare, ours, piece=10)
    title = f"list the newest {SHOWN} of {many:,} sessions"
    yield ratio("list", title, "the bare SQL", rounds, measured_in="us", goal=3.0)


def resume_prefix(lab: Lab, kind: str) -> Iterator[Figure]:
    many = lab.count(MANY, 100)
    with lab.store(kind) as big, lab.store(kind) as small:
        names, few = create_sessions(big, many), create_sessions(small, FEW)
        count = lab.count(200, 5)
        rounds = in_turns(lab.rounds, count, _resumes(small, few), _resumes(big, names), piece=10)
    title = f"resume by {TYPED} characters of its id, among {many:,}"
    yield ratio("resume", title, f"the same among {FEW}", rounds, measured_in="us", goal=None)


def _resumes(store: LogStore, names: list[str]) -> Work:
    def some(count: int) -> None:
        for number in range(count):
            name = names[number * 7919 % len(names)]
            assert ConversationSession.resume(name[:TYPED], store=store).session_id == name

    return some
