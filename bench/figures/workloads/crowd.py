"""Many sessions at once in one process: tasks of one event loop, each appending one message after the other.

The bare side commits each append by itself, over one connection that serves the sessions in turn. SQLite has one
writer, so there nothing bare is faster. PostgreSQL can commit side by side, so there ours is also compared with threads
that have a connection each: several numbers of them are tried, and the fastest one counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

from bench.figures.bare.sqlite import BareSqlite
from bench.figures.figure import Figure, ratio
from bench.figures.lab import Lab
from bench.figures.messages import message
from bench.figures.turns import Work, seconds, speeds
from outlast.session import ConversationSession
from outlast.store.log_store import LogStore

SESSIONS = 50
GOALS = {"sqlite": 3.0, "postgres": 4.0}
SHOWN = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
CONNECTIONS = (2, 4, 8)


def crowd(lab: Lab, kind: str) -> Iterator[Figure]:
    each = lab.count(40, 2)
    with lab.store(kind) as store, ExitStack() as stack:
        ours = _ours(stack, store)
        ours(2 * SESSIONS)
        names = [f"{number:026d}" for number in range(SESSIONS)]
        if kind == "sqlite":
            yield _figure(lab, "sqlite", each, _bare_sqlite(lab, stack, names), ours)
            return
        pool = _Pool(lab, stack, names)
        yield _figure(lab, "postgres", each, pool.bare(1), ours)
        best = pool.fastest(each * SESSIONS)
        yield _figure(lab, "postgres", each, pool.bare(best), ours, connections=best)


def _figure(lab: Lab, kind: str, each: int, bare: Work, ours: Work, connections: int = 1) -> Figure:
    bare(2 * SESSIONS)
    rounds = speeds(lab.rounds, each * SESSIONS, bare, ours)
    title = f"{SESSIONS} sessions appending at once, {SHOWN[kind]}"
    if connections == 1:
        against, goal, name = "bare, one commit per append", GOALS[kind], f"crowd-{kind}"
    else:
        against, goal, name = f"bare, {connections} threads and connections", None, f"crowd-{kind}-pool"
        title += ", against a pool"
    return ratio(name, title, against, rounds, measured_in="appends/s", goal=goal, at_least=True)


def _ours(stack: ExitStack, store: LogStore) -> Work:
    sessions = [ConversationSession(store=store) for _ in range(SESSIONS)]
    runner = stack.enter_context(asyncio.Runner())

    async def appends(session: ConversationSession, count: int) -> None:
        for _ in range(count):
            await session.append_async(message())

    async def all_at_once(count: int) -> None:
        await asyncio.gather(*(appends(session, count // SESSIONS) for session in sessions))

    return lambda count: runner.run(all_at_once(count))


def _bare_sqlite(lab: Lab, stack: ExitStack, names: list[str]) -> Work:
    limit = stack.enter_context(closing(BareSqlite(lab.folder() / "bare.db")))

    def bare(count: int) -> None:
        for number in range(count):
            limit.append(names[number % SESSIONS])

    return bare


class _Pool:
    """Bare PostgreSQL connections, each used by a thread of its own."""

    def __init__(self, lab: Lab, stack: ExitStack, names: list[str]) -> None:
        from bench.figures.bare.postgres import BarePostgres

        url = lab.server().new_database()
        self._limits = [stack.enter_context(closing(BarePostgres(url))) for _ in range(max(CONNECTIONS))]
        self._threads = stack.enter_context(ThreadPoolExecutor(max(CONNECTIONS)))
        self._names = names

    def bare(self, used: int) -> Work:
        def some(number: int, count: int) -> None:
            mine = self._names[number::used]
            for turn in range(count):
                self._limits[number].append(mine[turn % len(mine)])

        def bare(count: int) -> None:
            running = [self._threads.submit(some, number, count // used) for number in range(1, used)]
            some(0, count - (count // used) * (used - 1))
            for thread in running:
                thread.result()

        return bare

    def fastest(self, count: int) -> int:
        """How many connections, more than one, get the most done."""
        taken = {used: min(seconds(self.bare(used), count) for _ in range(2)) for used in CONNECTIONS}
        return min(taken, key=lambda used: taken[used])
