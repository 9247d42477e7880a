"""Row access of the SQLite store, for the engine's writes and for reads: its statements and its header encoding.

Checks for damage add their own SQL in `inspection`; the schema is in the migrations.
"""

from __future__ import annotations

import zlib
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from outlast.core.errors import DamagedSession
from outlast.core.event_row import StoredEvent
from outlast.core.header import Delta, Header
from outlast.store.engine.transaction import HeaderRow, KeyRow
from outlast.store.port import Chunk, Query, Snapshot
from outlast.store.process_identity import boot_id, boot_ms, now_us
from outlast.store.read.read_view import ListedSession, ReadMark
from outlast.store.sqlite.file_guard import acknowledged_is_gone
from outlast.store.sqlite.list_statement import list_statement

MIB = 1024 * 1024
KEY_LOOK_BACK = 4096

UNREADABLE = (apsw.CorruptError, apsw.NotADBError, apsw.TooBigError, apsw.SQLError, UnicodeDecodeError)
"""Errors raised by reading a damaged row; SQLError if the definition of its table is damaged."""

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(HeaderRow).decode
_decode_listed = msgspec.json.Decoder(Header).decode
_crc = zlib.crc32

HEADER = "SELECT sid, header, crc FROM sessions WHERE session_id = ?"
INSERT_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)"
SETTLE = "UPDATE sessions SET listed_at = ? WHERE sid = ?"
SAVE = "UPDATE sessions SET listed_at = ?, state = ?, base_id = ?, deleted_at = ?, header = ?, crc = ? WHERE sid = ?"
SAVE_HEADER = "UPDATE sessions SET header = ?, crc = ? WHERE sid = ?"
FIRST_LISTED = (
    "SELECT session_id, state, base_id, deleted_at FROM sessions INDEXED BY sessions_by_activity "
    "WHERE deleted_at IS NULL AND owner_id = ? ORDER BY listed_at DESC, session_id DESC LIMIT 1"
)
CREATE = (
    "INSERT INTO sessions (session_id, owner_id, listed_at, state, project_key, base_id, header, crc) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
EVENTS = (
    "SELECT ?, id & 4294967295, kind, v, at, actor, turn, key, epoch, enc, body, hash, redacted IS 1 "
    "FROM events WHERE id > ? AND id <= ? ORDER BY id"
)
HASH = "SELECT hash FROM events WHERE id = ?"
KEY = "SELECT session_id, seq, count, digest FROM keys WHERE scope = ? AND key = ?"
PUT_KEY = "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?)"
KEY_IN_LOG = "SELECT id & 4294967295 FROM events WHERE id > ? AND id <= ? AND key = ?"
PUT_TITLE = "INSERT OR REPLACE INTO titles VALUES (?, ?, ?)"
DROP_TITLE = "DELETE FROM titles WHERE sid = ?"
PUT_WORK = "INSERT OR REPLACE INTO work VALUES (?, ?, ?)"
DROP_WORK = "DELETE FROM work WHERE owner_id = ? AND since = ? AND session_id = ?"
# SQLite parses the headers itself, because there may be very many; invalid JSON gives a row without a hash.
MARKS = (
    "SELECT session_id, base_id, ifnull(j ->> '$.base_seq', 0), j ->> '$.last_seq', j ->> '$.head_hash', "
    "ifnull(j ->> '$.updated_at', 0), deleted_at IS NOT NULL "
    "FROM (SELECT session_id, base_id, deleted_at, "
    "CASE WHEN json_valid(CAST(header AS TEXT)) THEN CAST(header AS TEXT) END AS j FROM sessions)"
)
WITH_PREFIX = (
    "SELECT session_id FROM sessions WHERE session_id >= ? AND session_id < ? AND +owner_id = ? "
    "AND +deleted_at IS NULL ORDER BY session_id LIMIT ?"
)
FORKS = "SELECT session_id FROM sessions WHERE base_id = ?"


Heads = dict[str, tuple[int, HeaderRow]]
"""Session number and header by session id, of the sessions read or written, as they will be after the commit."""

Acknowledged = dict[str, tuple[int, int, bytes]]
"""Session number, last seq and its hash by session id: what this process knows to be stored."""

First = tuple[Any, ...]
"""The first session of the list: its id and its other indexed columns."""


class SqliteRows:
    """Implements `Transaction` and the row reads of `ReadView` over one connection inside one transaction."""

    def __init__(
        self,
        connection: apsw.Connection,
        known: Heads | None = None,
        first: First | None = None,
        acknowledged: Acknowledged | None = None,
    ) -> None:
        self._execute: Callable[..., Any] = connection.execute
        self._connection = connection
        self.heads: Heads = {} if known is None else known
        self.first = first
        self._acknowledged: Acknowledged = {} if acknowledged is None else acknowledged
        self.dirty: Heads = {}
        self._worked: dict[str, int | None] = {}
        """`work_since` before this transaction, by session id, of the sessions read so far."""
        self._titled: dict[str, str | None] = {}
        """The same for the title in the table of titles."""

    # --- headers

    def clock(self) -> int:
        return now_us()

    def lease_clock(self) -> tuple[int, str]:
        return boot_ms(), boot_id()

    def header(self, session_id: str) -> HeaderRow | None:
        known = self.heads.get(session_id) or self._find(session_id)
        if known is None:
            return None
        row = known[1]
        self._worked.setdefault(session_id, row.work_since)
        self._titled.setdefault(session_id, listed_title(row))
        return row

    def _find(self, session_id: str) -> tuple[int, HeaderRow] | None:
        known = self.heads.get(session_id)
        if known is None:
            try:
                found = self._execute(HEADER, (session_id,)).fetchone()
            except UNREADABLE as error:
                raise DamagedSession(session_id, None, f"its header cannot be read ({error})") from error
            if found is None:
                self._compare(session_id, None)
                return None
            row = readable(found[1], found[2])
            if row is None or row.session_id != session_id:
                raise DamagedSession(session_id, None, "its header does not match its checksum")
            if type(found[0]) is not int:  # happens only if the schema is damaged
                raise DamagedSession(session_id, None, "the definition of the table of sessions is damaged")
            known = (found[0], row)
            self._compare(session_id, known)
            self.heads[session_id] = known
        return known

    def _compare(self, session_id: str, found: tuple[int, HeaderRow] | None) -> None:
        """Refuse a session that is older than this process knows it: seqs would be given out a second time."""
        told = self._acknowledged.get(session_id)
        if told is None or (found is not None and found[0] != told[0]):
            return
        _, seq, hashed = told
        row = None if found is None else found[1]
        if row is None or row.last_seq < seq or (row.last_seq == seq and row.head_hash != hashed):
            raise acknowledged_is_gone(session_id, seq)

    def _sid(self, session_id: str) -> int:
        """Return the session's number; -1, which owns no rows, if the session does not exist."""
        known = self._find(session_id)
        return -1 if known is None else known[0]

    def create(self, row: HeaderRow) -> None:
        header = encode(row)
        listed_at = max(row.updated_at, self.clock())  # kept while it stays first in its list
        values = (row.session_id, row.owner_id, listed_at, row.state, row.project_key, row.base_id, header)
        self._execute(CREATE, (*values, _crc(header)))
        self.heads[row.session_id] = (self._connection.last_insert_rowid(), row)
        self._worked[row.session_id] = None
        self._titled[row.session_id] = None
        self._save_title(self.heads[row.session_id][0], row)

    def save(self, row: HeaderRow) -> None:
        self.dirty[row.session_id] = self.heads[row.session_id]

    def flush(self) -> None:
        """Write each changed header once, however many commits of the batch changed it.

        A session that is already first in the list keeps its `listed_at`, so that no index changes.
        """
        if len(self.dirty) == 1:
            [(sid, row)] = self.dirty.values()
            if self.first is None:  # unknown: another connection has written since
                self.first = self._execute(FIRST_LISTED, (row.owner_id,)).fetchone()
            if self.first == (row.session_id, row.state, row.base_id, row.deleted_at):
                header = encode(row)
                self._execute(SAVE_HEADER, (header, _crc(header), sid))
                self._save_work(row)
                self._save_title(sid, row)
                self.dirty.clear()
                return
        if not self.dirty:
            return
        changed: list[tuple[Any, ...]] = []
        owners: dict[str, int] = {}
        for sid, row in self.dirty.values():
            header = encode(row)
            changed.append((row.updated_at, row.state, row.base_id, row.deleted_at, header, _crc(header), sid))
            owners[row.owner_id] = min(row.updated_at, owners.get(row.owner_id, row.updated_at))
            self._save_work(row)
            self._save_title(sid, row)
        for owner, lowest in owners.items():
            self._settle_first(owner, lowest)
        self._connection.executemany(SAVE, changed)
        self.dirty.clear()
        self.first = self._execute(FIRST_LISTED, (next(reversed(owners)),)).fetchone()

    def _save_work(self, row: HeaderRow) -> None:
        """Update the work table if `work_since` changed in this transaction."""
        before = self._worked.get(row.session_id)
        if before == row.work_since:
            return
        if before is not None:
            self._execute(DROP_WORK, (row.owner_id, before, row.session_id))
        if row.work_since is not None:
            self._execute(PUT_WORK, (row.owner_id, row.work_since, row.session_id))
        self._worked[row.session_id] = row.work_since

    def _save_title(self, sid: int, row: HeaderRow) -> None:
        """Update the table of titles if the title changed in this transaction."""
        title = listed_title(row)
        if self._titled.get(row.session_id) == title:
            return
        if title is None:
            self._execute(DROP_TITLE, (sid,))
        else:
            self._execute(PUT_TITLE, (sid, row.owner_id, title))
        self._titled[row.session_id] = title

    def _settle_first(self, owner: str, lowest: int) -> None:
        """Write the true `listed_at` of the first session in the list if the sessions saved next would overtake it.

        Its stored `listed_at` may lag behind its `updated_at`, which matters after a clock was set back.
        """
        first = self._execute(FIRST_LISTED, (owner,)).fetchone()
        if first is None or first[0] in self.dirty:
            return
        try:
            known = self._find(first[0])
        except DamagedSession:
            return  # damage in this session must not block writes to others
        if known is not None and known[1].updated_at >= lowest:
            self._execute(SETTLE, (known[1].updated_at, known[0]))

    # --- events and keys

    def append(self, row: HeaderRow, events: list[StoredEvent]) -> None:
        known = self.heads[row.session_id]
        sid = known[0] << 32
        for event in events:
            self._execute(INSERT_EVENT, (sid | event.seq, *event[2:12]))
        self.dirty[row.session_id] = known

    def restore(
        self,
        row: HeaderRow,
        events: list[StoredEvent],
        deltas: Mapping[int, Delta],
        keys: Sequence[tuple[str, KeyRow]],
    ) -> None:
        self.append(row, events)
        sid = self.heads[row.session_id][0] << 32
        # Listed by its own time, which may be far from the first place.
        self._execute("UPDATE sessions SET listed_at = ? WHERE sid = ?", (row.updated_at, sid >> 32))
        self.first = None
        for seq in deltas:
            self._execute("UPDATE events SET redacted = 1 WHERE id = ?", (sid | seq,))
        for key, found in keys:
            self.put_key(row.root_id, key, found)

    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        sid = self._sid(session_id) << 32
        try:
            return list(map(StoredEvent._make, self._execute(EVENTS, (session_id, sid | after, sid | upto))))
        except UNREADABLE as error:
            raise DamagedSession(session_id, None, f"events {after + 1} to {upto} cannot be read ({error})") from error

    def hash_at(self, session_id: str, seq: int) -> bytes | None:
        return self._execute(HASH, (self._sid(session_id) << 32 | seq,)).get

    def key(self, scope: str, key: str) -> KeyRow | None:
        found = self._execute(KEY, (scope, key)).fetchone()
        return None if found is None else KeyRow(*found)

    def put_key(self, scope: str, key: str, row: KeyRow) -> None:
        self._execute(PUT_KEY, (scope, key, *row))

    def forget_keys(self, session_id: str, keys: Sequence[tuple[str, str]]) -> None:
        rows = [(*key, session_id) for key in keys]
        self._connection.executemany("DELETE FROM keys WHERE scope = ? AND key = ? AND session_id = ?", rows)

    def key_in_log(self, session_id: str, key: str) -> KeyRow | None:
        row = self.header(session_id)
        if row is None:
            return None
        sid = self._sid(session_id) << 32
        seq = self._execute(KEY_IN_LOG, (sid | max(0, row.last_seq - KEY_LOOK_BACK), sid | row.last_seq, key)).get
        return None if seq is None else KeyRow(session_id, seq, 1, b"")

    def tip(self, root_id: str) -> str | None:
        return self._execute("SELECT tip_id FROM lineage WHERE root_id = ?", (root_id,)).get

    def put_tip(self, root_id: str, session_id: str) -> None:
        self._execute("INSERT OR REPLACE INTO lineage VALUES (?, ?)", (root_id, session_id))

    def drop_events(self, session_id: str, after: int) -> None:
        sid = self._sid(session_id) << 32
        self._connection.pragma("secure_delete", True)
        self._execute("DELETE FROM events WHERE id > ? AND id <= ?", (sid | after, sid | 4294967295))

    def blank(self, session_id: str, seq: int, digest: bytes) -> None:
        self._connection.pragma("secure_delete", True)
        values = (digest, self._sid(session_id) << 32 | seq)
        self._execute("UPDATE events SET body = ?, redacted = 1 WHERE id = ?", values)

    def forks(self, session_id: str) -> list[HeaderRow]:
        found = [name for (name,) in self._execute(FORKS, (session_id,)).fetchall()]
        rows = [self.header(name) for name in found]
        return [row for row in rows if row is not None and row.base_id == session_id]

    # --- drafts

    def last_chunk(self, session_id: str, attempt_seq: int) -> int:
        sid = self._sid(session_id) << 32
        found = self._execute(
            "SELECT id & 4294967295, attempt_seq FROM chunks WHERE id > ? AND id <= ? ORDER BY id DESC LIMIT 1",
            (sid, sid | 4294967295),
        ).fetchone()
        return found[0] if found is not None and found[1] == attempt_seq else 0

    def chunk(self, session_id: str, attempt_seq: int, n: int) -> Chunk | None:
        found = [chunk for chunk in self.chunks(session_id, n - 1) if chunk.n == n]
        return found[0] if found and found[0].attempt_seq == attempt_seq else None

    def chunks(self, session_id: str, after: int) -> list[Chunk]:
        sid = self._sid(session_id) << 32
        found = self._execute(
            "SELECT attempt_seq, id & 4294967295, part, data FROM chunks WHERE id > ? AND id <= ? ORDER BY id",
            (sid | after, sid | 4294967295),
        )
        return [Chunk(attempt_seq=seq, n=n, part=part, data=data) for seq, n, part, data in found]

    def put_chunk(self, session_id: str, chunk: Chunk) -> None:
        if chunk.n == 1:
            self.drop_chunks(session_id)
        values = (self._sid(session_id) << 32 | chunk.n, chunk.attempt_seq, chunk.part, chunk.data)
        self._execute("INSERT INTO chunks VALUES (?, ?, ?, ?)", values)

    def drop_chunks(self, session_id: str) -> None:
        sid = self._sid(session_id) << 32
        self._execute("DELETE FROM chunks WHERE id > ? AND id <= ?", (sid, sid | 4294967295))

    # --- routes, blobs, snapshots

    def route(self, route: str) -> str | None:
        return self._execute("SELECT session_id FROM routes WHERE route = ?", (route,)).get

    locked_route = route  # there is only one writer at a time

    def put_route(self, route: str, session_id: str | None) -> None:
        if session_id is None:
            self._execute("DELETE FROM routes WHERE route = ?", (route,))
        else:
            self._execute("INSERT OR REPLACE INTO routes VALUES (?, ?)", (route, session_id))

    def move_routes(self, from_session_id: str, to_session_id: str | None) -> None:
        if to_session_id is None:
            self._execute("DELETE FROM routes WHERE session_id = ?", (from_session_id,))
        else:
            values = (to_session_id, from_session_id)
            self._execute("UPDATE routes SET session_id = ? WHERE session_id = ?", values)

    def blob(self, session_id: str, sha256: str) -> bytes | None:
        found = self._execute(
            "SELECT data FROM blobs WHERE sid = ? AND sha256 = ? ORDER BY chunk", (self._sid(session_id), sha256)
        ).fetchall()
        # A damaged row may hold another type; it is skipped, and the result then fails its hash check.
        return b"".join(data for (data,) in found if isinstance(data, bytes)) if found else None

    def blob_part(self, session_id: str, sha256: str, number: int) -> bytes | None:
        data = self._execute(
            "SELECT data FROM blobs WHERE sid = ? AND sha256 = ? AND chunk = ?", (self._sid(session_id), sha256, number)
        ).get
        return data if isinstance(data, bytes) else None

    def put_blob(self, session_id: str, sha256: str, data: bytes) -> None:
        sid, now = self._sid(session_id), self.clock()
        pieces = range(0, max(len(data), 1), MIB)
        rows: list[tuple[Any, ...]] = [(sid, sha256, at // MIB, now, data[at : at + MIB]) for at in pieces]
        self._connection.executemany("INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?, ?)", rows)

    def blobs(self, session_id: str) -> dict[str, int]:
        values = (self._sid(session_id),)
        return dict(self._execute("SELECT sha256, max(at) FROM blobs WHERE sid = ? GROUP BY sha256", values).fetchall())

    def drop_blobs(self, session_id: str, keep: set[str]) -> None:
        sid = self._sid(session_id)
        self._connection.pragma("secure_delete", True)
        for (sha256,) in self._execute("SELECT DISTINCT sha256 FROM blobs WHERE sid = ?", (sid,)).fetchall():
            if sha256 not in keep:
                self._execute("DELETE FROM blobs WHERE sid = ? AND sha256 = ?", (sid, sha256))

    def snapshot(self, session_id: str, at_most: int) -> Snapshot | None:
        found = self._execute(
            "SELECT seq, fold_version, state FROM snapshots WHERE sid = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
            (self._sid(session_id), at_most),
        ).fetchone()
        return None if found is None else Snapshot(seq=found[0], fold_version=found[1], state=found[2])

    def put_note(self, text: str) -> None:
        self._execute("INSERT OR REPLACE INTO meta VALUES ('housekeeping', ?)", (text,))

    def put_snapshot(self, session_id: str, seq: int, fold_version: int, state: bytes) -> None:
        values = (self._sid(session_id), seq, fold_version, state)
        self._execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", values)

    def drop_snapshots(self, session_id: str) -> None:
        self._execute("DELETE FROM snapshots WHERE sid = ?", (self._sid(session_id),))

    # --- lists

    def listed(self, query: Query, position: tuple[int, str], limit: int) -> list[ListedSession]:
        statement, values = list_statement(query, position, limit)
        found = self._execute(statement, values).fetchall()
        try:
            rows = [
                ListedSession(name, at, _decode_listed(header))
                for name, at, header, crc in found
                if _crc(header) == crc
            ]
        except (TypeError, msgspec.DecodeError):
            rows = []
        if len(rows) == len(found):
            return rows
        return [ListedSession(name, at, _listed(header, crc)) for name, at, header, crc in found]  # one is damaged

    def marks(self) -> list[ReadMark]:
        found: list[tuple[Any, ...]] = [values for values in self._execute(MARKS) if values[4]]
        return [
            ReadMark(name, base_id, base_seq, last_seq, b64decode(hashed), updated_at, bool(deleted))
            for name, base_id, base_seq, last_seq, hashed, updated_at, deleted in found
        ]

    def with_prefix(self, prefix: str, owner_id: str, limit: int) -> list[str]:
        found = self._execute(WITH_PREFIX, (prefix, prefix + "~", owner_id, limit))
        return [session_id for (session_id,) in found]


def listed_title(row: HeaderRow) -> str | None:
    """What the table of titles holds of a session."""
    return row.title.casefold() if row.title and row.deleted_at is None else None


def _listed(header: Any, crc: Any) -> Header | None:
    """Like `readable`, but without the lease fields."""
    if not isinstance(header, bytes) or _crc(header) != crc:
        return None
    try:
        return _decode_listed(header)
    except msgspec.DecodeError:
        return None


def readable(header: Any, crc: Any) -> HeaderRow | None:
    """Decode a header; None if the bytes do not match the checksum or are not a header."""
    if not isinstance(header, bytes) or _crc(header) != crc:
        return None
    try:
        return _decode(header)
    except msgspec.DecodeError:
        return None
