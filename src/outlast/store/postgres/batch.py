"""Splits a batch of commits into steps, and runs the steps that need the engine, each in one transaction.

Plain appends share a step, everything else goes through the engine; the commits of each session keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString, NamedTuple

import msgspec
import psycopg

from outlast.store.engine.commit import apply_commit, sessions_of
from outlast.store.engine.encode import EncodedCommit
from outlast.store.group_commit import PendingCommit
from outlast.store.port import Receipt
from outlast.store.postgres.append_function import is_plain
from outlast.store.postgres.connection import PostgresConnection
from outlast.store.postgres.rows import PostgresRows


class BatchStep(NamedTuple):
    """Commits for one transaction. `plain` steps use the SQL function, the others the engine."""

    plain: bool
    entries: list[PendingCommit]


def steps_of(batch: list[PendingCommit]) -> list[BatchStep]:
    """Split the batch into steps in which no commit overtakes an earlier one that names the same session.

    An append joins the newest step of appends if order allows it, however many other commits came between.
    """
    if all(is_plain(entry.commit) for entry in batch) and _differ(batch):
        return [BatchStep(True, batch)]
    steps: list[BatchStep] = []
    engine_step: dict[str, int] = {}
    keys: set[str | None] = set()
    appends = -1
    for entry in batch:
        writes = entry.commit.writes
        sessions = [name for sealed in writes for name in sessions_of(sealed.write)]
        # A step with the same key twice would collide with itself.
        if is_plain(entry.commit) and writes[0].key not in keys:
            keys.add(writes[0].key)
            if appends <= engine_step.get(sessions[0], -1):
                steps.append(BatchStep(True, []))
                appends = len(steps) - 1
            steps[appends].entries.append(entry)
            continue
        if not steps or steps[-1].plain:
            steps.append(BatchStep(False, []))
        steps[-1].entries.append(entry)
        engine_step.update(dict.fromkeys(sessions, len(steps) - 1))
    return steps


def _differ(appends: list[PendingCommit]) -> bool:
    """Whether all keys are distinct."""
    return len({entry.commit.writes[0].key for entry in appends}) == len(appends)


# The timeouts keep a process that is stopped inside a transaction from holding its locks forever.
BEGIN: tuple[LiteralString, ...] = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    "SET LOCAL lock_timeout = '5s'",
    "SET LOCAL statement_timeout = '8s'",
    "SET LOCAL idle_in_transaction_session_timeout = '10s'",
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') <> 'remote_apply'",
)


def carry_out(link: PostgresConnection, commits: Sequence[EncodedCommit], *, again: bool) -> list[list[Receipt]]:
    """Write all commits or none, durable on return. `again`: an earlier attempt may have been committed.

    Statements whose result is not needed are pipelined, including the COMMIT.
    """
    named = {name for commit in commits for sealed in commit.writes for name in sessions_of(sealed.write)}
    try:
        with link.pipeline():
            for statement in BEGIN:
                link.execute(statement)
            rows = PostgresRows(link, writing=True)
            rows.lock(sorted(named))
            for commit in commits:
                commit.rerun = commit.rerun or again
            done = [apply_commit(rows, _keyed(commit)) for commit in commits]
            rows.flush()
            committed = link.execute("COMMIT")
    except BaseException:
        _roll_back(link)
        raise
    if committed.statusmessage != "COMMIT":
        raise psycopg.errors.InFailedSqlTransaction("the transaction was rolled back")
    return done


def _keyed(commit: EncodedCommit) -> EncodedCommit:
    """Return the commit with all of its keys stored and looked up, including generated ones."""
    keyed = EncodedCommit(tuple(msgspec.structs.replace(sealed, own_key=False) for sealed in commit.writes))
    keyed.rerun = commit.rerun
    return keyed


def _roll_back(link: PostgresConnection) -> None:
    try:
        if not link.closed and link.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            link.execute("ROLLBACK")
    except psycopg.Error:
        link.close()  # the server rolls back by itself
