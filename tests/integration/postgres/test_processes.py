"""Several processes on one database: one gapless order, and everybody sees it soon, also when a hint is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from outlast.store.postgres import PostgresStore
from tests.integration.postgres.builders import message, opened, started
from tests.support.pg import PgServer, eventually

WRITE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from tests.integration.postgres.builders import message, opened

url, session_id, name, threads, count = sys.argv[1:]
with opened(url) as store, ThreadPoolExecutor(int(threads)) as pool:
    print("ready", flush=True)
    sys.stdin.readline()
    def write(number):
        return [store.commit(message(session_id, f"{name} {number} {n}"))[0].seq for n in range(int(count))]
    for seqs in pool.map(write, range(int(threads))):
        print(*seqs)
"""


def writer(url: str, session_id: str, name: str, threads: int, count: int) -> subprocess.Popen[str]:
    """Another process, ready to write as soon as it gets a line."""
    words = [sys.executable, "-c", WRITE, url, session_id, name, str(threads), str(count)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def told(process: subprocess.Popen[str]) -> list[int]:
    out, _ = process.communicate("\n", timeout=60)
    assert process.returncode == 0
    return [int(word) for word in out.split()]


def test_two_processes_write_one_session_without_a_gap(pg_url: str) -> None:
    with opened(pg_url) as store, ThreadPoolExecutor(2) as pool:
        session_id = started(store)
        processes = [writer(pg_url, session_id, name, 4, 40) for name in ("a", "b")]
        acknowledged = [seq for seqs in pool.map(told, processes) for seq in seqs]
        assert sorted(acknowledged) == list(range(2, 322))
        assert [event.seq for event in store.read(session_id)] == list(range(1, 322))


def test_a_follower_sees_what_another_process_writes(pg_url: str) -> None:
    with opened(pg_url) as store:
        session_id = started(store)
        process = writer(pg_url, session_id, "a", 1, 5)
        seen: list[int] = []
        for batch in store.follow(session_id, timeout=20):
            if not seen:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            seen += [event.seq for event in batch.events]
            if seen[-1] >= 6:
                break
        assert seen == [1, 2, 3, 4, 5, 6]
        process.communicate(timeout=30)


class Follower:
    """Follows a session in a thread and remembers when each event was seen."""

    def __init__(self, store: PostgresStore, session_id: str) -> None:
        self.seen: dict[int, float] = {}
        self._store, self._session_id = store, session_id
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        for batch in self._store.follow(self._session_id, timeout=4):
            for event in batch.events:
                assert event.seq == len(self.seen) + 1
                self.seen[event.seq] = time.monotonic()

    def join(self) -> None:
        self._thread.join()


def listeners(server: PgServer, url: str) -> list[tuple[Any, ...]]:
    name = url.split("/")[3].split("?")[0]
    query = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND application_name = 'outlast wake-ups'"
    return server.sql(query, name)


def test_losing_every_hint_only_costs_a_moment(pg_server: PgServer, pg_url: str) -> None:
    """The listener is killed before every commit; the look that is taken once a second finds the rest."""
    with opened(pg_url) as reader, opened(pg_url) as writer:
        session_id = started(writer)
        follower = Follower(reader, session_id)
        eventually(lambda: listeners(pg_server, pg_url))
        sent: dict[int, float] = {}
        for number in range(6):
            for (pid,) in listeners(pg_server, pg_url):
                pg_server.sql("SELECT pg_terminate_backend(%s)", pid)
            seq = writer.commit(message(session_id, str(number)))[0].seq
            sent[seq] = time.monotonic()
            time.sleep(0.2)
        follower.join()
        assert list(follower.seen) == list(range(1, 8))
        assert max(follower.seen[seq] - at for seq, at in sent.items()) < 3


def test_a_hint_is_heard_sooner_than_the_next_look(pg_server: PgServer, pg_url: str) -> None:
    with opened(pg_url) as reader, opened(pg_url) as writer:
        session_id = started(writer)
        follower = Follower(reader, session_id)
        eventually(lambda: len(listeners(pg_server, pg_url)) == 2)
        delays: list[float] = []
        for number in range(10):
            time.sleep(0.11)
            seq = writer.commit(message(session_id, str(number)))[0].seq
            at = time.monotonic()
            eventually(lambda seq=seq: seq in follower.seen)
            delays.append(follower.seen[seq] - at)
        follower.join()
        assert sorted(delays)[len(delays) // 2] < 0.5


def test_hints_are_few_however_much_is_written(pg_server: PgServer, pg_url: str) -> None:
    with opened(pg_url) as store:
        session_id = started(store)
        sent: list[float] = []
        store._wakeups._send = lambda link, send=store._wakeups._send: (sent.append(time.monotonic()), send(link))[1]
        began = time.monotonic()
        for number in range(300):
            store.commit(message(session_id, str(number)))
        took = time.monotonic() - began
        assert 1 <= len(sent) <= took / 0.02 + 2
