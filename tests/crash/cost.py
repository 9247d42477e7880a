"""`python -m tests.crash.cost`: what a turn costs on PostgreSQL, besides its model: commits, bytes, processor time.

A crew in this process answers many sessions with a model that answers at once, so that nothing is left but the engine
and the store. Processor time is told apart for this process and for PostgreSQL's; it hardly depends on who else uses
the machine, as wall time does. The last row is the same with the events in 16 partitions. Below the table: how fast one
log grows, and what a sync takes. All of it goes into `docs/internals/scaling.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from outlast.app.sessions.create import create
from outlast.app.settings import Settings
from outlast.app.workers.worker_pool import WorkerPool
from outlast.core import events as e
from outlast.core.header import Header
from outlast.core.messages import Part, Role, TextPart, ToolCall, ToolResult, Usage, text_of
from outlast.models.port import Abilities, Finished, ModelEvent, ModelRequest, TextDelta
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.service import SessionService
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Create, NewEvent
from outlast.testing.contract.exam import new_id
from tests.crash.oracle import Job, saying
from tests.support.pg import PgServer

TICKS = os.sysconf("SC_CLK_TCK")
AT_ONCE = 50
APPENDS = 2_000
SYNCS = "SELECT sum(fsyncs), sum(fsync_time) FROM pg_stat_io WHERE object = 'wal'"


class Kind(NamedTuple):
    """A kind of turn: its steps, how long its replies stream, and whether the events lie in partitions."""

    words: str
    groups: tuple[str, ...] = ()
    streams: float = 0.0
    partitioned: bool = False


KINDS = (
    Kind("an answer"),
    Kind("a write, a read, an answer", groups=("V", "R")),
    Kind("an answer that streams for 5 s", streams=5.0),
    Kind("an answer, events in 16 partitions", partitioned=True),
)


class Instant:
    """A model that answers at once, or in words of which 20 come a second."""

    name = provider = "instant"
    abilities = Abilities(context_window=200_000, summarises=False)

    def __init__(self, streams: float) -> None:
        self._streams = streams

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        said = saying([_spoken(str(message.role), message.parts) for message in request.messages])
        for _ in range(int(self._streams * 20)):
            yield TextDelta("a word ")
            await asyncio.sleep(0.05)
        calls = [ToolCall(id=call.name, name=call.tool, arguments=call.arguments) for call in said.calls]
        parts: tuple[Part, ...] = (TextPart(said.text), *calls)
        yield Finished(
            parts=parts, usage=Usage(input_tokens=9, output_tokens=9), finish_reason="tool_calls" if calls else "stop"
        )

    async def close(self) -> None:
        """Nothing is held open."""


def _spoken(role: str, parts: tuple[Part, ...]) -> dict[str, str]:
    results = any(isinstance(part, ToolResult) for part in parts)
    return {"role": "tool" if results else role, "content": text_of(parts)}


@dataclass
class Cost:
    """Per turn."""

    kind: str
    sessions: int
    transactions: float
    wal_kb: float
    stored_kb: float
    events: float
    syncs: float
    worker_ms: float
    postgres_ms: float


class Meter:
    """What PostgreSQL and this process have used so far."""

    def __init__(self, server: PgServer, database: str) -> None:
        self._server, self._database = server, database

    def read(self) -> tuple[float, ...]:
        [(commits, wal, stored, events, syncs)] = self._server.sql(
            "SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()),"
            " pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'), pg_database_size(current_database()),"
            " (SELECT count(*) FROM outlast.events), (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal')",
            database=self._database,
        )
        own = os.times()
        told = (commits, wal, stored, events, syncs or 0, own.user + own.system, self._cpu())
        return tuple(map(float, told))

    def _cpu(self) -> float:
        """Of the server's process, those that it has seen end, and those that live."""
        master = (self._server.data / "postmaster.pid").read_text().split()[0]
        whole = _seconds(master, children=True)
        return whole + sum(_seconds(pid, children=False) for pid in _children(master))


def _seconds(pid: str, *, children: bool) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if children else 13])) / TICKS


def _children(pid: str) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


PARTITIONED = (
    "ALTER TABLE outlast.events RENAME TO whole",
    "CREATE TABLE outlast.events (LIKE outlast.whole INCLUDING ALL) PARTITION BY HASH (session_id)",
    *(
        f"CREATE TABLE outlast.events_{n} PARTITION OF outlast.events FOR VALUES WITH (MODULUS 16, REMAINDER {n})"
        for n in range(16)
    ),
    "DROP TABLE outlast.whole",
)


