"""The response to a scrape of `/metrics` by a process with a worker pool."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from outlast.app.workers.metrics import gauge, queue_lines, text_of
from outlast.app.workers.worker_pool import WorkerPool
from outlast.core.errors import OutlastError

PATIENCE_SECONDS = 2.0


async def exposition(pool: WorkerPool, more: Iterable[str] = ()) -> str:
    """The Prometheus text. If the store does not answer in time, `outlast_store_up` is 0 and the queue gauges are
    missing; all other metrics are still reported."""
    load = pool.metrics.load()
    lines = [
        *pool.metrics.lines(),
        *gauge("outlast_turns_running", "Turns that run here now.", {"": load.running}),
        *gauge("outlast_turns_waiting", "Turns here that wait for a person.", {"": load.waiting}),
        *gauge("outlast_concurrency", "Turns that may run here at once.", {"": load.most}),
        *more,
    ]
    try:
        queue = await asyncio.wait_for(asyncio.to_thread(queue_lines, pool.store.queue), PATIENCE_SECONDS)
    except (OutlastError, TimeoutError):
        queue = []
    up = gauge("outlast_store_up", "Whether the store answered this scrape.", {"": int(bool(queue))})
    return text_of([*lines, *up, *queue])
