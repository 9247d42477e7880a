"""One, two and four workers on one PostgreSQL, with a model that only sleeps: how many turns they end in a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures.figure import Figure, Round, ratio
from bench.figures.fleet import Workers
from bench.figures.lab import Lab
from bench.figures.messages import text
from outlast.app.sessions.create import create
from outlast.app.settings import Settings, load_settings
from outlast.runtime.service import SessionService
from outlast.store import open_store
from outlast.store.log_store import LogStore

SLEEPS, CONCURRENCY, TURNS = 1.0, 4, 48
PATIENCE_SECONDS = 120.0
FLEETS = ((2, 1.8), (4, 3.2))


def scale_out(lab: Lab, kind: str) -> Iterator[Figure]:
    turns = lab.count(TURNS, 16)
    found = [_round(lab, kind, turns) for _ in range(min(lab.rounds, 3))]
    for number, (workers, goal) in enumerate(FLEETS):
        yield ratio(
            f"workers-{workers}",
            f"turns of {workers} workers, a model that sleeps {SLEEPS:g} s",
            "one worker",
            [Round(one, many[number]) for one, many in found],
            measured_in="turns/s",
            goal=goal,
            at_least=True,
            note=f"{turns} turns, {CONCURRENCY} at once in each worker",
        )


def _round(lab: Lab, kind: str, turns: int) -> tuple[float, list[float]]:
    url, folder = lab.url(kind), lab.folder()
    settings = load_settings(home=folder / "home", store=url, model="none", project_root=folder)
    with open_store(url) as store, Workers(url, folder, sleeps=SLEEPS, concurrency=CONCURRENCY) as workers:
        workers.start(1)
        _speed(store, settings, folder, CONCURRENCY)  # what is prepared once is not counted
        one, running = _speed(store, settings, folder, turns), 1
        many: list[float] = []
        for count, _ in FLEETS:
            workers.start(count - running)
            running = count
            _speed(store, settings, folder, count * CONCURRENCY)
            many.append(_speed(store, settings, folder, turns))
    return one, many


def _speed(store: LogStore, settings: Settings, folder: Path, turns: int) -> float:
    """Turns a second, from the first message to the end of the last turn."""
    names = [create(store, settings, folder, door="http") for _ in range(turns)]
    began = time.perf_counter()
    asyncio.run(_ask(store, names))
    while store.queue().waiting + store.queue().driven:
        if time.perf_counter() > began + PATIENCE_SECONDS:
            raise RuntimeError("the workers did not answer in time")
        time.sleep(0.01)
    return turns / (time.perf_counter() - began)


async def _ask(store: LogStore, names: list[str]) -> None:
    service = SessionService(store, "http")
    await asyncio.gather(*(service.admit(name, text()) for name in names))
