"""How soon a follower in one process has what another process has committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from statistics import median

from bench.figures.figure import Figure
from bench.figures.lab import Lab
from bench.figures.worker import Task
from bench.figures.workers import Worker
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.log_store import LogStore


def follow(lab: Lab, kind: str) -> Iterator[Figure]:
    url = lab.url(kind)
    with open_store(url) as store:
        session = ConversationSession(store=store)
        session.persist()
        worker = Worker(Task(session_id=session.session_id, url=url, paced=True))
        try:
            worker.await_ready()
            rounds = [_delays(store, session.session_id, worker, lab.count(40, 3)) for _ in range(lab.rounds)]
        finally:
            worker.close()
    typical = median(delay for delays in rounds for delay in delays)
    yield Figure(
        name="follow",
        title="another process's commit seen by a follower, slowest",
        against="-",
        value=median(max(delays) for delays in rounds),
        goal=50.0,
        unit="ms",
        note=f"typically {typical:.1f} ms",
    )


def _delays(store: LogStore, session_id: str, worker: Worker, count: int) -> list[float]:
    """Milliseconds from durable there to in hand here."""
    seen: list[int] = []
    arrived = threading.Semaphore(0)
    after = store.head(session_id).last_seq

    def listen() -> None:
        for batch in store.follow(session_id, after=after, timeout=20):
            seen.extend([time.monotonic_ns()] * len(batch.events))
            for _ in batch.events:
                arrived.release()
            if len(seen) >= count:
                return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    done: list[int] = []
    for _ in range(count):
        worker.tell("append")
        done.append(int(worker.hear()))
        arrived.acquire(timeout=20)
    listener.join(timeout=30)
    return [max(0, there - made) / 1e6 for made, there in zip(done, seen, strict=True)]
