"""Everything that a scrape of `/metrics` is told by a process with a crew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from holdfast.app.crew import Crew
from holdfast.app.metrics import gauge, queue_lines, text_of
from holdfast.core.errors import HoldfastError

PATIENCE_SECONDS = 2.0


async def exposition(crew: Crew, more: Iterable[str] = ()) -> str:
    """Prometheus text. A store that does not answer in time is told as such, and the rest all the same."""
    load = crew.metrics.load()
    lines = [
        *crew.metrics.lines(),
        *gauge("holdfast_turns_running", "Turns that run here now.", {"": load.running}),
        *gauge("holdfast_turns_waiting", "Turns here that wait for a person.", {"": load.waiting}),
        *gauge("holdfast_concurrency", "Turns that may run here at once.", {"": load.most}),
        *more,
    ]
    try:
        queue = await asyncio.wait_for(asyncio.to_thread(queue_lines, crew.store.queue), PATIENCE_SECONDS)
    except (HoldfastError, TimeoutError):
        queue = []
    up = gauge("holdfast_store_up", "Whether the store answered this scrape.", {"": int(bool(queue))})
    return text_of([*lines, *up, *queue])
