"""The values of a store's interface: the writes a caller can commit, their receipts, and what reads return.

`outlast.store.port` has the methods and exports all of these names; the meaning of each write is implemented in
`outlast.store.engine`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from outlast.core.event_row import StoredEvent
from outlast.core.events import Event
from outlast.core.header import Header

LEASE_MS = 10_000


class Lease(msgspec.Struct, frozen=True):
    """The right to drive a session. Epoch 0 stands for the epoch that a `Claim` in the same commit receives."""

    session_id: str
    epoch: int
    token: str


class NewEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event to write. `at` is the writer's clock in microseconds UTC; None means now."""

    event: Event
    actor: str = "system"
    turn: str | None = None
    at: int | None = None


# --- writes --------------------------------------------------------------------------------------------------------


class Base(msgspec.Struct, frozen=True):
    """Where a fork begins: the last event of the shared history."""

    session_id: str
    seq: int


class Create(msgspec.Struct, frozen=True, kw_only=True):
    """Create a session with its first events. `header` holds the fields that lists show; its counts are the inherited
    ones.

    Title, model and persona are cut to 200 characters in the header and the pending text to 120; ids and paths that
    are too long are refused. With `base` the log continues at `base.seq + 1`. With `continues` the session becomes the
    tip of that session's lineage and shares its keys. Creating a session that exists is a `ConflictError`, unless the
    key shows that this is a retry of the same write.
    """

    header: Header
    events: tuple[NewEvent, ...]
    base: Base | None = None
    continues: str | None = None
    key: str | None = None
    scope: str | None = None


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Append events to one session: consecutive, all or none.

    With a lease this is a driver's write, refused as `StaleLease` once the lease was taken over. Without a lease it is
    a door's write and may land between any two writes of the driver. `expect` refuses the write (`ConflictError`)
    unless it equals the last seq. `to_tip` writes to the newest session of the lineage. `touch` False keeps
    `updated_at` unchanged. The key is looked up before lease, state and `expect` are checked: a retry returns the first
    receipt, different content under the same key is a `ConflictError`.
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
    """Store the next piece of a streaming reply; `n` counts from 1 without gaps. Closing the attempt removes its
    chunks. `ConflictError` if the attempt is closed or was never opened by a `ModelRequested`."""

    lease: Lease
    attempt_seq: int
    n: int
    part: str
    data: bytes


class PutRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Point a chat's route to this session (None: remove it). With `expect` this is a compare-and-set: refused as
    `ConflictError` unless the route currently leads to that session (None: nowhere)."""

    route: str
    session_id: str | None
    expect: str | msgspec.UnsetType | None = msgspec.UNSET


class MoveRoutes(msgspec.Struct, frozen=True, kw_only=True):
    """Point every route of one session to another session."""

    from_session_id: str
    to_session_id: str


class PutBlob(msgspec.Struct, frozen=True, kw_only=True):
    """Store a payload under the SHA-256 (hex) of its bytes. Idempotent.

    The blob stays as long as an event of its session mentions the digest, in any field. A blob that no event mentions
    24 hours after it was put is garbage-collected.
    """

    session_id: str
    sha256: str
    data: bytes


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Take the lease if it is free, expired, already held with this token, or its holder died on this host; with
    `force` always. Otherwise `SessionBusy`."""

    session_id: str
    token: str
    holder: str
    ttl_ms: int = LEASE_MS
    force: bool = False


