"""Dispatcher: claims sessions that have work, woken by store notifications, by local doors and by a poll every second.

The poll covers lost notifications and expired leases, which no process announces. The dispatcher requests nothing while
no slot is free, and never more sessions than there are free slots: unclaimed work waits in the store, where every other
worker sees it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping

from outlast.app.logging_setup import error_fields, log_event
from outlast.app.workers.turn_slots import TurnSlots
from outlast.core.errors import OutcomeUnknown, OutlastError, StoreUnavailable
from outlast.core.ids import id_from
from outlast.runtime.clock import Clock
from outlast.store.log_store import LogStore
from outlast.store.port import Claimed, ClaimRequest, Release
from outlast.store.process_identity import holder

SERVED = frozenset({"http"})
"""Doors whose inputs only a worker answers."""
TOGETHER = 8
"""Most sessions per claim: a worker with many free slots leaves some to workers woken at the same moment."""
BETWEEN_SECONDS = 0.05
"""Shortest time between two claims that find nothing, however often the dispatcher is woken."""
CALLED_SECONDS = 30.0
"""How long a call for a session is remembered."""

_log = logging.getLogger("outlast.dispatcher")


class Dispatcher:
    """Claims sessions for one pool. Sessions passed to `call` are claimed without the grace period; other sessions are
    claimed only while `open` is true."""

    def __init__(
        self,
        store: LogStore,
        clock: Clock,
        take: Callable[[Claimed, float], None],
        *,
        slots: TurnSlots,
        resting: Callable[[], Mapping[str, int]],
        places: frozenset[str],
        ttl_ms: int,
        grace_ms: int,
        every: Callable[[], float],
    ) -> None:
        self.open = False
        self.closed = False
        self.hurried = False
        self._store = store
        self._clock = clock
        self._take = take
        self._slots = slots
        self._resting = resting
        self._places = places
        self._ttl_ms = ttl_ms
        self._grace_ms = grace_ms
        self._every = every
        self._called: dict[str, float] = {}
        self._poked = asyncio.Event()
        self.looked = asyncio.Event()
        """Set after each look for work, whether or not it succeeded."""
        self._away = False
        self._empty_at = 0.0

    def call(self, session_id: str) -> None:
        """Claim this session soon: a door has admitted an input to it."""
        self._called[session_id] = time.monotonic() + CALLED_SECONDS
        self.poke()

    def poke(self) -> None:
        """Look for work now: a slot became free, or a door called."""
        self._poked.set()

    async def go(self) -> None:
        """Claim and wait, in a loop, until `closed` is set."""
        while not self.closed:
            self._poked.clear()
            heard = self._store.work_heard()
            try:
                more = await self._claim()
            except (StoreUnavailable, OutcomeUnknown) as error:
                more = False
                self._gone_away(error)
            finally:
                self.looked.set()
            if not more and not self.closed:
                await self._until_called(heard)

    async def _claim(self) -> bool:
        """Claim sessions for the free slots; return whether there may be more."""
        now = time.monotonic()
        self._called = {name: until for name, until in self._called.items() if until > now}
        most = self._slots.reserve(TOGETHER) if self.open or self._called else 0
        if not most:
            return False
        asked, taken = self._clock.monotonic(), 0
        try:
            claimed = await self._store.claim_async(self._wanted(most))
            self._come_back()
            if self.closed:
                await self._give_back(claimed)
                return False
            for one in claimed:
                self._called.pop(one.lease.session_id, None)
                taken += 1
                self._take(one, asked)
        finally:
            self._slots.hand_back(most - taken)
        self.hurried = False
        if taken < most:
            self._empty_at = time.monotonic()
        return taken == most

    def _wanted(self, most: int) -> ClaimRequest:
        called = frozenset(self._called)
        return ClaimRequest(
            token=id_from(secrets.token_bytes(16)),
            holder=holder(),
            most=most,
            ttl_ms=self._ttl_ms,
            places=self._places,
            besides=self._resting(),
            only=None if self.open else called,
            woken=called,
            served=SERVED,
            grace_ms=0 if self.hurried else self._grace_ms,
        )

    async def _give_back(self, claimed: list[Claimed]) -> None:
        """Release sessions that were claimed while the pool was closing."""
        for one in claimed:
            await self._store.commit_async(Release(lease=one.lease))

    async def _until_called(self, heard: int) -> None:
        """Sleep until the next look. While no slot is free, only a poke ends the wait."""
        waits = {asyncio.ensure_future(_set(self._poked))}
        if self._slots.free > 0:
            waits.add(asyncio.ensure_future(self._store.await_work(heard, self._every())))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        pause = self._empty_at + BETWEEN_SECONDS - time.monotonic()
        if pause > 0 and not self._poked.is_set():
            await _either(self._poked, pause)

    def _gone_away(self, error: OutlastError) -> None:
        self._empty_at = time.monotonic() + self._every()
        if not self._away:
            self._away = True
            log_event(_log, logging.WARNING, "store.away", **error_fields(error))

    def _come_back(self) -> None:
        if self._away:
            self._away = False
            log_event(_log, logging.INFO, "store.back")


async def _set(event: asyncio.Event) -> bool:
    return await event.wait()


async def _either(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
