"""Connections that end, hang or are taken away: nothing lost, nothing doubled, no outcome left unknown."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from outlast.core.errors import OutcomeUnknown, StoreUnavailable
from outlast.store.port import Append, Delete
from outlast.store.postgres import PostgresStore, migrate
from outlast.store.postgres.connection import PostgresConnection
from outlast.store.postgres.notify import NotifyConnection
from tests.integration.postgres.builders import message, opened, said, started, writing_link
from tests.integration.postgres.proxy import TO_CLIENT, TO_SERVER, Proxy
from tests.support.pg import PgServer, eventually


def _nobody_is_told(self: NotifyConnection, sessions: object = None, *, work: bool = True) -> None: ...


@pytest.fixture
def proxy(pg_server: PgServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """With no other traffic than that of the writes, so that it is these that are cut."""
    monkeypatch.setattr(NotifyConnection, "announce", _nobody_is_told)
    proxy = Proxy(pg_server.folder)
    yield proxy
    proxy.close()


def texts(store: PostgresStore, session_id: str) -> list[bytes]:
    return [event.body for event in store.read(session_id, after=1)]


def database(url: str) -> str:
    return url.split("/")[3].split("?")[0]


@pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_connection_cut_anywhere_in_an_append_is_made_good(
    pg_url: str, proxy: Proxy, direction: str, keyed: bool
) -> None:
    with opened(proxy.url(pg_url)) as store:
        session_id = started(store)
        store.commit(message(session_id, "warm up"))
        cuts = [*range(0, 12, 3), *range(12, 450, 60)] if direction == TO_SERVER else range(0, 60, 6)
        for number, count in enumerate(cuts, start=3):
            proxy.cut_after(count, direction)
            receipt = store.commit(message(session_id, f"cut at {count}", key=f"k{count}" if keyed else None))[0]
            assert receipt.seq == number
            assert proxy.tripped.is_set()
        assert store.head(session_id).last_seq == len(list(cuts)) + 2
        assert len(set(texts(store, session_id))) == len(list(cuts)) + 1


@pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT])
def test_a_connection_cut_anywhere_in_the_engines_transaction_is_made_good(
    pg_url: str, proxy: Proxy, direction: str
) -> None:
    with opened(proxy.url(pg_url)) as store:
        one, two = started(store), started(store)
        number = 1
        for number, count in enumerate(range(0, 2400, 300), start=2):
            proxy.cut_after(count, direction)
            first, second = store.commit(message(one, f"cut at {count}"), message(two, f"cut at {count}"))
            assert (first.seq, second.seq) == (number, number)
            assert proxy.tripped.is_set()
        assert store.head(one).last_seq == store.head(two).last_seq == number


def test_a_deletion_whose_answer_was_lost_is_a_deletion(pg_url: str, proxy: Proxy) -> None:
    with opened(proxy.url(pg_url)) as store:
        for count in range(0, 1500, 100):
            session_id = started(store)
            proxy.cut_after(count, TO_CLIENT)
            assert store.commit(Delete(session_id=session_id, actor="user"))[0].session_id == session_id


@pytest.mark.parametrize("direction", [TO_SERVER, TO_CLIENT])
def test_a_silent_connection_is_noticed(
    pg_url: str, proxy: Proxy, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(proxy.url(pg_url)) as store:
        session_id = started(store)
        monkeypatch.setattr("outlast.store.postgres.connection.ANSWER_SECONDS", 1.0)
        writing_link(store).answer_seconds = 0.5
        proxy.freeze_after(5, direction)
        before = time.monotonic()
        assert store.commit(message(session_id, "is anybody there?"))[0].seq == 2
        assert time.monotonic() - before < 10
        assert len(texts(store, session_id)) == 1


def test_when_the_server_stays_away_the_outcome_is_unknown_and_names_the_key(pg_url: str, proxy: Proxy) -> None:
    url = proxy.url(pg_url)
    with opened(url + "&outlast_retry_seconds=0.5") as store:
        session_id = started(store)
        store.commit(message(session_id, "warm up"))
        proxy.cut_after(0, TO_CLIENT)
        proxy.hide()
        with pytest.raises(OutcomeUnknown) as told:
            store.commit(message(session_id, "lost?", key="mine"))
        assert told.value.key == "mine"
        # Nothing could be sent this time: certainly not written.
        with pytest.raises(StoreUnavailable, match="no PostgreSQL answers"):
            store.commit(message(session_id, "not sent"))
    with opened(pg_url) as store:
        eventually(lambda: store.head(session_id).last_seq == 3)
        receipt = store.commit(message(session_id, "lost?", key="mine"))[0]
        assert (receipt.seq, receipt.replayed) == (3, True)


def test_a_storm_of_killed_connections_goes_unnoticed(pg_server: PgServer, pg_url: str) -> None:
    stop = threading.Event()

    def storm() -> None:
        kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
        while not stop.wait(0.05):
            pg_server.sql(kill, database(pg_url))

    def write(store: PostgresStore, session_id: str, name: str) -> list[int]:
        seqs: list[int] = []
        for number in range(40):
            single = message(session_id, f"{name} {number}", key=f"{name}-{number}")
            double = Append(session_id=session_id, events=(said("a"),) * 9, key=f"{name}-{number}")
            seqs.append(store.commit(single if number % 5 else double)[0].seq)
            store.head(session_id)
        return seqs

    with opened(pg_url) as one, opened(pg_url) as two, ThreadPoolExecutor(5) as pool:
        session_ids = [started(one), started(two)]
        killer = pool.submit(storm)
        stores = [one, two, one, two]
        jobs = [pool.submit(write, store, session_ids[n % 2], f"w{n}") for n, store in enumerate(stores)]
        acknowledged = [job.result() for job in jobs]
        stop.set()
        killer.result()
        for parity, session_id in enumerate(session_ids):
            found = {event.key: event.seq for event in one.read(session_id, after=1) if event.key}
            assert len(found) == 80
            assert sorted(found.values())[-1] <= one.head(session_id).last_seq == 1 + 2 * (8 * 9 + 32)
            firsts = {seq for n in range(parity, 4, 2) for seq in acknowledged[n]}
            assert len(firsts) == 80


def test_a_locked_session_does_not_hold_up_the_others(pg_server: PgServer, pg_url: str) -> None:
    opened(pg_url).close()
    for function in ("append", "append_one"):
        pg_server.sql(f"ALTER FUNCTION outlast.{function} SET lock_timeout = '1s'", database=database(pg_url))
    with opened(pg_url + "&outlast_retry_seconds=3") as store, ThreadPoolExecutor(8) as pool:
        locked, *free = [started(store) for _ in range(6)]
        with PostgresConnection.to(store._address) as other, other.transaction():
            other.execute("SELECT FROM outlast.sessions WHERE session_id = %s FOR UPDATE", (locked,))
            stuck = pool.submit(store.commit, message(locked, "waits"))
            others = [pool.submit(store.commit, message(session_id, "goes on")) for session_id in free]
            for other_job in others:
                assert other_job.result(timeout=30)[0].seq == 2
            with pytest.raises(StoreUnavailable, match="locked by another connection"):
                stuck.result(timeout=30)
        assert store.commit(message(locked, "now"))[0].seq == 2


def test_a_database_that_defaults_to_serializable_works_the_same(pg_server: PgServer, pg_url: str) -> None:
    pg_server.sql(f"ALTER DATABASE {database(pg_url)} SET default_transaction_isolation = 'serializable'")
    with opened(pg_url) as one, opened(pg_url) as two, ThreadPoolExecutor(4) as pool:
        session_id = started(one)

        def write(store: PostgresStore) -> None:
            for number in range(25):
                store.commit(message(session_id, str(number)))

        for job in [pool.submit(write, store) for store in (one, two, one, two)]:
            job.result()
        assert [event.seq for event in one.read(session_id)] == list(range(1, 102))


def test_behind_a_pooler_nothing_is_prepared(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pooler gives out process numbers of its own; that is how it is known."""
    monkeypatch.setattr(migrate, "SETTINGS", migrate.SETTINGS.replace("pg_backend_pid()", "-1"))
    with opened(pg_url) as store:
        session_id = started(store)
        for number in range(8):
            store.commit(message(session_id, str(number)))
        link = writing_link(store)
        assert link.execute("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]


def test_a_pooler_that_was_not_noticed_is_found_out(pg_url: str) -> None:
    """What was prepared is gone when the pooler gives us another connection: the append goes on without."""
    with opened(pg_url) as store:
        session_id = started(store)
        store.commit(message(session_id, "prepared"))
        link = writing_link(store)
        assert link.is_direct
        link.execute("DEALLOCATE ALL")
        assert store.commit(message(session_id, "gone"))[0].seq == 3
        assert not link.is_direct
        assert store.commit(message(session_id, "goes on"))[0].seq == 4


FORK = """
import os, sys
from tests.integration.postgres.builders import message, opened, started, writing_link
from outlast.core.errors import StoreUnavailable

store = opened(sys.argv[1] + "&outlast_retry_seconds=0")
session_id = started(store)
store.head(session_id)
pid = writing_link(store).pgconn.backend_pid
child = os.fork()
if child == 0:
    for call in (store.head, lambda name: store.commit(message(name, "no"))):
        try:
            call(session_id)
        except StoreUnavailable as error:
            assert "before a fork" in str(error)
        else:
            os._exit(1)
    with opened(sys.argv[1]) as again:
        again.commit(message(session_id, "from the child"))
    sys.exit(0)  # through every finaliser
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert store.commit(message(session_id, "from the parent"))[0].seq == 3
assert store.head(session_id).last_seq == 3
assert writing_link(store).pgconn.backend_pid == pid
store.close()
print("fine")
"""


def test_after_a_fork_the_parents_connections_are_left_alone(pg_url: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK, pg_url], capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


def test_a_closed_store_says_so(pg_url: str) -> None:
    store = opened(pg_url)
    session_id = started(store)
    store.close()
    store.close()
    for call in (lambda: store.head(session_id), lambda: store.commit(message(session_id, "late"))):
        with pytest.raises(StoreUnavailable, match="closed"):
            call()
