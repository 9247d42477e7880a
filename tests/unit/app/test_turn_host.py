"""The turn host: one way to run turns, for agents and for workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from outlast import ConversationSession, load_settings, open_store
from outlast.app import turn_setup
from outlast.app.turn_host import HeldLease, TurnHost
from outlast.app.workers.worker_pool import WorkerPool
from outlast.core import events as e
from outlast.core.errors import StoreUnavailable
from outlast.doors.repl.launch import REPL, LaunchOptions, open_repl_session
from outlast.doors.repl.repl import Repl
from outlast.runtime.driver import Driver
from outlast.runtime.service import SessionService
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore
from tests.support.agents import agent_with


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "script.json").write_text(json.dumps([{"content": "It goes on."}]))
    return tmp_path


@pytest.fixture
def store(place: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{place / 's.db'}") as opened:
        yield opened


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[TurnContext]:
    """Every turn context that is built from settings; variants by `replace` do not count."""
    found: list[TurnContext] = []

    def counted(**fields: Any) -> TurnContext:
        context = TurnContext(**fields)
        found.append(context)
        return context

    monkeypatch.setattr(turn_setup, "TurnContext", counted)
    return found


async def left_open(store: LogStore, project: Path) -> str:
    """A session whose turn a process began and did not end."""
    session = ConversationSession(project_root=project, store=store)
    session.persist()
    await SessionService(store, "test").admit(session.session_id, "go on")
    driver = await Driver.open(store, session.session_id, TurnHost(store).clock)
    await driver.write(e.TurnStarted(inputs=driver.state.unanswered, model="scripted"), claim=True)
    await driver.release()
    return session.session_id


def last_event(store: LogStore, session_id: str) -> str:
    return store.read(session_id, limit=1, newest_first=True)[0].kind


async def test_a_terminal_that_resumes_a_session_after_a_crash_builds_the_context_once(
    place: Path, store: LogStore, built: list[TurnContext]
) -> None:
    session_id = await left_open(store, place / "project")
    start = LaunchOptions(
        resume=session_id, model=f"scripted:{place / 'script.json'}", store=f"sqlite:///{place / 's.db'}"
    )
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        repl_session = open_repl_session(start, REPL)
        controller = Repl(repl_session).controller
        controller.refresh()
        assert controller.status.window > 0
        assert await repl_session.agent.resume() == "It goes on."
        await repl_session.agent.close()
    repl_session.agent.store.close()
    assert last_event(store, session_id) == "TurnEnded"
    assert len(built) == 1


async def test_a_worker_that_resumes_a_session_after_a_crash_builds_the_context_once(
    place: Path, store: LogStore, built: list[TurnContext]
) -> None:
    session_id = await left_open(store, place / "project")
    settings = load_settings(model=f"scripted:{place / 'script.json'}")
    pool = WorkerPool(store, settings)
    await pool.start()
    async with asyncio.timeout(10):
        while last_event(store, session_id) != "TurnEnded":
            await asyncio.sleep(0.01)
    await pool.close()
    assert len(built) == 1


async def test_a_lease_that_was_handed_in_is_given_back_when_no_context_can_be_built(
    place: Path, store: LogStore
) -> None:
    agent = agent_with(store, place / "project", "Hello.")
    await agent.run("hello")
    session_id = agent.session.session_id
    host = TurnHost(store)
    driver = await Driver.open(store, session_id, host.clock)
    asked = host.clock.monotonic()
    await driver.claim()
    assert driver.lease is not None

    async def build(driver: Driver) -> TurnContext:
        raise StoreUnavailable("the store is away")

    with pytest.raises(StoreUnavailable):
        await host.run(session_id, build, held=HeldLease(driver.lease, asked))
    assert store.holder(session_id) is None
    assert host.runners == {}


async def test_a_run_that_begins_after_the_host_was_closed_leaves_the_turn_open(place: Path, store: LogStore) -> None:
    session_id = await left_open(store, place / "project")
    agent = agent_with(store, place / "project", "Not said.")
    host = TurnHost(store)
    host.close()

    async def build(driver: Driver) -> TurnContext:
        return agent._turn_context(driver.state)

    outcome = await host.run(session_id, build)
    assert outcome.left
    assert outcome.answer == ""
    assert store.head(session_id).has_work
    assert store.holder(session_id) is None
