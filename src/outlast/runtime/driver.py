"""The driver: holds a session's lease and writes the events of its turn.

It keeps the folded state of the session in memory. It folds its own writes without reading them back, and it reads and
folds events that doors wrote in between before it continues. Every write carries the lease, so a driver that lost the
lease cannot write; `fresh` checks on a monotonic clock that the driver may still cause an effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from outlast.core.codec import VERSIONS
from outlast.core.errors import OutcomeUnknown, StaleLease, StoreUnavailable
from outlast.core.event_row import Actor, StoredEvent
from outlast.core.events import KIND_OF, KINDS, Event, RuntimeStateChanged, TurnStarted
from outlast.core.fold import Row, fold
from outlast.core.ids import id_from
from outlast.core.state import SessionState
from outlast.runtime.clock import Clock
from outlast.runtime.commit_retry import commit_resolved
from outlast.runtime.driven_turns import DrivenTurn
from outlast.runtime.imported_trust import trusted_state
from outlast.store.port import LEASE_MS, Append, Claim, Lease, NewEvent, Receipt, Release, Renew, Store, Write
from outlast.store.process_identity import holder
from outlast.store.read.decode import decode_events

SYSTEM = Actor("system", "runtime").text()
MODEL = Actor("model", "runtime").text()
TOOL = Actor("tool", "runtime").text()
RENEW_AFTER = 0.3
TRUST_FOR = 0.8
QUIET_START = 0.05
LISTEN_AGAIN = 1.0
FAR_BEHIND = 500

T = TypeVar("T")

UNSAID = frozenset(
    {
        "RuntimeStateChanged",
        "TimelineRecorded",
        "TraceRecorded",
        "LedgerUpdated",
        "PromptRecorded",
        "DefinitionOfDoneUpdated",
        "UsageRecorded",
        "ToolProcessSpawned",
        "RouteOpened",
        "NoticePosted",
        "DeliveryBegun",
        "DeliveryMade",
        "DeliveryClosed",
    }
)
"""Kinds that only change the folded state. They are most of a log's events, and no message window contains them."""

_ACTORS = {
    "AssistantReplied": MODEL,
    "ReplyInterrupted": MODEL,
    "ToolCallStarted": TOOL,
    "ToolProcessSpawned": TOOL,
    "ToolCallFinished": TOOL,
}


