"""Runs a worker: claims sessions, runs their turns and renews its leases until a signal arrives.

On SIGTERM or SIGINT the worker claims nothing new; running turns get `drain_seconds` to end and are then handed over. A
second signal hands them over at once.
"""

from __future__ import annotations

import asyncio
import json as json_lines
import logging
import signal

import msgspec

from outlast.app.logging_setup import log_event, worker_name
from outlast.app.settings import Settings
from outlast.app.stores import store_of
from outlast.app.workers.metrics import Metrics
from outlast.app.workers.metrics_text import exposition
from outlast.app.workers.options import WorkerOptions, check_model
from outlast.app.workers.worker_pool import WorkerPool
from outlast.doors.worker.metrics_server import MetricsServer
from outlast.runtime.agent_config import AgentConfig

_log = logging.getLogger("outlast.worker")


class WorkerFlags(msgspec.Struct, frozen=True, kw_only=True):
    drain_seconds: float = 60.0
    metrics_port: int | None = None
    json: bool = False


async def work(settings: Settings, working: WorkerOptions, config: AgentConfig, flags: WorkerFlags) -> None:
    """Work until a signal arrives and every turn has ended or is handed over."""
    working.checked()
    model = await check_model(settings)
    store = await asyncio.to_thread(store_of, settings)
    try:
        pool = working.pool(store, settings, Metrics(), config)
        scrape = MetricsServer(lambda: exposition(pool))
        if flags.metrics_port is not None:
            await scrape.open(flags.metrics_port)
        try:
            await _work(pool, flags, model, scrape.url if flags.metrics_port is not None else None)
        finally:
            await scrape.close()
    finally:
        await asyncio.to_thread(store.close)


async def _work(pool: WorkerPool, flags: WorkerFlags, model: str, metrics: str | None) -> None:
    stop = asyncio.Event()

    def asked_to_stop() -> None:
        if stop.is_set():
            pool.hurry()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_stop)
    await pool.start()
    _tell(pool, flags, model, metrics)
    log_event(_log, logging.INFO, "worker.started", concurrency=pool.slots.most)
    await stop.wait()
    log_event(_log, logging.INFO, "worker.draining", running=len(pool.running), seconds=flags.drain_seconds)
    await pool.close(patience=flags.drain_seconds)
    log_event(_log, logging.INFO, "worker.stopped")


def _tell(pool: WorkerPool, flags: WorkerFlags, model: str, metrics: str | None) -> None:
    places = sorted(pool.places.offered)
    if flags.json:
        told = {
            "worker": worker_name(),
            "store": pool.store.url,
            "model": model,
            "concurrency": pool.slots.most,
            "places": places,
            "metrics_url": metrics,
        }
        print(json_lines.dumps(told), flush=True)
        return
    scraped = f"\nMetrics are at {metrics}" if metrics else ""
    print(
        f"Outlast worker {worker_name()} works on {pool.store.url}\n"
        f"with {model}, up to {pool.slots.most} turns at once, at {', '.join(places)}{scraped}\n"
        "Ctrl-C drains: running turns end or are handed over; twice hands them over at once.",
        flush=True,
    )
