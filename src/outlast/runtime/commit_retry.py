"""Retries of a commit after an unknown outcome, and the retry limit for a writer that loses races."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from outlast.core.errors import OutcomeUnknown
from outlast.store.port import Append, Create, Receipt, Store, Write

REPEATS = 5
FIRST_PAUSE = 0.05
RACES = 20
"""How often a writer rereads the session and retries after another writer was faster."""


async def commit_resolved(
    store: Store, *writes: Write, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> list[Receipt]:
    """Commit, and repeat the commit with the same key until its outcome is known. Raises the last `OutcomeUnknown`."""
    for repeat in range(REPEATS - 1):
        try:
            return await store.commit_async(*writes)
        except OutcomeUnknown as error:
            writes = _keyed(writes, error.key)
        await sleep(FIRST_PAUSE * 2**repeat)
    return await store.commit_async(*writes)


def _keyed(writes: tuple[Write, ...], key: str | None) -> tuple[Write, ...]:
    """Return the same writes; if the caller gave none of them a key, the first one with events gets the store's key."""
    with_events = [write for write in writes if isinstance(write, Append | Create)]
    if key is None or not with_events or any(write.key is not None for write in with_events):
        return writes
    return tuple(msgspec.structs.replace(one, key=key) if one is with_events[0] else one for one in writes)
