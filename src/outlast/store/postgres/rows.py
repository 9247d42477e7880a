"""Row access of the PostgreSQL store, for the engine's writes and for reads.

Appends, claims and checks have their own SQL in `append_function`, `claim` and `inspection`; the schema is in the
migrations.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import sql

from outlast.core.event_row import StoredEvent
from outlast.core.header import Delta
from outlast.store.engine.transaction import HeaderRow, KeyRow
from outlast.store.port import Chunk, Query, Snapshot
from outlast.store.postgres.connection import PostgresConnection
from outlast.store.read.read_view import ListedSession, ReadMark, place_of

MIB = 1024 * 1024
CLOCK_OF = "postgres"
"""Leases use the server's clock, which is the same for every host."""

FIELDS = HeaderRow.__struct_fields__
ACTIVITY = 16
"""Lists are ordered by the time shifted right by this many bits, then by the time itself."""


def _with_columns(statement: sql.SQL) -> bytes:
    columns = sql.SQL(", ").join(map(sql.Identifier, FIELDS))
    values = sql.SQL(", ").join([sql.Placeholder()] * len(FIELDS))
    return statement.format(columns=columns, values=values).as_bytes()


HEADER = _with_columns(sql.SQL("SELECT {columns} FROM outlast.sessions WHERE session_id = %s"))
LOCKED = _with_columns(sql.SQL("SELECT {columns} FROM outlast.sessions WHERE session_id = %s FOR UPDATE"))
ALL_LOCKED = _with_columns(
    sql.SQL("SELECT {columns} FROM outlast.sessions WHERE session_id = ANY(%s) ORDER BY session_id FOR UPDATE")
)
CREATE = _with_columns(sql.SQL("INSERT INTO outlast.sessions ({columns}, activity) VALUES ({values}, %s)"))
SAVE = _with_columns(
    sql.SQL("UPDATE outlast.sessions SET ({columns}, activity) = ROW ({values}, %s) WHERE session_id = %s")
)
LISTED = _with_columns(
    sql.SQL(
        "SELECT {columns} FROM outlast.sessions WHERE deleted_at IS NULL AND owner_id = %s "
        "AND activity <= %s::bigint >> 16 AND (updated_at, session_id) < (%s, %s) "
        "AND (%s::text IS NULL OR state = %s) AND (%s::text IS NULL OR project_key = %s "
        "OR project_fingerprint = %s) "
        "AND (%s::text IS NULL OR base_id = %s) "
        "ORDER BY activity DESC, updated_at DESC, session_id DESC LIMIT %s"
    )
)
# Deleted sessions have no work; a condition on deleted_at would lead the planner to the index of all live sessions.
WITH_WORK = _with_columns(
    sql.SQL(
        "SELECT {columns} FROM outlast.sessions WHERE work_since IS NOT NULL AND owner_id = %s "
        "AND (updated_at, session_id) < (%s, %s) "
        "AND (%s::text IS NULL OR state = %s) AND (%s::text IS NULL OR project_key = %s "
        "OR project_fingerprint = %s) "
        "AND (%s::text IS NULL OR base_id = %s) "
        "ORDER BY updated_at DESC, session_id DESC LIMIT %s"
    )
)
WITH_OLDEST_WORK = _with_columns(
    sql.SQL(
        "SELECT {columns} FROM outlast.sessions WHERE work_since IS NOT NULL AND owner_id = %s "
        "AND (work_since, session_id) > (%s, %s) "
        "AND (%s::text IS NULL OR state = %s) AND (%s::text IS NULL OR project_key = %s "
        "OR project_fingerprint = %s) "
        "AND (%s::text IS NULL OR base_id = %s) "
        "ORDER BY work_since, session_id LIMIT %s"
    )
)
FORKS = _with_columns(
    sql.SQL("SELECT {columns} FROM outlast.sessions WHERE base_id = %s ORDER BY session_id FOR UPDATE")
)
CLOCK = "SELECT outlast.clock()"
MARKS = (
    "SELECT session_id, base_id, base_seq, last_seq, head_hash, updated_at, deleted_at IS NOT NULL "
    "FROM outlast.sessions"
)
WITH_PREFIX = (
    "SELECT session_id FROM outlast.sessions WHERE session_id >= %s AND session_id < %s AND owner_id = %s "
    "AND deleted_at IS NULL ORDER BY session_id LIMIT %s"
)
INSERT_EVENT = (
    "INSERT INTO outlast.events (session_id, seq, kind, v, at, actor, turn, key, epoch, enc, body, hash) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %b, %b)"
)
EVENTS = (
    "SELECT seq, kind, v, at, actor, turn, key, epoch, enc, body, hash, redacted FROM outlast.events "
    "WHERE session_id = %s AND seq > %s AND seq <= %s ORDER BY seq"
)
PUT_BLOB = (
    "INSERT INTO outlast.blobs (session_id, sha256, chunk, at, data) VALUES (%s, %s, %s, outlast.clock(), %b) "
    "ON CONFLICT (session_id, sha256, chunk) DO UPDATE SET at = excluded.at, data = excluded.data"
)
PUT_SNAPSHOT = (
    "INSERT INTO outlast.snapshots (session_id, seq, fold_version, state) VALUES (%s, %s, %s, %b) "
    "ON CONFLICT (session_id, seq) DO UPDATE SET fold_version = excluded.fold_version, state = excluded.state"
)


