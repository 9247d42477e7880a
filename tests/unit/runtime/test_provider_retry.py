"""Retries of model requests: ten minutes, visible, stoppable; and streams that send nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, open_store
from outlast.core import events as e
from outlast.core.errors import ModelRefused, ModelUnavailable
from outlast.models.port import Abilities, ModelEvent, ModelRequest, ReasoningDelta, TextDelta
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.clock import SystemClock
from outlast.runtime.driver import RENEW_AFTER
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.observer import ModelWait, NoData, NullObserver, RetryWait
from outlast.runtime.turn.provider_retry import (
    GIVE_UP_SECONDS,
    LONGEST_WAIT,
    QUIET_SECONDS,
    RetryDeadline,
    StallLimits,
)
from outlast.store.log_store import LogStore
from outlast.store.port import LEASE_MS
from outlast.testing import ScriptedBackend
from tests.support.agents import Reply, agent_with, only

RENEWAL = LEASE_MS / 1000 * RENEW_AFTER


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


class LeapingClock(SystemClock):
    """A wait takes no time, but the clock goes on as if it had."""

    def __init__(self) -> None:
        self.leapt = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return super().monotonic() + self.leapt

    async def sleep(self, seconds: float) -> None:
        if seconds == RENEWAL:
            await asyncio.sleep(3600)
        if seconds > 0.06:  # not the driver's own short waits
            self.slept.append(seconds)
            self.leapt += seconds
        await asyncio.sleep(0)


class Waits(NullObserver):
    def __init__(self) -> None:
        self.seen: list[ModelWait | None] = []
        self.came = asyncio.Event()

    def model_waits(self, wait: ModelWait | None) -> None:
        self.seen.append(wait)
        self.came.set()


class FailingModel(ScriptedBackend):
    """Fails on every request."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        raise ModelUnavailable("the provider is overloaded", status=529)
        yield TextDelta("")


def watched(
    store: LogStore, project: Path, *replies: Reply, clock: SystemClock | None = None, **config: Any
) -> tuple[Agent, Waits]:
    waits = Waits()

    def context(given: TurnContext) -> TurnContext:
        return replace(given, observer=waits, clock=clock or given.clock)

    return agent_with(store, project, *replies, context=context, **config), waits


async def test_a_request_is_retried_for_ten_minutes_and_then_the_turn_fails(store: LogStore, tmp_path: Path) -> None:
    clock, waits = LeapingClock(), Waits()
    agent = agent_with(
        store,
        tmp_path / "p",
        backend=FailingModel(),
        context=lambda given: replace(given, observer=waits, clock=clock),
    )
    with pytest.raises(ModelUnavailable, match=r"overloaded; \d+ attempts in 10 min failed"):
        await agent.run("Say it.")
    assert sum(clock.slept) == pytest.approx(GIVE_UP_SECONDS, abs=1)
    assert max(clock.slept) <= LONGEST_WAIT
    asked, closed = only(agent, e.ModelRequested), only(agent, e.ReplyInterrupted)
    assert len(asked) == len(closed) == len(clock.slept) + 1
    assert len(asked) > 12
    assert [one.attempt for one in asked] == list(range(1, len(asked) + 1))
    assert only(agent, e.TurnEnded)[0].outcome == "failed"
    first = waits.seen[0]
    assert isinstance(first, RetryWait)
    assert (first.attempt, first.reason) == (2, "the provider is overloaded")
    assert first.gives_up_in == pytest.approx(600, abs=1)
    agent.backend = ScriptedBackend(["Works again."])
    assert await agent.run("And now?") == "Works again."


async def test_a_wait_is_told_with_its_reason_and_its_end(store: LogStore, tmp_path: Path) -> None:
    clock = LeapingClock()
    agent, waits = watched(store, tmp_path / "p", ModelUnavailable("busy", retry_after=8), "Whole.", clock=clock)
    assert await agent.run("Say it.") == "Whole."
    assert clock.slept == [8]
    [wait] = waits.seen
    assert isinstance(wait, RetryWait)
    assert wait.text == "retrying in 8 s (attempt 2, gives up in 10 min): busy"
    assert wait.at(3) == "retrying in 5 s (attempt 2, gives up in 10 min): busy"
    assert wait.at(7.9).startswith("retrying now ")


async def test_a_provider_that_wants_longer_than_is_left_fails_at_once_with_the_time(
    store: LogStore, tmp_path: Path
) -> None:
    agent, waits = watched(store, tmp_path / "p", ModelUnavailable("rate limited", retry_after=3600), "never")
    with pytest.raises(ModelUnavailable, match="rate limited; the provider asks to wait 60 min"):
        await agent.run("Say it.")
    assert len(only(agent, e.ModelRequested)) == 1
    assert waits.seen == []


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_a_refusal_is_not_retried(store: LogStore, tmp_path: Path, status: int) -> None:
    agent, waits = watched(store, tmp_path / "p", ModelRefused("no", status=status), "never")
    with pytest.raises(ModelRefused):
        await agent.run("Say it.")
    assert len(only(agent, e.ModelRequested)) == 1
    assert waits.seen == []


async def test_an_interrupt_ends_the_wait(store: LogStore, tmp_path: Path) -> None:
    agent, waits = watched(store, tmp_path / "p", ModelUnavailable("busy", retry_after=300), "never")
    running = asyncio.ensure_future(agent.run("Say it."))
    await asyncio.wait_for(waits.came.wait(), 10)
    agent.interrupt()
    await asyncio.wait_for(running, 10)
    assert only(agent, e.TurnEnded)[0].outcome == "interrupted"
    assert len(only(agent, e.ModelRequested)) == 1


