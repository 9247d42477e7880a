"""The read interface of an adapter (`ReadView`: rows as of one moment), and the shared parts of listing sessions.

Those parts are filters, order, pages and cursors. Rows are not verified here: see `outlast.store.read.verified_log`.
"""

from __future__ import annotations

import base64
import binascii
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from outlast.core.errors import InvalidInput
from outlast.core.event_row import StoredEvent
from outlast.core.header import Header
from outlast.store.engine.transaction import HeaderRow
from outlast.store.port import Chunk, Page, Query, Snapshot
from outlast.store.process_identity import boot_id, boot_ms
from outlast.store.read.inspection import Inspection

T = TypeVar("T")
BLOB_PART = 1024 * 1024
"""How many bytes of a blob are read at a time; SQL stores keep their blobs in rows of this size."""


class ListedSession(NamedTuple):
    """An entry of a list: the header, with or without its lease; None if it cannot be read. `at` is the sort key:
    `updated_at`, or `work_since` if the list is `oldest_first`."""

    session_id: str
    at: int
    row: Header | None


class ReadMark(NamedTuple):
    """The position of a session: what a projection, such as the search index, needs to follow it."""

    session_id: str
    base_id: str | None
    base_seq: int
    last_seq: int
    head_hash: bytes
    updated_at: int
    deleted: bool


class EventSlice(NamedTuple):
    """One slice of a scan over the store: the pairs of names found, by session, and the cursor of the next slice (empty
    at the end). A slice scans at most `limit` rows, however many of them match."""

    found: dict[str, list[tuple[str, str]]]
    cursor: str

    @classmethod
    def of(cls, rows: Sequence[tuple[str, tuple[str, str] | None]], last: Any, *, more: bool) -> EventSlice:
        """Build a slice from the scanned rows (session, the pair or None if no match); `last` is the last row's
        position."""
        found: dict[str, list[tuple[str, str]]] = {}
        for session_id, pair in rows:
            if pair is not None:
                found.setdefault(session_id, []).append(pair)
        return cls(found, msgspec.json.encode(last).decode() if more else "")


def place_in(cursor: str, first: T) -> T:
    """The position in a slice's cursor; `first` if the cursor is empty or invalid."""
    try:
        return msgspec.json.decode(cursor, type=type(first)) if cursor else first
    except msgspec.DecodeError:
        return first


def fits(row: Header, query: Query) -> bool:
    """Whether a header matches the query's owner, state, project, base and work; deleted sessions never match."""
    return (
        row.deleted_at is None
        and row.owner_id == query.owner_id
        and (query.state is None or row.state == query.state)
        and (query.project_key is None or _of_project(row, query))
        and (query.base_id is None or row.base_id == query.base_id)
        and (query.pending is None or query.pending == row.has_work)
    )


def place_of(row: Header, query: Query) -> int:
    """The session's sort key in the query's list."""
    return (row.work_since or 0) if query.oldest_first else row.updated_at


def last_in(query: Query) -> int:
    """The sort key of a session with an unreadable header and no other known sort key: the end of the list."""
    return 2**63 - 1 if query.oldest_first else 0


def in_order(rows: list[ListedSession], query: Query, position: tuple[int, str]) -> list[ListedSession]:
    """The rows after the position, in the query's order."""
    rows = sorted(rows, key=lambda row: (row.at, row.session_id), reverse=not query.oldest_first)
    if query.oldest_first:
        return [row for row in rows if (row.at, row.session_id) > position]
    return [row for row in rows if (row.at, row.session_id) < position]


def _of_project(row: Header, query: Query) -> bool:
    if row.project_key == query.project_key:
        return True
    return query.project_fingerprint is not None and row.project_fingerprint == query.project_fingerprint


def mark_of(row: Header) -> ReadMark:
    deleted = row.deleted_at is not None
    return ReadMark(row.session_id, row.base_id, row.base_seq, row.last_seq, row.head_hash, row.updated_at, deleted)


def public(row: Header) -> Header:
    """The header without its lease."""
    if type(row) is Header:
        return row
    return Header(**{name: getattr(row, name) for name in Header.__struct_fields__})


