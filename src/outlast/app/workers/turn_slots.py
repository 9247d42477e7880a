"""Slots: limits how many turns of a pool run at once.

A turn that waits for a person gives its slot back meanwhile, so unanswered questions do not block other turns. After
the answer it gets a slot before any new turn does. The number of turns that wait without a slot is bounded
(`BESIDE_EACH` per slot), because each of them still renews a lease; further waiting turns keep their slot.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

RELEASED_PER_SLOT = 16


class TurnSlots:
    """The slots of one pool, for one event loop. `on_free` is called when a slot becomes free."""

    def __init__(self, most: int, on_free: Callable[[], None]) -> None:
        self.most = most
        self.beside = 0
        self._free = most
        self._on_free = on_free
        self._returning: deque[asyncio.Future[None]] = deque()

    @property
    def free(self) -> int:
        """Slots available to new turns."""
        return max(0, self._free - len(self._returning))

    @property
    def taken(self) -> int:
        return self.most - self._free

    def reserve(self, most: int) -> int:
        """Reserve up to `most` slots for new turns; return how many were reserved. The caller must `take` or
        `hand_back` each of them."""
        kept = min(most, self.free)
        self._free -= kept
        return kept

    def hand_back(self, count: int) -> None:
        """Return reserved slots that are not needed; turns waiting to resume get them first."""
        for _ in range(count):
            if not self._hand_on():
                self._free += 1

    def take(self) -> TurnSlot:
        """Turn one reserved slot into a `TurnSlot`."""
        return TurnSlot(self)

    def give(self) -> None:
        if not self._hand_on():
            self._free += 1
            self._on_free()

    def _hand_on(self) -> bool:
        """Give a slot to the first turn waiting to resume; return False if there is none."""
        while self._returning:
            waiting = self._returning.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return True
        return False

    async def take_back(self) -> None:
        if self._free > 0:
            self._free -= 1
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._returning.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self.give()
            raise


class TurnSlot:
    """The slot of one turn. `is_beside` is true while the turn waits for a person."""

    def __init__(self, slots: TurnSlots) -> None:
        self._slots = slots
        self._held = True
        self.is_released = False

    @asynccontextmanager
    async def released(self) -> AsyncGenerator[None]:
        slots = self._slots
        slots.beside += 1
        self.is_released = True
        gives = slots.beside <= slots.most * RELEASED_PER_SLOT
        if gives:
            self._held = False
            slots.give()
        try:
            yield
        finally:
            slots.beside -= 1
            self.is_released = False
        if gives:  # a turn stopped while it waits needs no slot afterwards
            await slots.take_back()
            self._held = True

    def leave(self) -> None:
        if self._held:
            self._held = False
            self._slots.give()
