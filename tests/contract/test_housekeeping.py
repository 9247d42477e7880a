"""Housekeeping goes on where it stopped, shares its hour among processes, and is in nobody's way."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator

import pytest

from outlast.core.errors import DamagedSession
from outlast.core.events import SessionArchived, SessionClosed, SessionCreated
from outlast.core.header import Header
from outlast.store import lineage, open_store
from outlast.store.log_store import LogStore
from outlast.store.maintenance import gc
from outlast.store.port import Append, Create, Delete, NewEvent, PutBlob, Redact, Store
from outlast.store.verify import verify
from outlast.testing.contract.exam import new_id, said

MONTH = 31 * 24 * 3_600_000_000


def now() -> int:
    return time.time_ns() // 1000


@pytest.fixture
def store(store_url: str) -> Iterator[LogStore]:
    with open_store(store_url) as store:
        assert isinstance(store, LogStore)
        yield store


def begun(store: Store) -> str:
    session_id = new_id()
    store.commit(Create(header=Header(session_id=session_id), events=(NewEvent(event=SessionCreated()),)))
    return session_id


def put(store: Store, session_id: str, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    store.commit(PutBlob(session_id=session_id, sha256=digest, data=data))
    return digest


def test_each_step_is_bounded_and_together_they_come_to_the_end(
    store: LogStore, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "ROWS", 3)
    monkeypatch.setattr(gc, "SLICES", 2)
    monkeypatch.setattr(gc, "EVENTS", 2)
    sessions = [begun(store) for _ in range(9)]
    for session_id in sessions:
        for n in range(4):
            store.commit(Append(session_id=session_id, events=(said(f"{n}"),), key=f"k{n}"))
            put(store, session_id, b"%d" % n)
    for session_id in sessions[:5]:
        store.commit(Delete(session_id=session_id, actor="user"))
    keys = blobs = steps = 0
    done = False
    while not done:
        with open_store(store_url) as one:
            swept = one.sweep(now() + MONTH)
        keys, blobs, steps, done = keys + swept.keys, blobs + swept.blobs, steps + 1, swept.done
    assert steps > 1
    assert keys >= 20
    assert blobs == 16
    assert list(verify(store).damage) == []


def test_a_blob_that_is_named_while_it_is_looked_for_stays(store: LogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = begun(store)
    digest = put(store, session_id, b"late")
    honest = gc._unnamed

    def slowly(*arguments: object) -> object:
        found = honest(*arguments)  # pyright: ignore[reportArgumentType]
        store.commit(Append(session_id=session_id, events=(said(f"see {digest}"),)))
        return found

    monkeypatch.setattr(gc, "_unnamed", slowly)
    assert store.sweep(now() + MONTH).blobs == 0
    assert store.blob(session_id, digest) == b"late"


def test_a_clock_that_was_set_back_does_not_keep_blobs_for_ever(store: LogStore) -> None:
    session_id = begun(store)
    store.sweep(now() + 12 * MONTH)
    digest = put(store, session_id, b"x")
    assert store.sweep(now() + MONTH).blobs == 1
    with pytest.raises(DamagedSession):
        store.blob(session_id, digest)


class Steps:
    """Counts the steps that stores take by themselves, and waits for their threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        honest = gc.GarbageCollector.step

        def step(search_provider: gc.GarbageCollector, at: int) -> object:
            self.taken += 1
            return honest(search_provider, at)

        monkeypatch.setattr(gc.GarbageCollector, "step", step)

    def after(self, store: LogStore, session_id: str) -> int:
        """How many were taken once a store has committed and its housekeeper has had its say."""
        store.commit(Append(session_id=session_id, events=(said("x"),)))
        thread = store._garbage_collector._thread
        if thread is not None:
            thread.join()
        return self.taken


def test_a_store_sweeps_by_itself_between_commits_once_an_hour(
    store: LogStore, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, session_id = Steps(monkeypatch), begun(store)
    assert steps.after(store, session_id) == 0  # it was only just opened
    store._garbage_collector.due = 0
    assert steps.after(store, session_id) == 1
    assert steps.after(store, session_id) == 1
    with open_store(store_url) as other:
        assert isinstance(other, LogStore)
        other._garbage_collector.due = 0
        assert steps.after(other, session_id) == 1  # the hour is the store's, not the process's
    monkeypatch.setattr(gc, "now_us", lambda: now() + 3_700_000_000)
    store._garbage_collector.due = 0
    assert steps.after(store, session_id) == 2


def test_closing_waits_for_a_step_and_takes_no_more(store: LogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = begun(store)
    inside, go_on = threading.Event(), threading.Event()
    honest = gc.GarbageCollector._sweep_keys

    def slowly(search_provider: gc.GarbageCollector, progress: gc.GcProgress, before: int) -> int:
        inside.set()
        go_on.wait(10)
        return honest(search_provider, progress, before)

    monkeypatch.setattr(gc.GarbageCollector, "_sweep_keys", slowly)
    store._garbage_collector.due = 0
    store.commit(Append(session_id=session_id, events=(said("x"),)))
    assert inside.wait(10)
    closing = threading.Thread(target=store.close)
    closing.start()
    go_on.set()
    closing.join(10)
    assert not closing.is_alive()
    assert store.closed


def test_a_store_verifies_after_redacting_what_a_deleted_session_said(store: LogStore) -> None:
    parent = begun(store)
    for text in ("keep", "swordfish", "large " * 20_000, "keep too"):
        store.commit(Append(session_id=parent, events=(said(text),)))
    first, second = new_id(), new_id()
    store.commit(lineage.fork(store.head(parent), first))
    store.commit(lineage.fork(store.head(first), second))
    store.commit(Delete(session_id=parent, actor="user"))
    store.commit(Redact(session_id=parent, seq=3, actor="user"))
    store.commit(Redact(session_id=second, seq=4, actor="user"))
    store.commit(Append(session_id=first, events=(NewEvent(event=SessionClosed()),)))
    store.commit(Append(session_id=first, events=(NewEvent(event=SessionArchived()),)))
    assert [finding.line() for finding in verify(store).damage] == []
    assert store.head(first).has_ended