class Renew(msgspec.Struct, frozen=True, kw_only=True):
    lease: Lease
    ttl_ms: int = LEASE_MS


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """Give the lease back. Releasing a lease that was taken over changes nothing."""

    lease: Lease


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Erase a session and leave a tombstone. Events that forks share stay, hidden, until the last fork is deleted."""

    session_id: str
    actor: str
    with_forks: bool = False


class Redact(msgspec.Struct, frozen=True, kw_only=True):
    """Replace one event's body with its digest, and append an `EventRedacted` that records it.

    An inherited event is redacted in the session that owns it. If the owner was deleted and forks still show the event,
    it can be redacted through one fork, which then records it, or through the deleted owner's id: then every fork that
    shows the event records it.
    """

    session_id: str
    seq: int
    actor: str
    reason: str | None = None


class PutSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Store a folded state. A cache: the store may drop it at any time."""

    session_id: str
    seq: int
    fold_version: int
    state: bytes


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """Import rows of another store with their hashes: as a new session, or as the next part of a restored one.
    The events of one original write must be in one part; then its key works here too.

    `header` holds the fields that the rows do not contain; its counts are the inherited ones. `base` and `continues`
    are as in `Create`, `blobs` are (SHA-256, bytes), `counted` is what redacted events had added to the header, by seq.
    Refused as `InvalidInput` if the rows are changed, have gaps or do not follow the last stored row, and as
    `ConflictError` if they are stored already or something else was written to the session.
    """

    header: Header
    events: tuple[StoredEvent, ...]
    blobs: tuple[tuple[str, bytes], ...] = ()
    base: Base | None = None
    continues: str | None = None
    counted: dict[int, dict[str, int]] = {}


# Writes of the garbage collector (`outlast.store.maintenance.gc`). The commit checks their conditions again.


class Forget(msgspec.Struct, frozen=True, kw_only=True):
    """Forget these keys (scope, key) of a session if it was deleted before `deleted_before`."""

    session_id: str
    keys: tuple[tuple[str, str], ...]
    deleted_before: int


class DropBlobs(msgspec.Struct, frozen=True, kw_only=True):
    """Drop these blobs: they were put before `put_before`, and no event up to `looked_upto` names them."""

    session_id: str
    names: tuple[str, ...]
    put_before: int
    looked_upto: int


class PutNote(msgspec.Struct, frozen=True, kw_only=True):
    """Store the garbage collector's progress; replaces the previous note."""

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

    `first_seq` to `seq` are the events it wrote. A write without events has `first_seq` 0, and `seq` is the session's
    last event, or 0 if the write belongs to no session (a route, for example). A `replayed` receipt means that nothing
    was written now: a keyed write repeats the numbers of its first receipt, the other writes of the commit have 0.
    """

    session_id: str
    seq: int = 0
    first_seq: int = 0
    replayed: bool = False
    lease: Lease | None = None


# --- reads ---------------------------------------------------------------------------------------------------------


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease. The token is secret and therefore missing."""

    holder: str
    epoch: int
    since: int
    expired: bool


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for sessions; newest activity first. `prefix` is the beginning of an id, `title` a part of the title.

    `project_fingerprint` widens `project_key` to sessions of the same repository in any folder. `pending` selects
    sessions with work for a driver (`Header.has_work`): an unanswered input, an open turn or a requested boundary, in a
    session that has not ended. Stores find them without reading the other sessions, so polling every second is cheap.
    `oldest_first`, allowed only with `pending`, starts with the session that has waited longest (`Header.work_since`).
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
    """Which sessions a worker wants to drive, and at most how many (`most`): see `Store.claim`.

    A session bound to a place is claimed only if the place is in `places`. `besides` excludes sessions while their last
    seq is the given one; `only` restricts the claim to these sessions. A door that admits an input and drives it itself
    has `grace_ms`, by the store's clock, to begin; there is no such delay for `woken` sessions or if a door in `served`
    wrote last. A sub-agent's session is left to its parent unless it is woken or a served door wrote to it last. An
    imported session without new events is claimed only if it is woken.
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
    """A lease, and whether it was taken over from a holder that had not released it."""

    lease: Lease
    taken_over: bool = False


class WorkQueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """Number of sessions with work, without a driver (`waiting`) and with one (`driven`). `oldest` is the
    `Header.work_since` (microseconds UTC) of the session that has waited longest, `now` the store's clock."""

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
    """Events and draft chunks for a follower, read in one snapshot."""

    events: list[StoredEvent]
    chunks: list[Chunk]
    last_seq: int


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    fold_version: int
    state: bytes


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """How much one garbage collection step removed, and whether it reached the end of the store."""

    keys: int = 0
    blobs: int = 0
    done: bool = True
