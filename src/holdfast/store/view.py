"""What reads need of an adapter: rows as of one moment."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from holdfast.core.header import Header
from holdfast.core.log import StoredEvent
from holdfast.store.inspection import Inspection
from holdfast.store.port import Chunk, Query, Snapshot
from holdfast.store.tx import Row


class Listed(NamedTuple):
    """A row of a list: the header, with its lease or without; None where it cannot be read."""

    session_id: str
    updated_at: int
    row: Header | None


def public(row: Header) -> Header:
    """The header without its lease."""
    if type(row) is Header:
        return row
    return Header(**{name: getattr(row, name) for name in Header.__struct_fields__})


class View(Inspection, Protocol):
    """Rows as of one moment. Raises `DamagedSession` where a stored row cannot be read."""

    def lease_clock(self) -> tuple[int, str]: ...

    def header(self, session_id: str) -> Row | None: ...

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

    def listed(self, query: Query, before: tuple[int, str], limit: int) -> list[Listed]:
        """Sessions of the query's owner, state, project and base that sort before the position, newest first; the
        other conditions may be left to the caller."""
        ...

    def with_prefix(self, prefix: str, owner_id: str, limit: int) -> list[str]: ...
