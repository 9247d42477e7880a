"""Time, sleep and chance, through one port: a test hands in its own."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int:
        """Wall clock in microseconds UTC: shown, never used to order."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, those that the machine slept through included: a lease runs out meanwhile."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def chance(self) -> float:
        """A number from 0 up to 1, for jitter."""
        ...

    def token(self) -> bytes:
        """16 random bytes."""
        ...


def timestamp(clock: Clock) -> str:
    """Now as a record of the session says it: UTC, ISO 8601, whole seconds."""
    return datetime.fromtimestamp(clock.now_us() / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.clock_gettime(_CLOCK)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def chance(self) -> float:
        return random.random()  # noqa: S311 jitter is no secret

    def token(self) -> bytes:
        return secrets.token_bytes(16)
