"""Read view of a PostgreSQL store, including the checks for damage.

An unreadable page aborts the statement and with it the transaction. So a failed read starts a new transaction: the
damage is reported, and the rest stays readable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from outlast.core.errors import DamagedSession, StoreUnavailable
from outlast.core.event_row import StoredEvent
from outlast.store.engine.transaction import HeaderRow, KeyRow
from outlast.store.postgres import errors
from outlast.store.postgres.connection import LONG_SECONDS
from outlast.store.postgres.rows import PostgresRows
from outlast.store.read.inspection import StoredKey, StoreFlaw
from outlast.store.read.read_view import EventSlice, place_in

BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
BLOCKS = "SELECT pg_relation_size('outlast.events') / current_setting('block_size')::bigint"
# By position in the table's file, because an index may be damaged.
SCAN = (
    "SELECT seq, kind, v, at, actor, turn, key, epoch, enc, body, hash, redacted FROM outlast.events "
    "WHERE session_id = %s AND ctid >= %s::tid AND ctid < %s::tid"
)
KEYS_OF = "SELECT scope, key, session_id, seq, count, digest FROM outlast.keys WHERE session_id = ANY(%s)"
OLD_KEYS = (
    "SELECT k.scope, k.key, k.session_id, s.deleted_at FROM outlast.keys k "
    "LEFT JOIN outlast.sessions s ON s.session_id = k.session_id "
    "WHERE (k.scope, k.key) > (%s, %s) ORDER BY k.scope, k.key LIMIT %s"
)
OLD_BLOBS = (
    "SELECT b.session_id, b.sha256, b.chunk, b.at, s.deleted_at FROM outlast.blobs b "
    "JOIN outlast.sessions s ON s.session_id = b.session_id "
    "WHERE (b.session_id, b.sha256, b.chunk) > (%s, %s, %s) ORDER BY b.session_id, b.sha256, b.chunk LIMIT %s"
)
STRANGERS = (
    "SELECT DISTINCT e.session_id FROM outlast.events e "
    "WHERE NOT EXISTS (SELECT FROM outlast.sessions s WHERE s.session_id = e.session_id) LIMIT 100"
)
MISPLACED = "SELECT session_id FROM outlast.sessions WHERE activity <> updated_at >> 16 LIMIT 100"
INDEXES = (
    "SELECT c.oid::regclass::text, c.oid FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid "
    "JOIN pg_am a ON a.oid = c.relam WHERE c.relnamespace = 'outlast'::regnamespace AND a.amname = 'btree' "
    "AND to_regprocedure('bt_index_check(regclass,boolean)') IS NOT NULL ORDER BY 1"
)


class Unreadable(StoreUnavailable):
    """A part of the database cannot be read."""


class PostgresView(PostgresRows):
    """Read view of one transaction, replaced by a new transaction after a read that hit damage."""

    def _all(self, statement: Any, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return super()._all(statement, values)
        except psycopg.Error as error:
            if not errors.is_damage(error):
                raise
            if self._link.pgconn.transaction_status == TransactionStatus.INERROR:
                self._link.execute("ROLLBACK")
                self._link.execute(BEGIN)
            raise Unreadable(f"a part of the database cannot be read ({error}); check the server's log") from error

    def _slowly(self, statement: Any, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement that may read whole tables, with a long timeout."""
        usual, self._link.answer_seconds = self._link.answer_seconds, LONG_SECONDS
        try:
            return self._all(statement, values)
        finally:
            self._link.answer_seconds = usual

    def _one(self, statement: Any, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        found = self._all(statement, values)
        return found[0] if found else None

    def header(self, session_id: str) -> HeaderRow | None:
        try:
            return super().header(session_id)
        except Unreadable as error:
            raise DamagedSession(session_id, None, str(error)) from error

    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        try:
            return super().rows(session_id, after, upto)
        except Unreadable as error:
            raise DamagedSession(session_id, None, str(error)) from error

    # --- housekeeping

    def note(self) -> str | None:
        found = self._one("SELECT value FROM outlast.meta WHERE name = 'housekeeping'", ())
        return None if found is None else found[0]

    def old_keys(self, cursor: str, deleted_before: int, limit: int) -> EventSlice:
        rows = self._all(OLD_KEYS, (*place_in(cursor, ["", ""]), limit))
        found = [
            (session_id, (scope, key) if deleted_at is not None and deleted_at < deleted_before else None)
            for scope, key, session_id, deleted_at in rows
        ]
        return EventSlice.of(found, rows and rows[-1][:2], more=len(rows) == limit)

    def old_blobs(self, cursor: str, after: int, before: int, limit: int) -> EventSlice:
        rows = self._all(OLD_BLOBS, (*place_in(cursor, ["", "", 0]), limit))
        found = [
            (session_id, (sha256, "") if chunk == 0 and deleted_at is None and after <= at < before else None)
            for session_id, sha256, chunk, at, deleted_at in rows
        ]
        return EventSlice.of(found, rows and rows[-1][:3], more=len(rows) == limit)

    # --- for `outlast verify`

    def everything(self) -> tuple[list[str], list[str]]:
        try:
            found = self._slowly("SELECT session_id FROM outlast.sessions ORDER BY session_id")
        except Unreadable as error:
            return [], [str(error)]
        return [name for (name,) in found], []

    def scan(self, session_id: str) -> Iterator[StoredEvent]:
        found = self._one(BLOCKS)
        blocks = 0 if found is None else found[0]
        yield from self._scan(session_id, 0, blocks)

    def _scan(self, session_id: str, first: int, end: int) -> Iterator[StoredEvent]:
        """Yield the session's rows in these blocks; if they cannot be read together, read each half on its own."""
        if first >= end:
            return
        try:
            found = self._slowly(SCAN, (session_id, f"({first},0)", f"({end},0)"))
        except Unreadable:
            if end - first > 1:
                middle = (first + end) // 2
                yield from self._scan(session_id, first, middle)
                yield from self._scan(session_id, middle, end)
            return
        for values in found:
            yield StoredEvent(session_id, *values)

    def keys_of(self, session_ids: Collection[str]) -> list[StoredKey]:
        found = self._slowly(KEYS_OF, (list(session_ids),))
        return [StoredKey(scope, key, KeyRow(name, *row)) for scope, key, name, *row in found]

    def blobs_of(self, session_id: str) -> list[str]:
        found = self._all("SELECT DISTINCT sha256 FROM outlast.blobs WHERE session_id = %s", (session_id,))
        return [sha256 for (sha256,) in found]

    def routes(self, prefix: str = "") -> list[tuple[str, str]]:
        statement = "SELECT route, session_id FROM outlast.routes WHERE starts_with(route, %s) ORDER BY route"
        return [(route, name) for route, name in self._all(statement, (prefix,))]

    def lineages(self) -> list[tuple[str, str]]:
        found = self._all("SELECT root_id, tip_id FROM outlast.lineage ORDER BY root_id")
        return [(root, tip) for root, tip in found]

    def flaws(self, session_id: str) -> Iterator[StoreFlaw]:
        return iter(())  # the verifier compares a session's rows with each other

    def checks(self, deep: bool) -> Iterator[StoreFlaw]:
        return map(StoreFlaw, self._checks(deep))

    def _checks(self, deep: bool) -> Iterator[str]:
        try:
            for (name,) in self._slowly(STRANGERS):
                yield f"there are events of session {name}, but the session does not exist"
            for (name,) in self._slowly(MISPLACED):
                yield f"session {name}: the columns that lists are sorted by differ from its header"
        except Unreadable as error:
            yield str(error)
        for name, number in self._all(INDEXES) if deep else ():
            try:
                self._slowly("SELECT bt_index_check(%s::oid::regclass, true)", (number,))
            except Unreadable as error:
                yield f"index {name}: {error}"
