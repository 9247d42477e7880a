"""The interface of every store, in five small protocols, and what each method promises.

A write has exactly three possible outcomes: a `Receipt` (durable: synced before the call returned), a `Refused`
(certainly not written) or `OutcomeUnknown` (retry with the same key). Unreadable data never looks like no data:
damage raises `DamagedSession`, a missing session raises `SessionNotFound`.

`outlast.store.log_store.LogStore` implements all of it over what an adapter moves: rows inside a transaction
(`outlast.store.engine.transaction`) and rows as of one moment (`outlast.store.read.read_view`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Protocol, Self

from outlast.core.event_row import StoredEvent
from outlast.core.header import Header
from outlast.store.writes import LEASE_MS as LEASE_MS
from outlast.store.writes import Append as Append
from outlast.store.writes import Base as Base
from outlast.store.writes import Batch as Batch
from outlast.store.writes import Chunk as Chunk
from outlast.store.writes import Claim as Claim
from outlast.store.writes import Claimed as Claimed
from outlast.store.writes import ClaimRequest as ClaimRequest
from outlast.store.writes import Create as Create
from outlast.store.writes import Delete as Delete
from outlast.store.writes import DropBlobs as DropBlobs
from outlast.store.writes import Forget as Forget
from outlast.store.writes import Holder as Holder
from outlast.store.writes import Lease as Lease
from outlast.store.writes import MoveRoutes as MoveRoutes
from outlast.store.writes import NewEvent as NewEvent
from outlast.store.writes import Page as Page
from outlast.store.writes import PutBlob as PutBlob
from outlast.store.writes import PutChunk as PutChunk
from outlast.store.writes import PutNote as PutNote
from outlast.store.writes import PutRoute as PutRoute
from outlast.store.writes import PutSnapshot as PutSnapshot
from outlast.store.writes import Query as Query
from outlast.store.writes import Receipt as Receipt
from outlast.store.writes import Redact as Redact
from outlast.store.writes import Release as Release
from outlast.store.writes import Renew as Renew
from outlast.store.writes import Restore as Restore
from outlast.store.writes import Snapshot as Snapshot
from outlast.store.writes import Swept as Swept
from outlast.store.writes import WorkQueueStats as WorkQueueStats
from outlast.store.writes import Write as Write


class EventLog(Protocol):
    """The logs of sessions: append durably, read checked, follow."""

    def commit(self, *writes: Write) -> list[Receipt]:
        """Commit all of the writes or none, durable on return; one receipt per write, in their order.

        If a keyed write of the commit was committed before, nothing is written and the first receipts are returned.
        """
        ...

    async def commit_async(self, *writes: Write) -> list[Receipt]:
        """`commit` for an event loop. Cancelling the caller does not withdraw the write."""
        ...

    def head(self, session_id: str) -> Header:
        """The current header. `SessionNotFound` if there is none, `SessionDeleted` if only a tombstone is left."""
        ...

    def holder(self, session_id: str) -> Holder | None:
        """The holder of the lease, expired or not; None if the lease is free."""
        ...

    def read(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        kinds: frozenset[str] | None = None,
        newest_first: bool = False,
    ) -> list[StoredEvent]:
        """Events with `after < seq < before`, ascending; `newest_first` takes the last `limit` of them instead of the
        first and returns them descending. Inherited history is included. Every row read is checked against its
        predecessor; a gap or a changed byte raises `DamagedSession` before any event behind it is returned."""
        ...

    def follow(
        self, session_id: str, *, after: int = 0, chunk: int = 0, timeout: float | None = None
    ) -> Iterator[Batch]:
        """Yield what is stored after the cursor, then new events and chunks from any process. Ends after `timeout` idle
        seconds, or when the session is rotated or deleted. A cursor past the head raises `ConflictError`."""
        ...

    def follow_async(
        self, session_id: str, *, after: int = 0, chunk: int = 0, timeout: float | None = None
    ) -> AsyncIterator[Batch]:
        """`follow` for an event loop."""
        ...

    def snapshot(self, session_id: str, *, at_most: int | None = None) -> Snapshot | None:
        """The newest snapshot (not past `at_most`)."""
        ...


class Catalog(Protocol):
    """Finding sessions: by filter, by the beginning of an id, by lineage."""

    def find(self, query: Query) -> Page:
        """A page of headers; its cursor leads to the next page. Sessions that do not change meanwhile are listed
        exactly once."""
        ...

    def resolve(self, prefix: str, *, owner_id: str = "local") -> str:
        """The one session whose id has this prefix. `AmbiguousSession` names the matches, `SessionNotFound` if none."""
        ...

    def tip(self, session_id: str) -> str:
        """The newest session of this session's lineage: itself unless it was rotated."""
        ...


class WorkQueue(Protocol):
    """Sessions that have work for a driver: claim them, count them, wait for more."""

    def claim(self, wanted: ClaimRequest) -> list[Claimed]:
        """Take the leases of sessions that have work and no driver (the lease is free, expired, or its holder died on
        this host), longest waiting first. Concurrent callers never get the same session and do not wait for each other.
        A session that cannot be claimed does not keep others from being claimed; if this raises, no lease is taken."""
        ...

    async def claim_async(self, wanted: ClaimRequest) -> list[Claimed]:
        """`claim` for an event loop."""
        ...

    def queue(self, *, owner_id: str = "local") -> WorkQueueStats:
        """The current length and age of the work queue."""
        ...

    def work_heard(self) -> int:
        """Return a token for `await_work`; take it before calling `claim`."""
        ...

    async def await_work(self, since: int, timeout: float) -> bool:
        """Sleep until there may be new work since the token `since`; False on timeout. Only a hint: it may wake the
        caller for nothing, and an expiring lease does not wake it."""
        ...


class Routes(Protocol):
    """Which session a chat leads to. Routes are written by `PutRoute` and `MoveRoutes`."""

    def route(self, route: str) -> str | None:
        """The session that a chat's route leads to, if any."""
        ...

    def routes(self, prefix: str = "") -> list[tuple[str, str]]:
        """Every route with this prefix and the session it leads to, sorted by route."""
        ...


class Blobs(Protocol):
    """Large payloads, stored under the SHA-256 of their bytes by `PutBlob`, and their garbage collection."""

    def blob(self, session_id: str, sha256: str) -> bytes:
        """The bytes, checked against their name. `DamagedSession` if they are missing or changed."""
        ...

    def sweep(self, now: int | None = None) -> Swept:
        """Run one bounded step of garbage collection: forget keys of sessions deleted 30 days ago, drop blobs that no
        event named within 24 hours. An open store also does this by itself, at most once an hour, or once a minute
        until the pass is complete. `now` is the clock in microseconds UTC, by default the store's."""
        ...


class Store(EventLog, Catalog, WorkQueue, Routes, Blobs, Protocol):
    """An open store. Safe from any thread and any number of event loops; not across a fork."""

    url: str

    def close(self) -> None:
        """Finish the submitted commits, then close. Further calls raise `StoreUnavailable`."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
