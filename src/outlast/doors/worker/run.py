"""Running a worker: claim, run, renew, until a signal comes.

SIGTERM or SIGINT: nothing new is claimed; running turns have their time to end, and what has not ended by then is
handed over. A second signal hands over at once.
"""

from __future__ import annotations

import asyncio
import json as json_lines
import logging
import signal

import msgspec

from outlast.app.logging_setup import say, worker_name
from outlast.app.settings import Settings
from outlast.app.stores import store_of
from outlast.app.turn_setup import AgentConfig
from outlast.app.workers.metrics import Metrics
from outlast.app.workers.metrics_text import exposition
from outlast.app.workers.options import Working, check_model
from outlast.app.workers.worker_pool import Crew
from outlast.doors.worker.metrics_server import Scrape

_log = logging.getLogger("outlast.worker")


class WorkerFlags(msgspec.Struct, frozen=True, kw_only=True):
    drain_seconds: float = 60.0
    metrics_port: int | None = None
    json: bool = False


async def work(settings: Settings, working: Working, config: AgentConfig, flags: WorkerFlags) -> None:
    """Work until a signal comes and everything is ended or handed over."""
    working.checked()
    model = await check_model(settings)
    store = await asyncio.to_thread(store_of, settings)
    try:
        crew = working.crew(store, settings, Metrics(), config)
        scrape = Scrape(lambda: exposition(crew))
        if flags.metrics_port is not None:
            await scrape.open(flags.metrics_port)
        try:
            await _work(crew, flags, model, scrape.url if flags.metrics_port is not None else None)
        finally:
            await scrape.close()
    finally:
        await asyncio.to_thread(store.close)


async def _work(crew: Crew, flags: WorkerFlags, model: str, metrics: str | None) -> None:
    stop = asyncio.Event()

    def asked_to_stop() -> None:
        if stop.is_set():
            crew.hurry()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_stop)
    await crew.start()
    _tell(crew, flags, model, metrics)
    say(_log, logging.INFO, "worker.started", concurrency=crew.berths.most)
    await stop.wait()
    say(_log, logging.INFO, "worker.draining", running=len(crew.running), seconds=flags.drain_seconds)
    await crew.close(patience=flags.drain_seconds)
    say(_log, logging.INFO, "worker.stopped")


def _tell(crew: Crew, flags: WorkerFlags, model: str, metrics: str | None) -> None:
    places = sorted(crew.places.offered)
    if flags.json:
        told = {
            "worker": worker_name(),
            "store": crew.store.url,
            "model": model,
            "concurrency": crew.berths.most,
            "places": places,
            "metrics_url": metrics,
        }
        print(json_lines.dumps(told), flush=True)
        return
    scraped = f"\nMetrics are at {metrics}" if metrics else ""
    print(
        f"Outlast worker {worker_name()} works on {crew.store.url}\n"
        f"with {model}, up to {crew.berths.most} turns at once, at {', '.join(places)}{scraped}\n"
        "Ctrl-C drains: running turns end or are handed over; twice hands them over at once.",
        flush=True,
    )
