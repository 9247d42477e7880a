"""What a turn tells its observer, and what it keeps from it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from outlast import open_store
from outlast.core.event_row import StoredEvent
from outlast.core.events import Event
from outlast.core.state import SessionState
from outlast.models.port import ModelEvent, TextDelta
from outlast.runtime.turn.approvals import Question
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.observer import ModelWait, NullObserver, TurnObserver
from outlast.store.log_store import LogStore
from tests.support.agents import agent_with, call, kinds_of


class Notes:
    """An observer that notes everything."""

    def __init__(self) -> None:
        self.text = ""
        self.output: list[tuple[str, str]] = []
        self.written: list[StoredEvent] = []
        self.states: list[int] = []
        self.waits: list[str] = []
        self.retries: list[ModelWait | None] = []

    def model_waits(self, wait: ModelWait | None) -> None:
        self.retries.append(wait)

    def model_event(self, event: ModelEvent) -> None:
        if isinstance(event, TextDelta):
            self.text += event.text

    def call_output(self, call_id: str, text: str) -> None:
        self.output.append((call_id, text))

    def event_written(self, stored: StoredEvent, event: Event) -> None:
        self.written.append(stored)

    def state_changed(self, state: SessionState) -> None:
        self.states.append(state.last_seq)

    def waiting_for_person(self) -> AbstractAsyncContextManager[None]:
        return self._waited()

    @asynccontextmanager
    async def _waited(self) -> AsyncGenerator[None]:
        self.waits.append("begin")
        yield
        self.waits.append("end")

    def __call__(self, context: TurnContext) -> TurnContext:
        return replace(context, observer=self)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.mark.usefixtures("asks_first")
async def test_an_observer_is_told_everything_that_a_turn_does(store: LogStore, tmp_path: Path) -> None:
    notes = Notes()

    async def answerer(question: Question) -> str:
        await asyncio.sleep(0)
        return "once"

    command = "echo first; sleep 1.2; python3 -c \"open('made.txt', 'w')\""
    agent = agent_with(
        store, tmp_path / "project", call("bash", "c1", command=command), "Done.", answerer=answerer, context=notes
    )
    await agent.run("go")
    assert notes.text == "Done."
    assert notes.waits == ["begin", "end"]
    assert notes.output
    assert notes.output[0] == ("c1", "first\n")
    assert notes.states
    kinds = kinds_of(agent)
    assert [kinds[stored.seq - 1] for stored in notes.written] == [stored.kind for stored in notes.written]
    assert {"TurnStarted", "ToolCallFinished", "TurnEnded"} <= {stored.kind for stored in notes.written}


async def test_an_observer_hears_no_model_event_of_a_sub_agent(store: LogStore, tmp_path: Path) -> None:
    notes = Notes()
    agent = agent_with(store, tmp_path / "project", call("task", prompt="Find out."), "Below.", "Above.", context=notes)
    await agent.run("go")
    assert notes.text == "Above."
    assert len({stored.session_id for stored in notes.written}) == 2


def test_a_context_cannot_be_changed(store: LogStore, tmp_path: Path) -> None:
    seen: list[TurnContext] = []

    def keep(context: TurnContext) -> TurnContext:
        seen.append(context)
        return context

    agent = agent_with(store, tmp_path / "project", "Done.", context=keep)
    agent.run_sync("go")
    [*_, context] = seen
    changed: Any = context
    with pytest.raises(FrozenInstanceError):
        changed.ttl_ms = 1


def test_the_null_observer_is_an_observer() -> None:
    observer: TurnObserver = NullObserver()
    observer.call_output("c1", "text")
