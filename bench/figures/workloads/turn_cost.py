"""What a turn costs PostgreSQL in commits and bytes of its log, with few sessions in the store and with very many."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench.figures.figure import Figure, Round, ratio
from bench.figures.lab import Lab
from bench.figures.messages import text
from outlast.app.sessions.create import create
from outlast.app.settings import Settings, load_settings
from outlast.app.workers.worker_pool import WorkerPool
from outlast.runtime.service import SessionService
from outlast.store import open_store
from outlast.store.log_store import LogStore

FEW, MANY, TURNS = 100, 100_000, 30
GOAL = 1.25

# Idle sessions, each with an event and a key as Outlast leaves them; no workload reads them, so copies will do.
SESSIONS = (
    "INSERT INTO outlast.sessions SELECT (jsonb_populate_record(s, jsonb_build_object('session_id', x.name, "
    "'root_id', x.name))).* FROM outlast.sessions s, generate_series(%s::int, %s) n, "
    "LATERAL (SELECT lpad(translate(n::text, '0123456789', 'abcdefghij'), 26, 'z') AS name) x WHERE s.session_id = %s"
)
EVENTS = (
    "INSERT INTO outlast.events (session_id, seq, v, at, epoch, kind, actor, turn, key, enc, hash, body) "
    "SELECT x.name, e.seq, e.v, e.at, e.epoch, e.kind, e.actor, e.turn, e.key, e.enc, e.hash, e.body "
    "FROM outlast.events e, generate_series(%s::int, %s) n, "
    "LATERAL (SELECT lpad(translate(n::text, '0123456789', 'abcdefghij'), 26, 'z') AS name) x WHERE e.session_id = %s"
)
KEYS = (
    "INSERT INTO outlast.keys (scope, key, session_id, seq, count, digest) "
    "SELECT x.name, k.key, x.name, k.seq, k.count, k.digest FROM outlast.keys k, generate_series(%s::int, %s) n, "
    "LATERAL (SELECT lpad(translate(n::text, '0123456789', 'abcdefghij'), 26, 'z') AS name) x WHERE k.session_id = %s"
)


class Cost(msgspec.Struct, frozen=True):
    """Of one turn, on average."""

    commits: float
    kilobytes: float


def turn_cost(lab: Lab, kind: str) -> Iterator[Figure]:
    turns, many = lab.count(TURNS, 5), lab.count(MANY, 10 * FEW)
    pairs = [_round(lab, kind, turns, many) for _ in range(min(lab.rounds, 3))]
    title = f"of a turn with {many:,} sessions in the store"
    commits = [Round(few.commits, more.commits) for few, more in pairs]
    kilobytes = [Round(few.kilobytes, more.kilobytes) for few, more in pairs]
    against = f"{FEW} sessions"
    yield ratio("turn-cost-commits", f"commits {title}", against, commits, measured_in="commits", goal=GOAL)
    yield ratio("turn-cost-bytes", f"bytes of WAL {title}", against, kilobytes, measured_in="KB", goal=GOAL)


def _round(lab: Lab, kind: str, turns: int, many: int) -> tuple[Cost, Cost]:
    url, folder = lab.url(kind), lab.folder()
    script = folder / "script.json"
    script.write_text(json.dumps([{"content": "It is done."}]))
    settings = load_settings(
        home=folder / "home", store=url, model=f"scripted:{script}", permission_mode="read-only", project_root=folder
    )
    with open_store(url) as store:
        # What first changes after a checkpoint is logged by the page: none is to come before the end.
        _sql(url, "CHECKPOINT")
        made = [create(store, settings, folder, door="http") for _ in range(FEW)]
        _measured(store, settings, folder, url, 2)
        few = _measured(store, settings, folder, url, turns)
        _fill(url, made[0], FEW, many)
        more = _measured(store, settings, folder, url, turns)
    return few, more


def _fill(url: str, like: str, first: int, last: int) -> None:
    for statement in (SESSIONS, EVENTS, KEYS):
        _sql(url, statement, first, last, like)


def _measured(store: LogStore, settings: Settings, folder: Path, url: str, turns: int) -> Cost:
    """One turn after the other, each in a session of its own, which is there already."""
    names = [create(store, settings, folder, door="http") for _ in range(turns)]
    asyncio.run(_turns(store, settings, names[:1]))
    commits = 0

    def counted(seconds: float, count: int) -> None:
        nonlocal commits
        commits += count

    store.timed = counted
    [[before]] = _sql(url, "SELECT pg_current_wal_insert_lsn()::text")
    claims = asyncio.run(_turns(store, settings, names[1:]))
    [[size]] = _sql(url, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %s::pg_lsn)::bigint", before)
    store.timed = None
    return Cost((commits + claims) / (turns - 1), size / (turns - 1) / 1000)


async def _turns(store: LogStore, settings: Settings, names: list[str]) -> int:
    """How often something was claimed for them."""
    service = SessionService(store, "http")
    pool = WorkerPool(store, settings, at_once=1)
    await pool.start()
    try:
        for name in names:
            await service.admit(name, text())
            pool.wake(name)
            while store.head(name).has_work or pool.running:
                await asyncio.sleep(0.002)
    finally:
        await pool.close()
    return pool.metrics.value("outlast_claims_total")


def _sql(url: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []
