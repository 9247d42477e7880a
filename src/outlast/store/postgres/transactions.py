"""Commits carried out by the engine, in one transaction over the connection that writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

import msgspec
import psycopg

from outlast.store.engine import run, sessions_of
from outlast.store.port import Receipt
from outlast.store.postgres.link import Link
from outlast.store.postgres.rows import PostgresRows
from outlast.store.sealing import Commit

# A process that is stopped in the middle must not hold its locks for ever.
BEGIN: tuple[LiteralString, ...] = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
    "SET LOCAL lock_timeout = '5s'",
    "SET LOCAL statement_timeout = '8s'",
    "SET LOCAL idle_in_transaction_session_timeout = '10s'",
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') <> 'remote_apply'",
)


def carry_out(link: Link, commits: Sequence[Commit], *, again: bool) -> list[list[Receipt]]:
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
            done = [run(rows, _keyed(commit)) for commit in commits]
            rows.flush()
            committed = link.execute("COMMIT")
    except BaseException:
        _roll_back(link)
        raise
    if committed.statusmessage != "COMMIT":
        raise psycopg.errors.InFailedSqlTransaction("the transaction was rolled back")
    return done


def _keyed(commit: Commit) -> Commit:
    """The same commit with its keys stored and looked up, those too that were made for it."""
    keyed = Commit(tuple(msgspec.structs.replace(sealed, own_key=False) for sealed in commit.writes))
    keyed.rerun = commit.rerun
    return keyed


def _roll_back(link: Link) -> None:
    try:
        if not link.closed and link.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            link.execute("ROLLBACK")
    except psycopg.Error:
        link.close()  # the server rolls back by itself
