"""The interface between engine and adapter: reading and writing rows inside one transaction.

An adapter only moves rows. What a write means, the order of the checks and the refusals are implemented once, in
`outlast.store.engine.commit`. Inherit `Transaction`, or its parts, and implement what is abstract; the other methods
have an implementation here that is right for every adapter, and may be replaced by a faster one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from outlast.core.event_row import StoredEvent
from outlast.core.header import Delta, Header
from outlast.store.port import Chunk
from outlast.store.process_identity import boot_id, boot_ms, now_us

KEY_LOOK_BACK = 4096
"""How many of a session's newest rows are searched for a generated key."""


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


class SessionRows(Protocol):
    """The headers of sessions, tombstones included, and how sessions hang together."""

    def clock(self) -> int:
        """The store's wall clock, microseconds UTC."""
        return now_us()

    def lease_clock(self) -> tuple[int, str]:
        """The clock of leases in milliseconds, and the boot it belongs to."""
        return boot_ms(), boot_id()

    @abstractmethod
    def header(self, session_id: str) -> HeaderRow | None:
        """The row, locked until the end of the transaction; tombstones too. Returns the same object on every call in
        the transaction; `save` and `append` store changes to it."""
        ...

    @abstractmethod
    def create(self, row: HeaderRow) -> None:
        """Add the row of a new session; its first events follow in the same transaction."""
        ...

    @abstractmethod
    def save(self, row: HeaderRow) -> None:
        """Store the row as it is now: its lease, its deletion, words that were taken from it."""
        ...

    @abstractmethod
    def forks(self, session_id: str) -> list[HeaderRow]:
        """Direct forks of this session: those that are not deleted, and deleted ones that still hold events."""
        ...

    @abstractmethod
    def tip(self, root_id: str) -> str | None:
        """The newest session of a lineage; None if it was never continued."""
        ...

    @abstractmethod
    def put_tip(self, root_id: str, session_id: str) -> None:
        """Make this session the newest one of the lineage."""
        ...


class EventRows(Protocol):
    """The events of sessions."""

    @abstractmethod
    def append(self, row: HeaderRow, events: list[StoredEvent]) -> None:
        """Add the events behind the session's last one, and store the row, which counts them already."""
        ...

    @abstractmethod
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

    @abstractmethod
    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        """Rows with `after < seq <= upto` that this session itself owns, ascending, unchecked."""
        ...

    def hash_at(self, session_id: str, seq: int) -> bytes | None:
        """The hash of a row that this session itself owns."""
        return next((row.hash for row in self.rows(session_id, seq - 1, seq)), None)

    @abstractmethod
    def drop_events(self, session_id: str, after: int) -> None:
        """Erase this session's own rows with `seq > after`, beyond recovery."""
        ...

    @abstractmethod
    def blank(self, session_id: str, seq: int, digest: bytes) -> None:
        """Replace a row's body with its digest, beyond recovery."""
        ...


class KeyRows(Protocol):
    """The keys of callers: which write of a scope carried a key."""

    @abstractmethod
    def key(self, scope: str, key: str) -> KeyRow | None:
        """The write that carried this key in this scope, if any; keys of deleted sessions count for 30 days."""
        ...

    @abstractmethod
    def put_key(self, scope: str, key: str, row: KeyRow) -> None:
        """Remember the key of a write of this transaction."""
        ...

    @abstractmethod
    def forget_keys(self, session_id: str, keys: Sequence[tuple[str, str]]) -> None:
        """Remove these (scope, key) pairs of a deleted session."""
        ...


class DraftRows(Protocol):
    """The chunks of a reply that is being written; a session has one draft at a time."""

    @abstractmethod
    def chunks(self, session_id: str, after: int) -> list[Chunk]:
        """Draft chunks with `n > after`, ascending."""
        ...

    @abstractmethod
    def put_chunk(self, session_id: str, chunk: Chunk) -> None:
        """Add the next chunk; the first one of an attempt takes the place of any older draft."""
        ...

    @abstractmethod
    def drop_chunks(self, session_id: str) -> None:
        """Remove the session's draft."""
        ...

    def last_chunk(self, session_id: str, attempt_seq: int) -> int:
        """The number of the attempt's last chunk; 0 if it has none."""
        chunks = self.chunks(session_id, 0)
        return chunks[-1].n if chunks and chunks[-1].attempt_seq == attempt_seq else 0

    def chunk(self, session_id: str, attempt_seq: int, n: int) -> Chunk | None:
        """One chunk of the draft, if it is there."""
        found = self.chunks(session_id, n - 1)
        return found[0] if found and (found[0].attempt_seq, found[0].n) == (attempt_seq, n) else None


class RouteRows(Protocol):
    """Which session each chat leads to."""

    @abstractmethod
    def locked_route(self, route: str) -> str | None:
        """Where the route leads; no other transaction can change it before this one ends."""
        ...

    @abstractmethod
    def put_route(self, route: str, session_id: str | None) -> None:
        """Point the route to this session; None removes it."""
        ...

    @abstractmethod
    def move_routes(self, from_session_id: str, to_session_id: str | None) -> None:
        """Point every route of one session to another; None removes them."""
        ...


class BlobRows(Protocol):
    """Payloads under their digest, and what the store may lose without harm: snapshots and the collector's note."""

    @abstractmethod
    def blob(self, session_id: str, sha256: str) -> bytes | None:
        """The stored bytes, unchecked."""
        ...

    @abstractmethod
    def put_blob(self, session_id: str, sha256: str, data: bytes) -> None:
        """Store the bytes under their name, or note that they were put again."""
        ...

    @abstractmethod
    def blobs(self, session_id: str) -> dict[str, int]:
        """The session's own blobs, and when each was last put (microseconds UTC)."""
        ...

    @abstractmethod
    def drop_blobs(self, session_id: str, keep: set[str]) -> None:
        """Remove the session's own blobs but for these."""
        ...

    def put_snapshot(self, session_id: str, seq: int, fold_version: int, state: bytes) -> None:
        """Keep a folded state. Without it, states are folded from the events."""

    def drop_snapshots(self, session_id: str) -> None:
        """Remove the session's snapshots, which may hold words that are being taken away."""

    def put_note(self, text: str) -> None:
        """Replace the note. Losing it only costs the garbage collector repeated work."""


class Transaction(SessionRows, EventRows, KeyRows, DraftRows, RouteRows, BlobRows, Protocol):
    """One transaction. Reads see its own writes; nothing is visible outside before the adapter commits it."""

    def key_in_log(self, session_id: str, key: str) -> KeyRow | None:
        """Find a generated key, which is stored only in the first row of its write. Searches the newest rows; only
        session and seq of the result are meaningful."""
        row = self.header(session_id)
        last = row.last_seq if row is not None else 0
        for event in reversed(self.rows(session_id, max(0, last - KEY_LOOK_BACK), last)):
            if event.key == key:
                return KeyRow(session_id, event.seq, 1, b"")
        return None
