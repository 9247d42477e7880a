"""Many sessions at once in one process: tasks of one event loop, each appending one message after the other.

The bare side commits each append by itself. SQLite has one writer, so the fastest bare arrangement is one connection
that serves the sessions in turn. PostgreSQL can commit side by side, so there the sessions are spread over threads,
each with its own connection; several numbers of them are tried first and the fastest one is the limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

from holdfast.bench.bare.sqlite import BareSqlite
from holdfast.bench.figure import Figure, ratio
from holdfast.bench.lab import Lab
from holdfast.bench.messages import message
from holdfast.bench.turns import Work, seconds, speeds
from holdfast.session import ConversationSession
from holdfast.store.log_store import LogStore

SESSIONS = 50
GOALS = {"sqlite": 3.0, "files": 3.0, "postgres": 4.0}
CONNECTIONS = (1, 2, 4, 8)


def crowd(lab: Lab, kind: str) -> Iterator[Figure]:
    each = lab.count(40, 2)
    with lab.store(kind) as store, ExitStack() as stack:
        ours = _ours(stack, store)
        ours(2 * SESSIONS)
        names = [f"{number:026d}" for number in range(SESSIONS)]
        if kind == "sqlite":
            bare, note = _bare_sqlite(lab, stack, names), "bare: one connection, the sessions in turn"
        else:
            bare, note = _bare_postgres(lab, stack, names, each)
        bare(2 * SESSIONS)
        rounds = speeds(lab.rounds, each * SESSIONS, bare, ours)
    title = f"{SESSIONS} sessions appending at once, {'SQLite' if kind == 'sqlite' else 'PostgreSQL'}"
    against = "bare, one commit per append"
    name, goal = f"crowd-{kind}", GOALS[kind]
    yield ratio(name, title, against, rounds, measured_in="appends/s", goal=goal, at_least=True, note=note)


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


def _bare_postgres(lab: Lab, stack: ExitStack, names: list[str], each: int) -> tuple[Work, str]:
    from holdfast.bench.bare.postgres import BarePostgres

    url = lab.server().new_database()
    limits = [stack.enter_context(closing(BarePostgres(url))) for _ in range(max(CONNECTIONS))]
    threads = stack.enter_context(ThreadPoolExecutor(max(CONNECTIONS)))

    def with_connections(used: int) -> Work:
        def some(number: int, count: int) -> None:
            mine = names[number::used]
            for turn in range(count):
                limits[number].append(mine[turn % len(mine)])

        def bare(count: int) -> None:
            running = [threads.submit(some, number, count // used) for number in range(used)]
            for thread in running:
                thread.result()

        return bare

    tried = {used: seconds(with_connections(used), each * SESSIONS) for used in CONNECTIONS for _ in range(2)}
    best = min(tried, key=lambda used: tried[used])
    return with_connections(best), f"bare: {best} connections, the fastest of {', '.join(map(str, CONNECTIONS))}"