class SessionView(Protocol):
    """One session after the other, as of one moment."""

    def lease_clock(self) -> tuple[int, str]:
        """The clock of leases in milliseconds, and the boot it belongs to."""
        return boot_ms(), boot_id()

    @abstractmethod
    def header(self, session_id: str) -> HeaderRow | None:
        """The session's row, tombstones too; None if there is none."""
        ...

    @abstractmethod
    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        """Rows with `after < seq <= upto` that this session itself owns, ascending, unchecked."""
        ...

    def hash_at(self, session_id: str, seq: int) -> bytes | None:
        """The hash of a row that this session itself owns."""
        return next((row.hash for row in self.rows(session_id, seq - 1, seq)), None)

    @abstractmethod
    def chunks(self, session_id: str, after: int) -> list[Chunk]:
        """Draft chunks with `n > after`, ascending."""
        ...

    @abstractmethod
    def tip(self, root_id: str) -> str | None:
        """The newest session of a lineage; None if it was never continued."""
        ...

    @abstractmethod
    def route(self, route: str) -> str | None:
        """The session that the route leads to, if any."""
        ...

    def snapshot(self, session_id: str, at_most: int) -> Snapshot | None:
        """The newest snapshot that is not past `at_most`, if the store keeps any."""
        return None


class BlobView(Protocol):
    """Contents that events name by their digest, as of one moment."""

    @abstractmethod
    def blob(self, session_id: str, sha256: str) -> bytes | None:
        """The stored bytes, unchecked."""
        ...

    def blob_part(self, session_id: str, sha256: str, number: int) -> bytes | None:
        """The bytes of a blob from `number` times `BLOB_PART` on, at most `BLOB_PART` of them, unchecked; None behind
        its end."""
        data = self.blob(session_id, sha256)
        part = data[number * BLOB_PART : (number + 1) * BLOB_PART] if data is not None else b""
        return part or None


class ListView(Protocol):
    """Many sessions at once, as of one moment."""

    @abstractmethod
    def listed(self, query: Query, position: tuple[int, str], limit: int) -> list[ListedSession]:
        """Sessions that match the query's owner, state, project and base, after the position, in the query's order. For
        a query for sessions with work it must not read the others. The caller checks the other conditions
        (`wanted`)."""
        ...

    @abstractmethod
    def with_prefix(self, prefix: str, owner_id: str, limit: int) -> list[str]:
        """The ids of this owner's sessions that begin so, sorted; also of those whose header cannot be read."""
        ...

    @abstractmethod
    def marks(self) -> list[ReadMark]:
        """The positions of all sessions, of all owners, including tombstones; without damaged headers."""
        ...

    @abstractmethod
    def old_keys(self, cursor: str, deleted_before: int, limit: int) -> EventSlice:
        """The keys (scope, key) of sessions deleted before `deleted_before`."""
        ...

    @abstractmethod
    def old_blobs(self, cursor: str, after: int, before: int, limit: int) -> EventSlice:
        """The blobs of sessions that are not deleted, put at `after` or later and before `before`, as pairs of the name
        and an empty string."""
        ...

    def note(self) -> str | None:
        """The last note of `Transaction.put_note`, if it still exists."""
        return None


class ReadView(SessionView, BlobView, ListView, Inspection, Protocol):
    """Rows as of one moment. Raises `DamagedSession` if a stored row cannot be read. Inherit it, implement what is
    abstract, and replace the other methods where the adapter can do better."""


def page_of(rows: list[ListedSession], limit: int, damaged: list[str]) -> Page:
    """A page of the first `limit` rows, with a cursor if there are more."""
    headers = [row if type(row) is Header else public(row) for _, _, row in rows[:limit] if row is not None]
    more = rows[limit - 1] if len(rows) > limit else None
    return Page(headers=headers, cursor=more and cursor_at(more.at, more.session_id), damaged=damaged)


def wanted(row: Header, query: Query) -> bool:
    """Whether a header matches the conditions that adapters need not check: title, id prefix, work."""
    if query.title is not None and query.title.casefold() not in (row.title or "").casefold():
        return False
    if query.prefix is not None and not row.session_id.startswith(query.prefix):
        return False
    return query.pending is None or query.pending == row.has_work


FIRST = (2**63 - 1, "~")
"""The position before all entries of a newest-first list."""
FIRST_OF_OLDEST = (-(2**63), "")


def cursor_at(updated_at: int, session_id: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([updated_at, session_id])).decode("ascii").rstrip("=")


def position_in(cursor: str | None, *, oldest_first: bool = False) -> tuple[int, str]:
    if cursor is None:
        return FIRST_OF_OLDEST if oldest_first else FIRST
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=tuple[int, str])
    except (binascii.Error, UnicodeEncodeError, msgspec.DecodeError):
        raise InvalidInput("the cursor is not one that this store gave out; start from the first page") from None
