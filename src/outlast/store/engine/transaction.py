"""The interface between engine and adapter: reading and writing rows inside one transaction.

An adapter only moves rows. What a write means, the order of the checks and the refusals are implemented once, in
`outlast.store.engine.commit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from outlast.core.event_row import StoredEvent
from outlast.core.header import Delta, Header
from outlast.store.port import Chunk


class HeaderRow(Header, kw_only=True, omit_defaults=True):
    """A header with its lease, as stored."""

    lease_token: str | None = None
    lease_holder: str | None = None
    lease_since: int = 0
    lease_expires: int = 0
    lease_boot: str | None = None


class KeyRow(NamedTuple):
    session_id: str
    seq: int
    events: int
    digest: bytes


class Transaction(Protocol):
    """One transaction. Reads see its own writes; nothing is visible outside before the adapter commits it."""

    def clock(self) -> int:
        """The store's wall clock, microseconds UTC."""
        ...

    def lease_clock(self) -> tuple[int, str]:
        """The clock of leases in milliseconds, and the boot it belongs to."""
        ...

    def header(self, session_id: str) -> HeaderRow | None:
        """The row, locked until the end of the transaction; tombstones too. Returns the same object on every call in
        the transaction; `save` and `append` store changes to it."""
        ...

    def create(self, row: HeaderRow) -> None: ...

    def save(self, row: HeaderRow) -> None: ...

    def append(self, row: HeaderRow, events: list[StoredEvent]) -> None: ...

    def restore(
        self,
        row: HeaderRow,
        events: list[StoredEvent],
        deltas: Mapping[int, Delta],
        keys: Sequence[tuple[str, KeyRow]],
    ) -> None:
        """Append rows of another store unchanged, including redacted ones (`deltas` is what those had added to the
        header), and their keys, in the scope of the lineage."""
        ...

    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        """Rows with `after < seq <= upto` that this session itself owns, ascending, unchecked."""
        ...

    def hash_at(self, session_id: str, seq: int) -> bytes | None:
        """The hash of a row that this session itself owns."""
        ...

    def key(self, scope: str, key: str) -> KeyRow | None: ...

    def put_key(self, scope: str, key: str, row: KeyRow) -> None: ...

    def forget_keys(self, session_id: str, keys: Sequence[tuple[str, str]]) -> None:
        """Remove these (scope, key) pairs of a deleted session."""
        ...

    def key_in_log(self, session_id: str, key: str) -> KeyRow | None:
        """Find a generated key, which is stored only in the first row of its write. Searches the newest rows; only
        session and seq of the result are meaningful."""
        ...

    def tip(self, root_id: str) -> str | None: ...

    def put_tip(self, root_id: str, session_id: str) -> None: ...

    def last_chunk(self, session_id: str, attempt_seq: int) -> int:
        """The number of the attempt's last chunk; 0 if it has none."""
        ...

    def chunk(self, session_id: str, attempt_seq: int, n: int) -> Chunk | None: ...

    def put_chunk(self, session_id: str, chunk: Chunk) -> None: ...

    def drop_chunks(self, session_id: str) -> None: ...

    def locked_route(self, route: str) -> str | None:
        """Where the route leads; no other transaction can change it before this one ends."""
        ...

    def put_route(self, route: str, session_id: str | None) -> None: ...

    def move_routes(self, from_session_id: str, to_session_id: str | None) -> None: ...

    def blob(self, session_id: str, sha256: str) -> bytes | None:
        """The stored bytes, unchecked."""
        ...

    def put_blob(self, session_id: str, sha256: str, data: bytes) -> None: ...

    def blobs(self, session_id: str) -> dict[str, int]:
        """The session's own blobs, and when each was last put (microseconds UTC)."""
        ...

    def drop_blobs(self, session_id: str, keep: set[str]) -> None: ...

    def put_snapshot(self, session_id: str, seq: int, fold_version: int, state: bytes) -> None: ...

    def drop_snapshots(self, session_id: str) -> None: ...

    def put_note(self, text: str) -> None:
        """Replace the note. Losing it only costs the garbage collector repeated work."""
        ...

    def forks(self, session_id: str) -> list[HeaderRow]:
        """Direct forks of this session: those that are not deleted, and deleted ones that still hold events."""
        ...

    def drop_events(self, session_id: str, after: int) -> None:
        """Erase this session's own rows with `seq > after`, beyond recovery."""
        ...

    def blank(self, session_id: str, seq: int, digest: bytes) -> None:
        """Replace a row's body with its digest, beyond recovery."""
        ...