async def test_a_cancelled_caller_ends_the_wait(store: LogStore, tmp_path: Path) -> None:
    agent, waits = watched(store, tmp_path / "p", ModelUnavailable("busy", retry_after=300), "never")
    running = asyncio.ensure_future(agent.run("Say it."))
    await asyncio.wait_for(waits.came.wait(), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 10)
    assert only(agent, e.TurnEnded)[0].outcome == "interrupted"


class SilentModel(ScriptedBackend):
    """Says `said`, then nothing, as often as `silent`; then answers."""

    def __init__(self, silent: int, said: str = "") -> None:
        super().__init__(["Whole."] * 9)
        self.silent, self.said, self.closed_streams = silent, said, 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if len(self.requests) >= self.silent:
            async for event in super().stream(request):
                yield event
            return
        self.requests.append(request)
        if self.said:
            yield TextDelta(self.said)
        try:
            await asyncio.sleep(3600)
        finally:
            self.closed_streams += 1


@pytest.mark.parametrize("said", ["", "half an ans"])
async def test_a_silent_stream_is_reported_closed_and_retried(store: LogStore, tmp_path: Path, said: str) -> None:
    clock, waits, model = LeapingClock(), Waits(), SilentModel(1, said)
    agent = agent_with(
        store,
        tmp_path / "p",
        backend=model,
        context=lambda given: replace(given, observer=waits, clock=clock),
        first_token_timeout=0.5,
        stream_idle_timeout=0.2,
    )
    assert await asyncio.wait_for(agent.run("Say it."), 20) == "Whole."
    assert model.closed_streams == 1
    [closed] = only(agent, e.ReplyInterrupted)
    assert "sent no data for" in closed.reason
    silence, retry = waits.seen
    assert isinstance(silence, NoData)
    assert silence.limit == pytest.approx(0.2 if said else 0.5)
    assert isinstance(retry, RetryWait)


async def test_data_after_a_silence_takes_the_notice_back(store: LogStore, tmp_path: Path) -> None:
    class SlowModel(ScriptedBackend):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            await asyncio.sleep(0.4)
            async for event in super().stream(request):
                yield event

    waits = Waits()
    agent = agent_with(
        store,
        tmp_path / "p",
        backend=SlowModel(["Here."]),
        context=lambda given: replace(given, observer=waits),
        stream_idle_timeout=0.8,
    )
    assert await agent.run("Say it.") == "Here."
    assert isinstance(waits.seen[0], NoData)
    assert waits.seen[1:] == [None]
    assert len(only(agent, e.ModelRequested)) == 1


def test_a_silence_is_told_in_seconds() -> None:
    assert (
        NoData(seconds=15, limit=600).at(5) == "no data for 20 s (the request is closed after 10 min, Ctrl-C stops it)"
    )
    assert NoData(seconds=15, limit=None).text == "no data for 15 s (Ctrl-C stops it)"


def test_the_limits_are_ten_and_two_minutes_and_a_model_of_this_machine_may_read_for_any_time() -> None:
    def of(*, on_this_machine: bool = False, **config: Any) -> StallLimits:
        model = ScriptedBackend(abilities=Abilities(on_this_machine=on_this_machine))
        return StallLimits.of(AgentConfig(**config), model)

    assert of() == StallLimits(600, 120)
    assert of(on_this_machine=True) == StallLimits(None, 120)
    assert of(first_token_timeout=30, stream_idle_timeout=20) == StallLimits(30, 20)
    assert of(on_this_machine=True, first_token_timeout=30) == StallLimits(30, 120)
    assert QUIET_SECONDS == 15


async def test_a_model_that_stays_silent_is_asked_three_times_and_no_more(store: LogStore, tmp_path: Path) -> None:
    clock, model = LeapingClock(), SilentModel(99)
    agent = agent_with(
        store,
        tmp_path / "p",
        backend=model,
        context=lambda given: replace(given, clock=clock),
        first_token_timeout=0.1,
    )
    with pytest.raises(ModelUnavailable, match="3 requests in a row went silent"):
        await asyncio.wait_for(agent.run("Say it."), 20)
    assert len(model.requests) == len(only(agent, e.ModelRequested)) == 3


async def test_reasoning_is_data(store: LogStore, tmp_path: Path) -> None:
    class Thinker(ScriptedBackend):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            for _ in range(10):
                yield ReasoningDelta("hm ")
                await asyncio.sleep(0.05)
            async for event in super().stream(request):
                yield event

    agent = agent_with(store, tmp_path / "p", backend=Thinker(["Here."]), stream_idle_timeout=0.3)
    assert await agent.run("Say it.") == "Here."
    assert len(only(agent, e.ModelRequested)) == 1


def test_waits_double_up_to_a_minute_and_end_at_the_deadline() -> None:
    deadline, now, error = RetryDeadline(), 1000.0, ModelUnavailable("busy")
    waits: list[float] = []
    for _ in range(8):
        waits.append(deadline.wait_after(error, now, 0.999999))
    assert [round(wait) for wait in waits] == [0, 1, 2, 4, 8, 16, 32, 60]
    assert deadline.wait_after(error, now + 590, 0.9) == pytest.approx(10)
    with pytest.raises(ModelUnavailable, match="10 attempts in 10 min"):
        deadline.wait_after(error, now + 600, 0.9)
    assert RetryDeadline().wait_after(error, now, 0.0) == pytest.approx(0.25)
