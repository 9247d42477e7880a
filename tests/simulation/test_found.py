"""What the laboratory and the simulation have found, each in small."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast import load_settings
from outlast.app.sessions.create import create
from outlast.app.workers.worker_pool import WorkerPool
from outlast.core import events as e
from outlast.core.errors import StaleLease, StoreUnavailable
from outlast.core.header import Header
from outlast.runtime import driver as driver_module
from outlast.runtime.clock import SystemClock
from outlast.runtime.driver import Driver
from outlast.runtime.service import SessionService
from outlast.runtime.turn.context import TurnContext
from outlast.store.memory import Memory, MemoryStore
from outlast.store.port import Batch, Create, NewEvent
from outlast.testing.contract.exam import new_id


def session_in(store: MemoryStore) -> str:
    session_id = new_id()
    store.commit(Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),)))
    return session_id


class Away(MemoryStore):
    """A store that cannot be followed for a while. `refused` counts how often that was tried."""

    away = True
    refused = 0

    async def follow_async(
        self, session_id: str, *, after: int = 0, chunk: int = 0, timeout: float | None = None
    ) -> AsyncIterator[Batch]:
        if self.away:
            self.refused += 1
            raise StoreUnavailable("the store is away")
        async for batch in super().follow_async(session_id, after=after, chunk=chunk, timeout=timeout):
            yield batch


async def test_a_store_that_is_away_for_a_while_stops_no_turn_and_doors_are_heard_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ended as `interrupted`, and the input counted as answered (simulation, seed 3)."""
    monkeypatch.setattr(driver_module, "LISTEN_AGAIN", 0.01)
    store = Away(Memory())
    driver = await Driver.open(store, session_in(store), SystemClock())
    await driver.claim()
    heard = asyncio.Event()

    def noticed() -> None:
        if any(item.seq for item in driver.state.inbox.inputs):
            heard.set()

    watching = asyncio.create_task(driver.watch(noticed))
    while store.refused < 3:
        await asyncio.sleep(0.005)
    assert not watching.done()
    store.away = False
    await SessionService(store, "test").admit(driver.session_id, "hello")
    await asyncio.wait_for(heard.wait(), 5)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    store.close()


async def test_a_driver_learns_from_the_log_that_it_was_taken_over_and_folds_nothing_of_its_successor() -> None:
    """Its turn went on with a state that somebody else had moved, and broke (simulation, seeds 6 and 119)."""
    store = MemoryStore(Memory())
    first = await Driver.open(store, session_in(store), SystemClock())
    await first.claim()
    await first.write(e.TurnStarted())
    second = await Driver.open(store, first.session_id, SystemClock())
    await second.claim(force=True)
    await second.write(e.TurnEnded(outcome="completed"))
    with pytest.raises(StaleLease, match="taken over"):
        await first.catch_up()
    assert first.state.turn is not None
    store.close()


async def test_what_was_claimed_right_before_a_crew_is_closed_is_given_back_unbegun(tmp_path: Path) -> None:
    """Its turn began, and ended as `interrupted` when the process left (laboratory on SQLite, seed 9)."""
    store = MemoryStore(Memory())
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"content": "Hello."}]))
    settings = load_settings(home=tmp_path / "home", model=f"scripted:{script}", project_root=tmp_path)
    session_id = await asyncio.to_thread(create, store, settings, tmp_path, door="http")
    await SessionService(store, "http").admit(session_id, "hello")
    opening, go_on = threading.Event(), threading.Event()

    def equip(context: TurnContext, header: Header) -> TurnContext:
        opening.set()
        go_on.wait(10)
        return context

    pool = WorkerPool(store, settings, equip=equip)
    await pool.start()
    assert await asyncio.to_thread(opening.wait, 10)
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0.05)
    go_on.set()
    await asyncio.wait_for(closing, 10)
    assert [row.kind for row in store.read(session_id)] == ["SessionCreated", "InputAdmitted"]
    assert store.holder(session_id) is None
    store.close()


class Looked(MemoryStore):
    """A store that remembers who asked for a head, and that is away for whoever drives."""

    threads: set[int]

    def head(self, session_id: str) -> Header:
        self.threads.add(threading.get_ident())
        return super().head(session_id)


async def test_what_went_wrong_is_noted_without_stopping_the_loop_while_the_store_is_away(tmp_path: Path) -> None:
    """Each of its sessions held up the whole process for as long as the store was waited for (by reading)."""
    store = Looked(Memory())
    store.threads = set()
    settings = load_settings(home=tmp_path / "home", model="local", project_root=tmp_path)
    session_id = await asyncio.to_thread(create, store, settings, tmp_path, door="http")
    await SessionService(store, "http").admit(session_id, "hello")

    def equip(context: TurnContext, header: Header) -> TurnContext:
        store.threads.clear()
        raise StoreUnavailable("the store is away")

    pool = WorkerPool(store, settings, equip=equip)
    await pool.start()
    async with asyncio.timeout(10):
        while pool.trouble(session_id) is None:
            await asyncio.sleep(0.005)
    await pool.close()
    assert store.threads
    assert threading.get_ident() not in store.threads
    store.close()
