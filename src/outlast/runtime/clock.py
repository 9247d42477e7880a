"""Clock port: time, sleep and randomness, so that a test can supply its own."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int:
        """Wall clock in microseconds UTC: for display, never for ordering."""
        ...

    def monotonic(self) -> float:
        """Monotonic seconds, including time the machine was suspended, because leases expire during that time."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def chance(self) -> float:
        """Random number in [0, 1), for jitter."""
        ...

    def token(self) -> bytes:
        """16 random bytes."""
        ...


def timestamp(clock: Clock) -> str:
    """Return the current time as session records store it: UTC, ISO 8601, whole seconds."""
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
        return random.random()  # noqa: S311 jitter needs no secure randomness

    def token(self) -> bytes:
        return secrets.token_bytes(16)
