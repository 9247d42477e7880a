"""What the engine needs of an adapter: rows inside one transaction, read and written.

An adapter only moves rows. What a write means, in which order things are checked and what a refusal is, lives once, in
`outlast.store.engine.commit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from outlast.core.event_row import StoredEvent
from outlast.core.header import Delta, Header
from outlast.store.port import Chunk


class HeaderRow(Header, kw_only=True, omit_defaults=True):
    """A header with its lease, as the store keeps it."""

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
        """The clock that leases run on in milliseconds, and which boot it belongs to."""
        ...

    def header(self, session_id: str) -> HeaderRow | None:
        """The row, locked until the end of the transaction; tombstones too. The same object each time it is asked for
        within the transaction; changes to it are stored by `save` or `append`."""
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
        """Append rows of another store as they are, redacted ones too (`deltas` are what those had added), and the
        keys that they carry, in the scope of the lineage."""
        ...

    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        """Rows that this session owns itself, ascending, unchecked."""
        ...

    def hash_at(self, session_id: str, seq: int) -> bytes | None:
        """The hash of a row that this session owns itself."""
        ...

    def key(self, scope: str, key: str) -> KeyRow | None: ...

    def put_key(self, scope: str, key: str, row: KeyRow) -> None: ...

    def forget_keys(self, session_id: str, keys: Sequence[tuple[str, str]]) -> None:
        """Forget these (scope, key) of a deleted session."""
        ...

    def key_in_log(self, session_id: str, key: str) -> KeyRow | None:
        """The same for a key that was made here and is only written in its row (the first of its write); looks at the
        newest rows, and says only which session and seq."""
        ...

    def tip(self, root_id: str) -> str | None: ...

    def put_tip(self, root_id: str, session_id: str) -> None: ...

    def last_chunk(self, session_id: str, attempt_seq: int) -> int:
        """How many chunks the attempt has."""
        ...

    def chunk(self, session_id: str, attempt_seq: int, n: int) -> Chunk | None: ...

    def put_chunk(self, session_id: str, chunk: Chunk) -> None: ...

    def drop_chunks(self, session_id: str) -> None: ...

    def locked_route(self, route: str) -> str | None:
        """Where the route leads, which nobody else can change before this transaction ends."""
        ...

    def put_route(self, route: str, session_id: str | None) -> None: ...

    def move_routes(self, from_session_id: str, to_session_id: str | None) -> None: ...

    def blob(self, session_id: str, sha256: str) -> bytes | None:
        """The bytes as they are, unchecked."""
        ...

    def put_blob(self, session_id: str, sha256: str, data: bytes) -> None: ...

    def blobs(self, session_id: str) -> dict[str, int]:
        """The session's own blobs, and when each was last put (microseconds UTC)."""
        ...

    def drop_blobs(self, session_id: str, keep: set[str]) -> None: ...

    def put_snapshot(self, session_id: str, seq: int, fold_version: int, state: bytes) -> None: ...

    def drop_snapshots(self, session_id: str) -> None: ...

    def put_note(self, text: str) -> None:
        """Remember this instead of the last note; losing it costs some work and nothing else."""
        ...

    def forks(self, session_id: str) -> list[HeaderRow]:
        """Sessions that stand on this one's events, not deleted ones and deleted ones that still hold events."""
        ...

    def drop_events(self, session_id: str, after: int) -> None:
        """Erase this session's own rows past `after`, beyond recovery."""
        ...

    def blank(self, session_id: str, seq: int, digest: bytes) -> None:
        """Replace a row's body by its digest, beyond recovery."""
        ...
