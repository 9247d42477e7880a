"""Crash loops of real processes: a worker with many open turns that is killed at random, and a reply that kills it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import open_store
from outlast.core import events as e
from outlast.core.header import Header
from outlast.core.messages import TextPart
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Create, NewEvent
from outlast.store.read.decode import decode_events
from outlast.store.verify import verify
from tests.faults.witness import new_id

ANSWER = "This is the whole answer. " * 8


class KilledWorker:
    """A worker on one SQLite store, started and killed again and again."""

    def __init__(self, folder: Path, *, reply_ms: int, pauses: float, poison: bool = False) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'x.db'}"
        self.requests = folder / "requests"
        self.requests.touch()
        (folder / "script.json").write_text(json.dumps([{"content": ANSWER, "delay_ms": reply_ms}]))
        self.environment = {
            **os.environ,
            "OUTLAST_HOME": str(folder / "home"),
            "OUTLAST_TEST_PAUSES": str(pauses),
            "OUTLAST_TEST_REQUESTS": str(self.requests),
            "OUTLAST_TEST_POISON": "1" if poison else "0",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        words = ["worker", "--store", self.url, "--model", f"scripted:{self.folder / 'script.json'}"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.crash_worker", *words],
            env=self.environment,
            cwd=Path(__file__).parents[2],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self.process

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def await_request(self, seconds: float) -> None:
        """Wait until the worker sends one more request, at most so long."""
        size, until = self.requests.stat().st_size, time.monotonic() + seconds
        while self.requests.stat().st_size == size and time.monotonic() < until:
            time.sleep(0.02)

    def asked(self) -> Counter[str]:
        return Counter(self.requests.read_text().split())


@pytest.fixture
def workers() -> Iterator[list[KilledWorker]]:
    """Workers to stop after the test."""
    started: list[KilledWorker] = []
    yield started
    for worker in started:
        worker.kill()


def sessions(store: LogStore, count: int) -> list[str]:
    """Sessions with one input each, from a door whose inputs only workers answer."""
    ids = [new_id() for _ in range(count)]
    for name in ids:
        created = NewEvent(event=e.SessionCreated(), actor="user/http")
        said = NewEvent(event=e.InputAdmitted(parts=(TextPart("Answer."),)), actor="user/http")
        store.commit(Create(header=Header(session_id=name), events=(created,)))
        store.commit(Append(session_id=name, events=(said,)))
    return ids


def outcomes(store: LogStore, ids: list[str]) -> list[str]:
    """The outcomes of all turns that have ended."""
    kinds = frozenset({"TurnEnded"})
    rows = [row for name in ids for row in decode_events(store, store.read(name, kinds=kinds))]
    return [event.outcome for _, event in rows if isinstance(event, e.TurnEnded)]


def survive(
    worker: KilledWorker, *, turns: int, kills: int, lives: tuple[float, float], patience: float, asks: bool = False
) -> None:
    """Kill the worker `kills` times after random lives, with `asks` counted from its first request; then every turn is
    completed, once."""
    rhythm = random.Random(f"{kills} {lives}")
    with open_store(worker.url) as store:
        ids = sessions(store, turns)
        for _ in range(kills):
            worker.start()
            if asks:
                worker.await_request(10)
            time.sleep(rhythm.uniform(*lives))
            worker.kill()
        worker.start()
        until = time.monotonic() + patience
        while len(outcomes(store, ids)) < turns and time.monotonic() < until:
            time.sleep(0.5)
        assert Counter(outcomes(store, ids)) == {"completed": turns}
        assert verify(store).findings == []


def test_twenty_open_turns_outlive_a_worker_that_is_killed_again_and_again(
    tmp_path: Path, workers: list[KilledWorker]
) -> None:
    worker = KilledWorker(tmp_path, reply_ms=2500, pauses=0.02)
    workers.append(worker)
    survive(worker, turns=20, kills=8, lives=(0.0, 1.5), patience=60, asks=True)
    assert max(worker.asked().values()) > 1  # some replies were cut


@pytest.mark.soak
@pytest.mark.parametrize("asks", [False, True], ids=["from the start", "from the first request"])
@pytest.mark.parametrize("lives", [(0.0, 0.8), (0.5, 2.5), (0.2, 6.0)], ids=str)
@pytest.mark.parametrize("reply_ms", [300, 2500, 8000])
def test_thirty_kills_in_any_rhythm_end_no_turn(
    tmp_path: Path, workers: list[KilledWorker], lives: tuple[float, float], reply_ms: int, asks: bool
) -> None:
    worker = KilledWorker(tmp_path, reply_ms=reply_ms, pauses=1.0)
    workers.append(worker)
    survive(worker, turns=20, kills=30, lives=lives, patience=300, asks=asks)


def test_a_reply_that_kills_every_reader_is_paid_for_five_times(tmp_path: Path, workers: list[KilledWorker]) -> None:
    worker = KilledWorker(tmp_path, reply_ms=0, pauses=0.02, poison=True)
    workers.append(worker)
    with open_store(worker.url) as store:
        [name] = sessions(store, 1)
        for _ in range(5):
            assert worker.start().wait(60) == -9
        worker.start()
        until = time.monotonic() + 60
        while not outcomes(store, [name]) and time.monotonic() < until:
            time.sleep(0.2)
        time.sleep(1.0)
        assert outcomes(store, [name]) == ["failed_recovery"]
        assert worker.asked()[name] == 5
