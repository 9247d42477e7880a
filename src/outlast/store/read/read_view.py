"""What reads need of an adapter: rows as of one moment.

Pages of a list, and the cursors that lead from one to the next.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from outlast.core.errors import InvalidInput
from outlast.core.event_row import StoredEvent
from outlast.core.header import Header
from outlast.store.engine.transaction import HeaderRow
from outlast.store.port import Chunk, Page, Query, Snapshot
from outlast.store.read.inspection import Inspection

T = TypeVar("T")


class ListedSession(NamedTuple):
    """A row of a list: the header, with its lease or without; None where it cannot be read. `at` is what the list is
    ordered by: `updated_at`, or `work_since` where those that have waited longest come first."""

    session_id: str
    at: int
    row: Header | None


class ReadMark(NamedTuple):
    """Where a session stands: as much as a projection has to know to follow it."""

    session_id: str
    base_id: str | None
    base_seq: int
    last_seq: int
    head_hash: bytes
    updated_at: int
    deleted: bool


class EventSlice(NamedTuple):
    """What was found in a part of the store that begins at a cursor: pairs of names by session. `cursor` is where the
    next part begins, empty at the end. At most `limit` rows are looked at, whatever is found among them."""

    found: dict[str, list[tuple[str, str]]]
    cursor: str

    @classmethod
    def of(cls, rows: Sequence[tuple[str, tuple[str, str] | None]], last: Any, *, more: bool) -> EventSlice:
        """Of rows as (session, what was found there or None); `last` tells the place of the last of them."""
        found: dict[str, list[tuple[str, str]]] = {}
        for session_id, pair in rows:
            if pair is not None:
                found.setdefault(session_id, []).append(pair)
        return cls(found, msgspec.json.encode(last).decode() if more else "")


def place_in(cursor: str, first: T) -> T:
    """Where a slice begins: the place in the cursor, `first` if it is empty or not one of ours."""
    try:
        return msgspec.json.decode(cursor, type=type(first)) if cursor else first
    except msgspec.DecodeError:
        return first


def fits(row: Header, query: Query) -> bool:
    """Whether a list of the query's owner, state, project, base and work shows a session with this header."""
    return (
        row.deleted_at is None
        and row.owner_id == query.owner_id
        and (query.state is None or row.state == query.state)
        and (query.project_key is None or _of_project(row, query))
        and (query.base_id is None or row.base_id == query.base_id)
        and (query.pending is None or query.pending == row.has_work)
    )


def place_of(row: Header, query: Query) -> int:
    """What the query's list is ordered by."""
    return (row.work_since or 0) if query.oldest_first else row.updated_at


def last_in(query: Query) -> int:
    """The place of a session whose header cannot be read, where nothing else tells one."""
    return 2**63 - 1 if query.oldest_first else 0


def in_order(rows: list[ListedSession], query: Query, position: tuple[int, str]) -> list[ListedSession]:
    """Those behind the position, in the query's order."""
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


class ReadView(Inspection, Protocol):
    """Rows as of one moment. Raises `DamagedSession` where a stored row cannot be read."""

    def lease_clock(self) -> tuple[int, str]: ...

    def header(self, session_id: str) -> HeaderRow | None: ...

    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        """Rows that this session owns itself with `after < seq <= upto`, ascending, unchecked."""
        ...

    def hash_at(self, session_id: str, seq: int) -> bytes | None: ...

    def chunks(self, session_id: str, after: int) -> list[Chunk]:
        """Draft chunks with `n > after`, ascending."""
        ...

    def tip(self, root_id: str) -> str | None: ...

    def route(self, route: str) -> str | None: ...

    def blob(self, session_id: str, sha256: str) -> bytes | None:
        """The bytes as they are, unchecked."""
        ...

    def snapshot(self, session_id: str, at_most: int) -> Snapshot | None: ...

    def listed(self, query: Query, position: tuple[int, str], limit: int) -> list[ListedSession]:
        """Sessions of the query's owner, state, project and base behind the position, in the query's order; of those
        with work, if they are asked for, and without looking at the others. The other conditions may be left to the
        caller."""
        ...

    def note(self) -> str | None:
        """The last note of `Tx.put_note`, if it is still there."""
        ...

    def old_keys(self, cursor: str, deleted_before: int, limit: int) -> EventSlice:
        """The keys (scope, key) of sessions deleted before that moment."""
        ...

    def old_blobs(self, cursor: str, after: int, before: int, limit: int) -> EventSlice:
        """The names of blobs of living sessions, put at `after` or later and before `before`; their first half is the
        name, the second half is empty."""
        ...

    def with_prefix(self, prefix: str, owner_id: str, limit: int) -> list[str]: ...

    def marks(self) -> list[ReadMark]:
        """Where every session stands, of all owners, tombstones included; without those whose header is damaged."""
        ...


def page_of(rows: list[ListedSession], limit: int, damaged: list[str]) -> Page:
    """All of these rows that a page holds."""
    headers = [row if type(row) is Header else public(row) for _, _, row in rows[:limit] if row is not None]
    more = rows[limit - 1] if len(rows) > limit else None
    return Page(headers=headers, cursor=more and cursor_at(more.at, more.session_id), damaged=damaged)


def wanted(row: Header, query: Query) -> bool:
    """Whether the conditions hold that no store looks at by itself."""
    if query.title is not None and query.title.casefold() not in (row.title or "").casefold():
        return False
    if query.prefix is not None and not row.session_id.startswith(query.prefix):
        return False
    return query.pending is None or query.pending == row.has_work


FIRST = (2**63 - 1, "~")
"""Before everything in a list that begins with the newest."""
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
