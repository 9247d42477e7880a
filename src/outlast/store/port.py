"""The port: what a store promises. One way to write, a few ways to read.

A write ends in one of three ways and never in a fourth: a `Receipt` (durable: synced before this returned), a
`Refused` (certainly not written) or `OutcomeUnknown` (repeat it with the same key). Unreadable never looks like empty:
damage raises `DamagedSession`, absence `SessionNotFound`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Protocol, Self

import msgspec

from outlast.core.event_row import StoredEvent
from outlast.core.events import Event
from outlast.core.header import Header

LEASE_MS = 10_000


class Lease(msgspec.Struct, frozen=True):
    """The right to drive a session. Epoch 0 means: the one that this commit's own claim is given."""

    session_id: str
    epoch: int
    token: str


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event to be written. `at` is the writer's clock in microseconds UTC; None takes the clock now."""

    event: Event
    actor: str = "system"
    turn: str | None = None
    at: int | None = None


# --- writes --------------------------------------------------------------------------------------------------------


class Base(msgspec.Struct, frozen=True):
    """Where a fork begins: the event of a session that is the last one of the shared history."""

    session_id: str
    seq: int


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """A new session with its first events. `header` holds what a list shows of it; counts are what it inherits.

    Titles, models and personas are cut to 200 characters there, and a pending text to 120; longer ids and paths are
    refused. With `base` its log goes on at `base.seq + 1`. With `continues` it is the new tip of that session's
    lineage, and shares its keys. Creating a session that exists is a `ConflictError`, unless the key says it was this
    very write.
    """

    header: Header
    events: tuple[NewEvent, ...]
    base: Base | None = None
    continues: str | None = None
    key: str | None = None
    scope: str | None = None


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Events for one session, gapless and together.

    With a lease it is a driver's write and refused as `StaleLease` once the lease was taken over; without one it is a
    door's and may interleave anywhere. `expect` refuses (`ConflictError`) unless it is the head's seq. `to_tip` writes
    to the newest session of the lineage. `touch` False leaves `updated_at`. The key is looked up before lease, state
    and expectation: a repeat returns the first receipt, another content under the same key is a `ConflictError`.
    """

    session_id: str
    events: tuple[NewEvent, ...]
    key: str | None = None
    scope: str | None = None
    lease: Lease | None = None
    expect: int | None = None
    to_tip: bool = False
    touch: bool = True


class PutChunk(msgspec.Struct, frozen=True, kw_only=True):
    """The next piece of a streaming reply: `n` counts from 1 without gaps. All go when the attempt is closed; for one
    that is closed, or was never opened by a `ModelRequested`, it is a `ConflictError`."""

    lease: Lease
    attempt_seq: int
    n: int
    part: str
    data: bytes


class PutRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A chat's route now leads to this session (None: nowhere). With `expect` it is refused as `ConflictError` unless
    the route led there before (None: nowhere), whoever else moves it meanwhile."""

    route: str
    session_id: str | None
    expect: str | msgspec.UnsetType | None = msgspec.UNSET


class MoveRoutes(msgspec.Struct, frozen=True, kw_only=True):
    """Every route that leads to one session now leads to another."""

    from_session_id: str
    to_session_id: str


class PutBlob(msgspec.Struct, frozen=True, kw_only=True):
    """A payload, stored under the SHA-256 (hex) of its bytes; repeating it changes nothing.

    It stays as long as an event of its session mentions that digest, in whatever field. One that none mentions 24 hours
    after it was put is swept.
    """

    session_id: str
    sha256: str
    data: bytes


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Take the lease: free, expired, its holder dead on this host, ours already, or by `force`; else `SessionBusy`."""

    session_id: str
    token: str
    holder: str
    ttl_ms: int = LEASE_MS
    force: bool = False


class Renew(msgspec.Struct, frozen=True, kw_only=True):
    lease: Lease
    ttl_ms: int = LEASE_MS


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """Give the lease back. Releasing one that was taken over changes nothing."""

    lease: Lease


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Erase a session and leave a tombstone. Events that forks stand on stay, hidden, until the last fork goes."""

    session_id: str
    actor: str
    with_forks: bool = False


class Redact(msgspec.Struct, frozen=True, kw_only=True):
    """Replace one event's body by its digest, and say so in the log.

    An inherited event is redacted in the session it belongs to. If that was deleted and forks still show the event, it
    is redacted through one of them, which then says so, or through the deleted one's id: then all of them do.
    """

    session_id: str
    seq: int
    actor: str
    reason: str | None = None


class PutSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A folded state as a cache; may be dropped at any time."""

    session_id: str
    seq: int
    fold_version: int
    state: bytes


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """Rows as another store wrote them, with their hashes: a new session, or the next part of one that was restored.
    What was one write there stays in one part: then its key is known here.

    `header` holds what the rows do not tell; counts are what it inherits. `base` and `continues` are as in `Create`,
    `blobs` are (SHA-256, bytes), `counted` is what redacted events had added, by seq. Refused as `InvalidInput` when
    the rows do not follow what is there, unchanged and gapless, and as `ConflictError` when they are here already or
    something else was written.
    """

    header: Header
    events: tuple[StoredEvent, ...]
    blobs: tuple[tuple[str, bytes], ...] = ()
    base: Base | None = None
    continues: str | None = None
    counted: dict[int, dict[str, int]] = {}


# What a store does by itself (`outlast.store.maintenance.gc`). All of it is looked at once more inside the commit.


class Forget(msgspec.Struct, frozen=True, kw_only=True):
    """These keys (scope, key) of a session may go, if it was deleted before that moment."""

    session_id: str
    keys: tuple[tuple[str, str], ...]
    deleted_before: int


class DropBlobs(msgspec.Struct, frozen=True, kw_only=True):
    """These blobs were put before that moment, and no event up to `looked_upto` names them: they may go."""

    session_id: str
    names: tuple[str, ...]
    put_before: int
    looked_upto: int


class PutNote(msgspec.Struct, frozen=True, kw_only=True):
    """What the store wants to remember about itself; takes the place of the last one."""

    text: str


Write = (
    Create
    | Append
    | PutChunk
    | PutRoute
    | MoveRoutes
    | PutBlob
    | Claim
    | Renew
    | Release
    | Delete
    | Redact
    | PutSnapshot
    | Restore
    | Forget
    | DropBlobs
    | PutNote
)


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Proof of a durable write.

    `first_seq` to `seq` are the events it wrote. A write of none has `first_seq` 0, and `seq` tells where the session
    stood; 0 where it is about no session, a route for example. A `replayed` one wrote nothing now: with a key it gives
    what the first one did, and the other writes of its commit have 0.
    """

    session_id: str
    seq: int = 0
    first_seq: int = 0
    replayed: bool = False
    lease: Lease | None = None


# --- reads ---------------------------------------------------------------------------------------------------------


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease. Its token is nobody else's business."""

    holder: str
    epoch: int
    since: int
    expired: bool


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions; newest activity first. `prefix` is the beginning of an id, `title` a part of the title.

    With `project_fingerprint` also those of the same repository, whatever folder it was in then. `pending` are those
    with work for a driver (`Header.has_work`): an input nobody has answered, an open turn, a boundary asked for, in a
    session that has not ended. They are found without looking at the others, so this may be asked every second.
    `oldest_first`, only of those, begins with the one that has waited longest (`Header.work_since`).
    """

    owner_id: str = "local"
    state: str | None = None
    project_key: str | None = None
    project_fingerprint: str | None = None
    prefix: str | None = None
    title: str | None = None
    base_id: str | None = None
    pending: bool | None = None
    oldest_first: bool = False
    limit: int = 50
    cursor: str | None = None


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody would drive, and how many of it: see `Store.claim`.

    Of those bound to a place only these `places`; not `besides` while they stand at that seq; with `only` just those.
    Who admits an input and drives it himself has `grace_ms` to begin, by the store's clock; the doors in `served` never
    do, and neither do those whose session is `woken`. A sub-agent's session is its parent's business unless it is
    woken, or a served door wrote to it last. One that came from a file and stands as it came has to be woken.
    """

    token: str
    holder: str
    most: int = 1
    ttl_ms: int = LEASE_MS
    owner_id: str = "local"
    places: frozenset[str] = frozenset()
    besides: Mapping[str, int] = {}
    only: frozenset[str] | None = None
    woken: frozenset[str] = frozenset()
    served: frozenset[str] = frozenset()
    grace_ms: int = 0


class Claimed(msgspec.Struct, frozen=True):
    """A lease, and whether it was taken over from somebody who had not given it back."""

    lease: Lease
    taken_over: bool = False


class WorkQueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions with work nobody drives (`waiting`) and how many somebody does; since when (microseconds UTC,
    as `Header.work_since`) the oldest of the former has waited, and the store's clock now."""

    waiting: int = 0
    driven: int = 0
    oldest: int | None = None
    now: int = 0


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list. Sessions whose header cannot be read are named in `damaged`, never left out silently."""

    headers: list[Header]
    cursor: str | None = None
    damaged: list[str] = []


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    attempt_seq: int
    n: int
    part: str
    data: bytes


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What a follower gets: events and draft chunks read in one snapshot."""

    events: list[StoredEvent]
    chunks: list[Chunk]
    last_seq: int


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    fold_version: int
    state: bytes


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What a step of housekeeping took away, and whether it came to the end of the store."""

    keys: int = 0
    blobs: int = 0
    done: bool = True


class Store(Protocol):
    """An open store. Safe from any thread and any number of event loops; not across a fork."""

    url: str

    def commit(self, *writes: Write) -> list[Receipt]:
        """All of the writes or none, durable on return; one receipt per write, in their order.

        If a keyed write of the commit was done before, nothing is written and the first receipts come back.
        """
        ...

    async def commit_async(self, *writes: Write) -> list[Receipt]:
        """The same. Cancelling the caller does not withdraw the write."""
        ...

    def head(self, session_id: str) -> Header:
        """The header as of now. `SessionNotFound` when absent, `SessionDeleted` when only a tombstone is left."""
        ...

    def holder(self, session_id: str) -> Holder | None:
        """Who holds the lease, expired or not; None when it is free."""
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
        first and returns them descending. History shared with a base is included. Every row read is checked against
        its predecessor; a gap or a changed byte raises `DamagedSession`, before anything behind it is returned."""
        ...

    def find(self, query: Query) -> Page:
        """A page of headers. Passing the page's cursor on gives the next one; sessions that do not change meanwhile
        are seen exactly once."""
        ...

    def claim(self, wanted: ClaimRequest) -> list[Claimed]:
        """Take the leases of sessions with work that nobody drives (the lease is free, expired, or its holder dead on
        this host), those that have waited longest first. Each goes to one of however many ask at once, and nobody waits
        for the others. None is left out because of its neighbours; nothing is taken when this raises."""
        ...

    async def claim_async(self, wanted: ClaimRequest) -> list[Claimed]: ...

    def queue(self, *, owner_id: str = "local") -> WorkQueueStats:
        """What there is to do, as of now."""
        ...

    def work_heard(self) -> int:
        """A number for `await_work`, to be asked for before `claim`."""
        ...

    async def await_work(self, since: int, timeout: float) -> bool:
        """Sleep until there may be something to claim that was not there at `since`; False when the time is over. A
        hint: it may come for nothing, and a lease that runs out gives none."""
        ...

    def resolve(self, prefix: str, *, owner_id: str = "local") -> str:
        """The one session whose id begins so. `AmbiguousSession` names the matches, `SessionNotFound` if none."""
        ...

    def tip(self, session_id: str) -> str:
        """The newest session of its lineage: itself unless it was rotated."""
        ...

    def route(self, route: str) -> str | None:
        """The session that a chat's route leads to."""
        ...

    def routes(self, prefix: str = "") -> list[tuple[str, str]]:
        """Every route that begins so and the session it leads to, sorted by route."""
        ...

    def blob(self, session_id: str, sha256: str) -> bytes:
        """The bytes, checked against their name. `DamagedSession` if they are missing or changed."""
        ...

    def snapshot(self, session_id: str, *, at_most: int | None = None) -> Snapshot | None:
        """The newest snapshot (not past `at_most`)."""
        ...

    def sweep(self, now: int | None = None) -> Swept:
        """A bounded step of housekeeping, which an open store also takes by itself, once an hour at most: forgets keys
        of sessions deleted 30 days ago, drops blobs that no event named within 24 hours. `now` is the clock in
        microseconds UTC, the store's own if not given."""
        ...

    def follow(
        self, session_id: str, *, after: int = 0, chunk: int = 0, timeout: float | None = None
    ) -> Iterator[Batch]:
        """What is there after the cursor, then whatever comes, from any process. Ends after `timeout` idle seconds,
        or when the session is deleted. A cursor past the head raises `ConflictError`."""
        ...

    def follow_async(
        self, session_id: str, *, after: int = 0, chunk: int = 0, timeout: float | None = None
    ) -> AsyncIterator[Batch]: ...

    def close(self) -> None:
        """Finish what was handed in, then let go. Further calls raise `StoreUnavailable`."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
