"""Berths: how many turns may run at once, and who has one.

A turn that only waits for a person gives its berth back meanwhile, so that questions nobody answers do not stop the
others; when the answer is there it gets one before anybody new does. Only so many may wait beside: each of them still
renews a lease.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

BESIDE_EACH = 16


class TurnSlots:
    """For one event loop. `on_free` is called whenever one becomes free."""

    def __init__(self, most: int, on_free: Callable[[], None]) -> None:
        self.most = most
        self.beside = 0
        self._free = most
        self._on_free = on_free
        self._returning: deque[asyncio.Future[None]] = deque()

    @property
    def free(self) -> int:
        """How many somebody new may have."""
        return max(0, self._free - len(self._returning))

    @property
    def taken(self) -> int:
        return self.most - self._free

    def reserve(self, most: int) -> int:
        """Keep up to so many for somebody new; how many. Each is taken, or handed back."""
        kept = min(most, self.free)
        self._free -= kept
        return kept

    def hand_back(self, count: int) -> None:
        """So many of the reserved ones are not needed: those who return may have them."""
        for _ in range(count):
            if not self._hand_on():
                self._free += 1

    def take(self) -> TurnSlot:
        """One that was reserved."""
        return TurnSlot(self)

    def give(self) -> None:
        if not self._hand_on():
            self._free += 1
            self._on_free()

    def _hand_on(self) -> bool:
        """Give one to the first of those who return, if there is any."""
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
    """One turn's. `is_beside` while it only waits for a person."""

    def __init__(self, slots: TurnSlots) -> None:
        self._berths = slots
        self._held = True
        self.is_beside = False

    @asynccontextmanager
    async def released(self) -> AsyncGenerator[None]:
        slots = self._berths
        slots.beside += 1
        self.is_beside = True
        gives = slots.beside <= slots.most * BESIDE_EACH
        if gives:
            self._held = False
            slots.give()
        try:
            yield
        finally:
            slots.beside -= 1
            self.is_beside = False
        if gives:  # whoever is stopped while it waits needs none any more
            await slots.take_back()
            self._held = True

    def leave(self) -> None:
        if self._held:
            self._held = False
            self._berths.give()
