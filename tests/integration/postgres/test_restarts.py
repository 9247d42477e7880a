"""The server falls over again and again while eight writers write: nothing missing, doubled or left unknown."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from outlast.core.errors import OutcomeUnknown
from outlast.store.port import Append
from outlast.store.postgres import PostgresStore
from tests.integration.postgres.builders import message, opened, said, started
from tests.support.pg import PgServer

RESTARTS = 20 if os.environ.get("OUTLAST_SOAK") == "1" else 6
WRITERS = 8


@pytest.fixture
def own_server() -> Iterator[PgServer]:
    server = PgServer()
    yield server
    server.close()


class Writer:
    """Appends under keys of its own until it is told to stop; keeps every receipt. Half of them send two events."""

    def __init__(self, store: PostgresStore, session_id: str, name: str, stop: threading.Event) -> None:
        self.receipts: dict[str, tuple[int, int]] = {}
        self.unknown: list[str] = []
        self._store, self._session_id, self._name, self._stop = store, session_id, name, stop

    def run(self) -> None:
        number = 0
        while not self._stop.is_set():
            key = f"{self._name}-{number}"
            events = (said(key), said(key)) if number % 3 == 0 else (said(key),)
            try:
                receipt = self._store.commit(Append(session_id=self._session_id, events=events, key=key))[0]
            except OutcomeUnknown:
                self.unknown.append(key)
            else:
                self.receipts[key] = (receipt.first_seq, receipt.seq)
            number += 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_crashes_of_the_server_lose_and_double_nothing(own_server: PgServer) -> None:
    url = own_server.create_database()
    chance = random.Random(20)
    stop = threading.Event()
    with opened(url) as one, opened(url) as two, ThreadPoolExecutor(WRITERS) as pool:
        session_ids = [started(one) for _ in range(4)]
        writers = [Writer((one, two)[n % 2], session_ids[n % 4 if n < 6 else 0], f"w{n}", stop) for n in range(WRITERS)]
        jobs = [pool.submit(writer.run) for writer in writers]
        for _ in range(RESTARTS):
            time.sleep(chance.uniform(0.1, 0.5))
            own_server.crash_and_restart()
        stop.set()
        for job in jobs:
            job.result()

        stored: dict[str, tuple[int, int]] = {}
        total = 0
        for session_id in session_ids:
            events = one.read(session_id, after=1)
            total += len(events)
            for event in events:
                if event.key is not None:
                    assert event.key not in stored, "stored twice"
                    length = 2 if int(event.key.split("-")[1]) % 3 == 0 else 1
                    stored[event.key] = (event.seq, event.seq + length - 1)
        acknowledged = {key: seqs for writer in writers for key, seqs in writer.receipts.items()}
        assert [key for writer in writers for key in writer.unknown] == []
        assert stored == acknowledged
        assert total == sum(last - first + 1 for first, last in stored.values())
        assert len(acknowledged) > RESTARTS


def test_readers_and_followers_sit_out_a_restart(own_server: PgServer) -> None:
    url = own_server.create_database()
    with opened(url) as store, ThreadPoolExecutor(3) as pool:
        session_id = started(store)
        seen: list[int] = []

        def follow() -> None:
            for batch in store.follow(session_id, timeout=20):
                seen.extend(event.seq for event in batch.events)
                if seen[-1] >= 6:
                    return

        follower = pool.submit(follow)
        for number in range(5):
            own_server.crash_and_restart()
            assert store.head(session_id).last_seq == number + 1
            store.commit(message(session_id, str(number)))
        follower.result(timeout=30)
        assert seen == [1, 2, 3, 4, 5, 6]
