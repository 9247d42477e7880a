"""A batch of commits put into steps: appends together, everything else by the engine, each session in its order.

Commits carried out by the engine, in one transaction over the connection that writes.
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
    """What goes into one transaction. `plain` appends go through the SQL function, the rest through the engine."""

    plain: bool
    entries: list[PendingCommit]


def steps_of(batch: list[PendingCommit]) -> list[BatchStep]:
    """The entries in steps, so that no commit overtakes an earlier one that names the same session.

    Appends join the newest step of appends that they may join, however many other commits came between.
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
        # The same key twice in one step would be a collision with ourselves.
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
    """Whether no two of them have the same key."""
    return len({entry.commit.writes[0].key for entry in appends}) == len(appends)


# A process that is stopped in the middle must not hold its locks for ever.
BEGIN: tuple[LiteralString, ...] = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    "SET LOCAL lock_timeout = '5s'",
    "SET LOCAL statement_timeout = '8s'",
    "SET LOCAL idle_in_transaction_session_timeout = '10s'",
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') <> 'remote_apply'",
)


def carry_out(link: PostgresConnection, commits: Sequence[EncodedCommit], *, again: bool) -> list[list[Receipt]]:
    """All of the commits or none, durable on return. `again`: an earlier try may have been committed.

    What needs no answer is sent without waiting for one, up to the COMMIT itself.
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
    """The same commit with its keys stored and looked up, those too that were made for it."""
    keyed = EncodedCommit(tuple(msgspec.structs.replace(sealed, own_key=False) for sealed in commit.writes))
    keyed.rerun = commit.rerun
    return keyed


def _roll_back(link: PostgresConnection) -> None:
    try:
        if not link.closed and link.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            link.execute("ROLLBACK")
    except psycopg.Error:
        link.close()  # the server rolls back by itself