class PostgresRows:
    """Implements `Transaction` and the row reads of `ReadView` over one connection inside one transaction.

    With `writing`, reading a header locks its row.
    """

    def __init__(self, link: PostgresConnection, *, writing: bool = False) -> None:
        self._link = link
        self._header = LOCKED if writing else HEADER
        self._known: dict[str, HeaderRow] = {}
        self._dirty: dict[str, HeaderRow] = {}
        self._absent: set[str] = set()
        self._clock: tuple[int, float] | None = None

    def _all(self, statement: Any, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._link.execute(statement, values, binary=True).fetchall()

    def _one(self, statement: Any, values: Sequence[Any]) -> tuple[Any, ...] | None:
        return self._link.execute(statement, values, binary=True).fetchone()

    def _do(self, statement: Any, values: Sequence[Any]) -> None:
        self._link.execute(statement, values)

    # --- headers

    def clock(self) -> int:
        """Return the server's time, fetched once and advanced with the local monotonic clock."""
        if self._clock is None:
            self._set_clock(self._one(CLOCK, ()))
        assert self._clock is not None
        at, since = self._clock
        return at + int((time.monotonic() - since) * 1_000_000)

    def _set_clock(self, found: tuple[Any, ...] | None) -> None:
        assert found is not None
        self._clock = (found[0], time.monotonic())

    def lease_clock(self) -> tuple[int, str]:
        return self.clock() // 1000, CLOCK_OF

    def lock(self, session_ids: Sequence[str]) -> None:
        """Lock these headers in id order, whatever the order of the writes, so that transactions do not deadlock."""
        locked = self._link.execute(ALL_LOCKED, (list(session_ids),), binary=True)
        clock = self._link.execute(CLOCK, binary=True)  # pipelined with the locks; runs once they are granted
        for values in locked.fetchall():
            self._know(_row(values))
        # If another process creates one of these meanwhile, our own insert collides and the transaction is retried.
        self._absent = set(session_ids) - self._known.keys()
        self._set_clock(clock.fetchone())

    def header(self, session_id: str) -> HeaderRow | None:
        row = self._known.get(session_id)
        if row is None and session_id not in self._absent:
            found = self._one(self._header, (session_id,))
            row = None if found is None else self._know(_row(found))
        return row

    def _know(self, row: HeaderRow) -> HeaderRow:
        """Return the same object for a session, however often it is read."""
        return self._known.setdefault(row.session_id, row)

    def create(self, row: HeaderRow) -> None:
        self._do(CREATE, _values(row))
        self._known[row.session_id] = row

    def save(self, row: HeaderRow) -> None:
        self._dirty[row.session_id] = row

    def flush(self) -> None:
        """Write each changed header once."""
        for row in self._dirty.values():
            self._do(SAVE, (*_values(row), row.session_id))
        self._dirty.clear()

    def forks(self, session_id: str) -> list[HeaderRow]:
        # This transaction's own changes are not written yet, so known rows are newer than the ones read here.
        rows = [self._know(_row(values)) for values in self._all(FORKS, (session_id,))]
        return [row for row in rows if row.base_id == session_id]

    # --- events and keys

    def append(self, row: HeaderRow, events: list[StoredEvent]) -> None:
        with self._link.cursor() as cursor:
            cursor.executemany(INSERT_EVENT, [event[:12] for event in events])
        self._dirty[row.session_id] = row

    def restore(
        self,
        row: HeaderRow,
        events: list[StoredEvent],
        deltas: Mapping[int, Delta],
        keys: Sequence[tuple[str, KeyRow]],
    ) -> None:
        self.append(row, events)
        if deltas:
            statement = "UPDATE outlast.events SET redacted = true WHERE session_id = %s AND seq = ANY(%s)"
            self._do(statement, (row.session_id, list(deltas)))
        for key, found in keys:
            self.put_key(row.root_id, key, found)

    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        return [StoredEvent(session_id, *values) for values in self._all(EVENTS, (session_id, after, upto))]

    def hash_at(self, session_id: str, seq: int) -> bytes | None:
        found = self._one("SELECT hash FROM outlast.events WHERE session_id = %s AND seq = %s", (session_id, seq))
        return None if found is None else found[0]

    def key(self, scope: str, key: str) -> KeyRow | None:
        statement = "SELECT session_id, seq, count, digest FROM outlast.keys WHERE scope = %s AND key = %s"
        found = self._one(statement, (scope, key))
        return None if found is None else KeyRow(*found)

    def put_key(self, scope: str, key: str, row: KeyRow) -> None:
        statement = (
            "INSERT INTO outlast.keys (scope, key, session_id, seq, count, digest) VALUES (%s, %s, %s, %s, %s, %b)"
        )
        self._do(statement, (scope, key, row.session_id, row.seq, row.events, row.digest))

    def forget_keys(self, session_id: str, keys: Sequence[tuple[str, str]]) -> None:
        statement = (
            "DELETE FROM outlast.keys k USING unnest(%s::text[], %s::text[]) AS gone (scope, key) "
            "WHERE k.scope = gone.scope AND k.key = gone.key AND k.session_id = %s"
        )
        self._do(statement, ([scope for scope, _ in keys], [key for _, key in keys], session_id))

    def key_in_log(self, session_id: str, key: str) -> KeyRow | None:
        return None  # this store keeps every key in the table `keys`

    def tip(self, root_id: str) -> str | None:
        found = self._one("SELECT tip_id FROM outlast.lineage WHERE root_id = %s", (root_id,))
        return None if found is None else found[0]

    def put_tip(self, root_id: str, session_id: str) -> None:
        statement = (
            "INSERT INTO outlast.lineage (root_id, tip_id) VALUES (%s, %s) "
            "ON CONFLICT (root_id) DO UPDATE SET tip_id = excluded.tip_id"
        )
        self._do(statement, (root_id, session_id))

    def drop_events(self, session_id: str, after: int) -> None:
        self._do("DELETE FROM outlast.events WHERE session_id = %s AND seq > %s", (session_id, after))

    def blank(self, session_id: str, seq: int, digest: bytes) -> None:
        statement = "UPDATE outlast.events SET body = %b, redacted = true WHERE session_id = %s AND seq = %s"
        self._do(statement, (digest, session_id, seq))

    # --- drafts

    def last_chunk(self, session_id: str, attempt_seq: int) -> int:
        statement = "SELECT n, attempt_seq FROM outlast.chunks WHERE session_id = %s ORDER BY n DESC LIMIT 1"
        found = self._one(statement, (session_id,))
        return found[0] if found is not None and found[1] == attempt_seq else 0

    def chunk(self, session_id: str, attempt_seq: int, n: int) -> Chunk | None:
        statement = "SELECT attempt_seq, n, part, data FROM outlast.chunks WHERE session_id = %s AND n = %s"
        found = self._one(statement, (session_id, n))
        return None if found is None or found[0] != attempt_seq else _chunk(found)

    def chunks(self, session_id: str, after: int) -> list[Chunk]:
        statement = "SELECT attempt_seq, n, part, data FROM outlast.chunks WHERE session_id = %s AND n > %s ORDER BY n"
        return [_chunk(values) for values in self._all(statement, (session_id, after))]

    def put_chunk(self, session_id: str, chunk: Chunk) -> None:
        if chunk.n == 1:
            self.drop_chunks(session_id)
        statement = "INSERT INTO outlast.chunks (session_id, n, attempt_seq, part, data) VALUES (%s, %s, %s, %s, %b)"
        self._do(statement, (session_id, chunk.n, chunk.attempt_seq, chunk.part, chunk.data))

    def drop_chunks(self, session_id: str) -> None:
        self._do("DELETE FROM outlast.chunks WHERE session_id = %s", (session_id,))

    # --- routes, blobs, snapshots

    def route(self, route: str) -> str | None:
        found = self._one("SELECT session_id FROM outlast.routes WHERE route = %s", (route,))
        return None if found is None else found[0]

    def locked_route(self, route: str) -> str | None:
        self._do("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", (route,))  # a new route has no row to lock
        found = self._one("SELECT session_id FROM outlast.routes WHERE route = %s FOR UPDATE", (route,))
        return None if found is None else found[0]

    def put_route(self, route: str, session_id: str | None) -> None:
        if session_id is None:
            self._do("DELETE FROM outlast.routes WHERE route = %s", (route,))
            return
        statement = (
            "INSERT INTO outlast.routes (route, session_id) VALUES (%s, %s) "
            "ON CONFLICT (route) DO UPDATE SET session_id = excluded.session_id"
        )
        self._do(statement, (route, session_id))

    def move_routes(self, from_session_id: str, to_session_id: str | None) -> None:
        if to_session_id is None:
            self._do("DELETE FROM outlast.routes WHERE session_id = %s", (from_session_id,))
            return
        statement = "UPDATE outlast.routes SET session_id = %s WHERE session_id = %s"
        self._do(statement, (to_session_id, from_session_id))

    def blob(self, session_id: str, sha256: str) -> bytes | None:
        statement = "SELECT data FROM outlast.blobs WHERE session_id = %s AND sha256 = %s ORDER BY chunk"
        found = self._all(statement, (session_id, sha256))
        return b"".join(data for (data,) in found) if found else None

    def blob_part(self, session_id: str, sha256: str, number: int) -> bytes | None:
        statement = "SELECT data FROM outlast.blobs WHERE session_id = %s AND sha256 = %s AND chunk = %s"
        found = self._one(statement, (session_id, sha256, number))
        return None if found is None else found[0]

    def put_blob(self, session_id: str, sha256: str, data: bytes) -> None:
        for number, at in enumerate(range(0, max(len(data), 1), MIB)):
            self._do(PUT_BLOB, (session_id, sha256, number, data[at : at + MIB]))

    def blobs(self, session_id: str) -> dict[str, int]:
        statement = "SELECT sha256, max(at) FROM outlast.blobs WHERE session_id = %s GROUP BY sha256"
        found = self._all(statement, (session_id,))
        return {row[0]: row[1] for row in found}

    def drop_blobs(self, session_id: str, keep: set[str]) -> None:
        statement = "DELETE FROM outlast.blobs WHERE session_id = %s AND sha256 <> ALL(%s)"
        self._do(statement, (session_id, list(keep)))

    def snapshot(self, session_id: str, at_most: int) -> Snapshot | None:
        statement = (
            "SELECT seq, fold_version, state FROM outlast.snapshots WHERE session_id = %s AND seq <= %s "
            "ORDER BY seq DESC LIMIT 1"
        )
        found = self._one(statement, (session_id, at_most))
        return None if found is None else Snapshot(seq=found[0], fold_version=found[1], state=found[2])

    def put_note(self, text: str) -> None:
        statement = (
            "INSERT INTO outlast.meta (name, value) VALUES ('housekeeping', %s) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        self._do(statement, (text,))

    def put_snapshot(self, session_id: str, seq: int, fold_version: int, state: bytes) -> None:
        self._do(PUT_SNAPSHOT, (session_id, seq, fold_version, state))

    def drop_snapshots(self, session_id: str) -> None:
        self._do("DELETE FROM outlast.snapshots WHERE session_id = %s", (session_id,))

    # --- lists

    def listed(self, query: Query, position: tuple[int, str], limit: int) -> list[ListedSession]:
        project = (query.project_key, query.project_key, query.project_fingerprint)
        filters = (query.state, query.state, *project, query.base_id, query.base_id)
        if query.pending:
            statement = WITH_OLDEST_WORK if query.oldest_first else WITH_WORK
            found = self._all(statement, (query.owner_id, *position, *filters, limit))
        else:
            found = self._all(LISTED, (query.owner_id, position[0], *position, *filters, limit))
        rows = [_row(values) for values in found]
        return [ListedSession(row.session_id, place_of(row, query), row) for row in rows]

    def marks(self) -> list[ReadMark]:
        return [ReadMark(*values) for values in self._all(MARKS, ())]

    def with_prefix(self, prefix: str, owner_id: str, limit: int) -> list[str]:
        return [name for (name,) in self._all(WITH_PREFIX, (prefix, prefix + "~", owner_id, limit))]


def _row(values: Sequence[Any]) -> HeaderRow:
    named: dict[str, Any] = dict(zip(FIELDS, values, strict=True))
    return HeaderRow(**named)


def _values(row: HeaderRow) -> list[Any]:
    """Return the header's fields and its activity, by which lists are ordered."""
    return [*(getattr(row, name) for name in FIELDS), row.updated_at >> ACTIVITY]


def _chunk(values: Sequence[Any]) -> Chunk:
    return Chunk(attempt_seq=values[0], n=values[1], part=values[2], data=values[3])