class Driver:
    """Driver of one session. `watch` sets `news` after it folded events of other writers; `wrote` is called with each
    event of this driver once the event is durable."""

    def __init__(
        self, store: Store, session_id: str, state: SessionState, clock: Clock, ttl_ms: int = LEASE_MS
    ) -> None:
        self.store = store
        self.session_id = session_id
        self.state = state
        self.clock = clock
        self.ttl_ms = ttl_ms
        self.token = id_from(clock.token())
        self.lease: Lease | None = None
        self.news = asyncio.Event()
        self.wrote: Callable[[StoredEvent, Event], None] | None = None
        self.commits = 0
        self.driven = DrivenTurn()
        self._renewed = clock.monotonic()
        self._rows: list[Row] | None = None
        self._rows_from = 0
        self._writing = asyncio.Lock()

    @classmethod
    async def open(cls, store: Store, session_id: str, clock: Clock, ttl_ms: int = LEASE_MS) -> Driver:
        return cls(store, session_id, await asyncio.to_thread(trusted_state, store, session_id), clock, ttl_ms)

    async def opened_again(self, clock: Clock, ttl_ms: int = LEASE_MS) -> Driver:
        """Return a new driver of the same session, up to date. It reuses the state of this driver and reads only newer
        events. This driver must not be used afterwards; it may belong to another event loop."""
        read = partial(self.store.read, self.session_id, after=self.state.last_seq, limit=FAR_BEHIND)
        new = await asyncio.to_thread(read)
        if len(new) == FAR_BEHIND:
            return await Driver.open(self.store, self.session_id, clock, ttl_ms)
        again = Driver(self.store, self.session_id, self.state, clock, ttl_ms)
        again._rows, again._rows_from = self._rows, self._rows_from
        for row in decode_events(self.store, new):
            again._take(row)
        return again

    # --- the lease

    def adopt(self, lease: Lease, asked: float) -> None:
        """Use a lease that the caller claimed for this driver; `asked` is the monotonic time of that claim."""
        self.token, self.lease, self._renewed = lease.token, lease, asked

    async def claim(self, *, force: bool = False) -> None:
        """Take the lease unless this driver holds it, then fold everything written before. Raises `SessionBusy` if
        another driver holds the lease."""
        if self.lease is None or force:
            await _whole(self._take_lease(force))
        await self.catch_up()

    async def _take_lease(self, force: bool) -> None:
        asked = self.clock.monotonic()
        [receipt] = await self._commit(self._claim(force))
        self.lease, self._renewed = receipt.lease, asked

    def _claim(self, force: bool = False) -> Claim:
        return Claim(session_id=self.session_id, token=self.token, holder=holder(), ttl_ms=self.ttl_ms, force=force)

    async def fresh(self) -> None:
        """Raise `StaleLease` unless this driver certainly holds the lease, with a safety margin. A lease that has run
        low, as on a machine that stood still, is renewed once: that succeeds if no other driver took over."""
        if self._is_low():
            async with self._writing:
                if self.lease is not None:
                    await self._renew(self.lease)
        if self._is_low():
            raise StaleLease(f"the lease on session {self.session_id} could not be renewed in time; nothing was done")

    def _is_low(self) -> bool:
        return self.lease is None or self.clock.monotonic() - self._renewed > self.ttl_ms / 1000 * TRUST_FOR

    async def renew_for_ever(self) -> None:
        """Renew the lease until cancelled. Raises `StaleLease` if another driver took over."""
        while True:
            await self.clock.sleep(self.ttl_ms / 1000 * RENEW_AFTER)
            async with self._writing:  # must not overlap the commit that releases the lease
                if self.lease is not None:
                    await self._renew(self.lease)

    async def _renew(self, lease: Lease) -> None:
        asked = self.clock.monotonic()
        with suppress(StoreUnavailable, OutcomeUnknown):  # `fresh` blocks effects until a renewal succeeds
            await self.store.commit_async(Renew(lease=lease, ttl_ms=self.ttl_ms))
            self._renewed = asked

    # --- writing

    async def write(
        self,
        *events: Event,
        also: tuple[Write, ...] = (),
        release: bool = False,
        claim: bool = False,
        unmoved: bool = False,
    ) -> Receipt:
        """Append and fold these events; they are durable on return. `claim` takes the lease in the same commit, and
        `release` releases it there. With `claim` or `unmoved`, raises `ConflictError` if the log has events that this
        driver has not folded.

        If the caller is cancelled, the write still completes and is folded before `CancelledError` is raised: the code
        that then closes the turn must know about these events.
        """
        return await _whole(self._write(events, also, release=release, claim=claim, unmoved=claim or unmoved))

    async def _write(
        self, events: tuple[Event, ...], also: tuple[Write, ...], *, release: bool, claim: bool, unmoved: bool
    ) -> Receipt:
        async with self._writing:
            lease = Lease(self.session_id, 0, self.token) if claim else self.lease
            if lease is None:
                raise StaleLease(f"this process does not drive session {self.session_id}")
            now = self.clock.now_us()
            events = _merged(events)
            turn = self._turn(events)
            new = tuple(NewEvent(event=event, actor=_actor(event), turn=turn, at=now) for event in events)
            expect = self.state.last_seq if unmoved else None
            append = Append(session_id=self.session_id, events=new, lease=lease, expect=expect)
            taken = (self._claim(),) if claim else ()
            given = (Release(lease=lease),) if release else ()
            asked = self.clock.monotonic()
            receipts = await self._commit(*taken, *also, append, *given)
            if claim and receipts[0].lease is None:  # replayed after an unknown outcome: the first try took the lease
                receipts[:1] = await self._commit(self._claim())
            if claim:
                self.lease, self._renewed = receipts[0].lease, asked
            epoch = (self.lease or lease).epoch
            if release:
                self.lease = None
            receipt = receipts[len(taken) + len(also)]
            await self._folded(new, receipt, epoch)
            return receipt

    async def put(self, *writes: Write) -> None:
        """Commit writes that are not events: draft chunks, blobs."""
        await self._commit(*writes)

    async def move(self, session_id: str, token: str, lease: Lease) -> None:
        """Switch to another session, whose lease was taken in the commit that created it."""
        self.session_id, self.token, self.lease = session_id, token, lease
        self.state = await asyncio.to_thread(trusted_state, self.store, session_id)
        self._rows, self._rows_from, self._renewed = None, 0, self.clock.monotonic()

    async def release(self) -> None:
        if self.lease is not None:
            lease, self.lease = self.lease, None
            await self._commit(Release(lease=lease))

    def _turn(self, events: tuple[Event, ...]) -> str | None:
        """Return the name of the turn that these events belong to, or None."""
        if self.state.turn is not None:
            return self.state.turn.turn
        return f"t{self.state.last_seq + 1}" if any(isinstance(event, TurnStarted) for event in events) else None

    async def _commit(self, *writes: Write) -> list[Receipt]:
        """Commit, resolve an unknown outcome, and count the commit."""
        receipts = await commit_resolved(self.store, *writes, sleep=self.clock.sleep)
        self.commits += 1
        return receipts

    async def _folded(self, new: tuple[NewEvent, ...], receipt: Receipt, epoch: int) -> None:
        rows = [(self._stored(item, receipt.first_seq + n, epoch), item.event) for n, item in enumerate(new)]
        if receipt.first_seq != self.state.last_seq + 1 or receipt.replayed:
            await self.catch_up()
        else:
            for row in rows:
                self._take(row)
        if self.wrote is not None:
            for row in rows:
                self.wrote(*row)

    def _stored(self, item: NewEvent, seq: int, epoch: int) -> StoredEvent:
        """Build the event's row without the fields that only readers of the store need."""
        kind = KIND_OF[type(item.event)]
        return StoredEvent(
            session_id=self.session_id,
            seq=seq,
            kind=kind,
            v=VERSIONS[kind],
            at=item.at or 0,
            actor=item.actor,
            turn=item.turn,
            key=None,
            epoch=epoch,
            enc="plain",
            body=b"",
            hash=b"",
        )

    def _take(self, row: Row) -> None:
        fold(self.state, *row)
        if self._rows is not None and row[0].kind not in UNSAID:
            self._rows.append(row)

    # --- reading

    async def catch_up(self) -> None:
        """Fold events that other writers appended. Raises `StaleLease` if one is from a driver that took over."""
        after = self.state.last_seq
        rows = await asyncio.to_thread(lambda: decode_events(self.store, self.store.read(self.session_id, after=after)))
        for row in rows:
            if row[0].seq == self.state.last_seq + 1:  # two tasks may catch up at once
                self._refuse_successor(row[0])
                self._take(row)

    def _refuse_successor(self, stored: StoredEvent) -> None:
        """Raise `StaleLease` for an event of a newer epoch: a running turn must not fold its successor's events."""
        if self.lease is not None and stored.epoch is not None and stored.epoch > self.lease.epoch:
            raise StaleLease(
                f"the lease on session {self.session_id} (epoch {self.lease.epoch}) was taken over; "
                f"event {stored.seq} is of epoch {stored.epoch}"
            )

    async def rows(self) -> list[Row]:
        """Return the events for the window and for the turn's own record, from `state.read_from` to the head."""
        first = self.state.read_from
        if self._rows is None or first < self._rows_from:
            self._rows = await self._read_rows(first)
        elif first > self._rows_from:
            self._rows = [row for row in self._rows if row[0].seq >= first]
        self._rows_from = first
        return self._rows

    async def _read_rows(self, first: int) -> list[Row]:
        rows: list[Row] = []
        kinds = frozenset(KINDS) - UNSAID
        after = first - 1
        while after < (last := self.state.last_seq):  # `watch` may fold newer events during the read
            rows += await asyncio.to_thread(self._decoded, after, last + 1, kinds)
            after = last
        return rows

    def _decoded(self, after: int, before: int, kinds: frozenset[str]) -> list[Row]:
        return decode_events(self.store, self.store.read(self.session_id, after=after, before=before, kinds=kinds))

    async def event(self, seq: int) -> Row:
        """Return one event by its seq, in the window or not."""
        for row in reversed(self._rows or []):
            if row[0].seq == seq:
                return row
        [stored] = await asyncio.to_thread(self.store.read, self.session_id, after=seq - 1, before=seq + 1)
        return (await asyncio.to_thread(decode_events, self.store, [stored]))[0]

    async def watch(self, noticed: Callable[[], None]) -> None:
        """Follow the writes of doors until cancelled: fold them, then call `noticed` and set `news`.

        A store that is unavailable for a while does not stop the turn: doors cannot write during that time either,
        `fresh` blocks effects, and the turn's own writes succeed or fail by themselves.
        """
        await self.clock.sleep(QUIET_START)  # most scripted turns have ended by then and need no follower
        while True:
            with suppress(StoreUnavailable, OutcomeUnknown):
                await self._heard(noticed)
                async for batch in self.store.follow_async(self.session_id, after=self.state.last_seq):
                    if batch.last_seq > self.state.last_seq:
                        await self._heard(noticed)
                return  # the session was deleted, or this driver rotated it
            await self.clock.sleep(LISTEN_AGAIN)

    async def _heard(self, noticed: Callable[[], None]) -> None:
        async with self._writing:  # this driver's commit in flight folds its own events
            await self.catch_up()
        noticed()
        self.news.set()

    async def until(self, true: Callable[[SessionState], bool]) -> None:
        """Wait until the predicate `true` holds for the folded state. Needs `watch` to be running."""
        while not true(self.state):
            self.news.clear()
            await self.news.wait()


async def _whole(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even if the caller is cancelled, and raise the cancellation afterwards. Otherwise the
    driver's state could differ from the log."""
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        while not doing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([doing])
        if not doing.cancelled():
            doing.exception()  # retrieved, so that asyncio logs no warning
        raise


def _merged(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Merge all `RuntimeStateChanged` events into the first one: they are in one commit anyway."""
    changes = [event.changes for event in events if isinstance(event, RuntimeStateChanged)]
    if len(changes) < 2:
        return events
    first = next(event for event in events if isinstance(event, RuntimeStateChanged))
    whole = RuntimeStateChanged(changes={name: value for each in changes for name, value in each.items()})
    others = (event for event in events if event is first or not isinstance(event, RuntimeStateChanged))
    return tuple(whole if event is first else event for event in others)


def _actor(event: Event) -> str:
    return _ACTORS.get(KIND_OF[type(event)], SYSTEM)
