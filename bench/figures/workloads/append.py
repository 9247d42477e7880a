"""One durable append at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing

from bench.figures.bare.files import BareFile
from bench.figures.bare.sqlite import BareSqlite
from bench.figures.figure import Figure, ratio
from bench.figures.lab import Lab
from bench.figures.messages import message
from bench.figures.turns import Work, in_turns
from outlast.session import ConversationSession

SYNC = {"sqlite": 1.6, "files": 1.5, "postgres": 1.6}
ASYNC = {"sqlite": 2.2, "files": 2.2, "postgres": 2.0}
AGAINST = {
    "sqlite": "bare apsw INSERT + COMMIT, FULL",
    "files": "bare write + fdatasync",
    "postgres": "bare psycopg INSERT, one commit each",
}
SHOWN = {"sqlite": "SQLite", "files": "files", "postgres": "PostgreSQL"}


class Limit:
    """The bare driver of a store, one session of it."""

    def __init__(self, lab: Lab, kind: str, session: str) -> None:
        if kind == "sqlite":
            sqlite = BareSqlite(lab.folder() / "bare.db")
            self.append, self.close = lambda: sqlite.append(session), sqlite.close
        elif kind == "files":
            file = BareFile(lab.folder() / "bare.jsonl")
            self.append, self.close = file.append, file.close
        else:
            from bench.figures.bare.postgres import BarePostgres

            postgres = BarePostgres(lab.server().new_database())
            self.append, self.close = lambda: postgres.append(session), postgres.close

    def times(self, count: int) -> None:
        for _ in range(count):
            self.append()


def append_sync(lab: Lab, kind: str) -> Iterator[Figure]:
    with lab.store(kind) as store:
        session = ConversationSession(store=store)

        def ours(count: int) -> None:
            for _ in range(count):
                session.append(message())

        yield _figure(lab, kind, "sync", SYNC[kind], session.session_id, ours)


def append_async(lab: Lab, kind: str) -> Iterator[Figure]:
    with lab.store(kind) as store, asyncio.Runner() as runner:
        session = ConversationSession(store=store)

        async def some(count: int) -> None:
            for _ in range(count):
                await session.append_async(message())

        yield _figure(lab, kind, "async", ASYNC[kind], session.session_id, lambda count: runner.run(some(count)))


def _figure(lab: Lab, kind: str, api: str, goal: float, session_id: str, ours: Work) -> Figure:
    with closing(Limit(lab, kind, session_id)) as limit:
        warm = lab.count(1_000, 10)  # until the write-ahead logs have reached their size and are written over
        limit.times(warm)
        ours(warm)
        rounds = in_turns(lab.rounds, lab.count(1_000, 10), limit.times, ours)
    name = f"append-{kind}" + ("" if api == "sync" else "-async")
    title = f"one durable append, {SHOWN[kind]}, {api}"
    return ratio(name, title, AGAINST[kind], rounds, measured_in="us", goal=goal)