async def measured(server: PgServer, kind: Kind, sessions: int, folder: Path) -> Cost:
    url = await asyncio.to_thread(server.create_database)
    project = Path(tempfile.mkdtemp(dir=folder))
    database = url.split("/")[3].split("?")[0]
    settings = Settings(
        home=folder / "home",
        project_root=project,
        store=url,
        model="instant",
        permission_mode=PermissionMode.DANGER_FULL_ACCESS,
    )
    store = await asyncio.to_thread(open_store, url)
    for statement in PARTITIONED if kind.partitioned else ():
        await asyncio.to_thread(server.sql, statement, database=database)
    pool = WorkerPool(store, settings, AgentConfig(auto_context=False), at_once=AT_ONCE)
    pool.contexts.models[None] = Instant(kind.streams)
    meter = Meter(server, database)
    names = [await asyncio.to_thread(create, store, settings, project, door="http") for _ in range(sessions)]
    await _answered(pool, store, names[:10], kind, "w")  # everything is warm, and loaded
    before = await asyncio.to_thread(meter.read)
    await _answered(pool, store, names, kind, "m")
    await asyncio.sleep(1.2)  # statistics are told once a second
    after = await asyncio.to_thread(meter.read)
    await pool.close()
    await asyncio.to_thread(store.close)
    used = [(b - a) / sessions for a, b in zip(before, after, strict=True)]
    transactions, wal, stored, events, syncs, own, postgres = used
    return Cost(
        kind.words, sessions, transactions, wal / 1024, stored / 1024, events, syncs, own * 1000, postgres * 1000
    )


async def _answered(pool: WorkerPool, store: LogStore, names: list[str], kind: Kind, word: str) -> None:
    service = SessionService(store, "http")
    for n, name in enumerate(names):
        await service.admit(name, Job(f"{word}{n}", kind.groups).text)
    await pool.start()
    for name in names:
        pool.wake(name)
    while (queue := await asyncio.to_thread(store.queue)).waiting or queue.driven:
        await asyncio.sleep(0.25)


def one_log(server: PgServer) -> str:
    """One session, one append after the other: nothing can be shared, so it is as slow as a log can be."""
    url, session_id = server.create_database(), new_id()
    with open_store(url) as store:
        store.commit(Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),)))
        before, began = _syncs(server), time.perf_counter()
        for n in range(APPENDS):
            said = e.MessageAppended(role=Role.USER, parts=(TextPart(f"message {n} " + "x" * 600),))
            store.commit(Append(session_id=session_id, events=(NewEvent(event=said, actor="user"),)))
        seconds = time.perf_counter() - began
        time.sleep(1.2)  # statistics are told once a second
        count, ms = (b - a for a, b in zip(before, _syncs(server), strict=True))
    return f"One session: {APPENDS / seconds:.0f} appends a second; a sync takes {ms / count:.2f} ms."


def _syncs(server: PgServer) -> tuple[float, float]:
    [(count, ms)] = server.sql(SYNCS)
    return float(count), float(ms)


async def main(sessions: int) -> None:
    server = PgServer(track_wal_io_timing="on")
    try:
        with tempfile.TemporaryDirectory() as folder:
            print("| a turn with | events | transactions | syncs | WAL | stored | worker | PostgreSQL |")
            print("|---|---:|---:|---:|---:|---:|---:|---:|")
            for kind in KINDS:
                cost = await measured(server, kind, sessions, Path(folder))
                print(
                    f"| {cost.kind} | {cost.events:.0f} | {cost.transactions:.1f} | {cost.syncs:.1f} "
                    f"| {cost.wal_kb:.1f} KB | {cost.stored_kb:.1f} KB "
                    f"| {cost.worker_ms:.1f} ms | {cost.postgres_ms:.1f} ms |"
                )
        print(await asyncio.to_thread(one_log, server))
    finally:
        server.close()


def _sessions() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.cost", description="What a turn costs on PostgreSQL.")
    parser.add_argument("--sessions", type=int, default=300)
    return parser.parse_args().sessions


if __name__ == "__main__":
    asyncio.run(main(_sessions()))
