"""Drivers that die again and again: which deaths count against the turn, how long the next one waits, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from outlast import open_store
from outlast.app.sessions.detail import takeover_trouble
from outlast.core import events as e
from outlast.core.errors import OutlastError
from outlast.core.state import OpenTurn
from outlast.models.port import Abilities, Finished, ModelEvent, ModelRequest, TextDelta
from outlast.runtime import failpoints
from outlast.runtime.clock import SystemClock
from outlast.runtime.driven_turns import DrivenTurn
from outlast.runtime.turn import model_call
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.observer import ModelWait, NullObserver, TakeoverWait
from outlast.runtime.turn.recovery import WAITS
from outlast.store.log_store import LogStore
from outlast.store.port import Claim
from outlast.store.read.decode import load_state
from tests.faults.old_events import Past, dead_holder
from tests.faults.recovered import BASH, Recovered
from tests.faults.witness import new_id
from tests.support.agents import agent_with, only


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def past(store: LogStore) -> Past:
    return Past(store)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


class LeapingClock(SystemClock):
    """Pauses of a second or more take no time, and the wall clock goes on as if they had."""

    def __init__(self) -> None:
        self.leapt = 0.0
        self.slept: list[float] = []

    def now_us(self) -> int:
        return super().now_us() + round(self.leapt * 1e6)

    async def sleep(self, seconds: float) -> None:
        if seconds < 0.5 or seconds == 3.0:  # the driver's own pauses, and the renewal of the lease
            await asyncio.sleep(seconds)
        else:
            self.slept.append(round(seconds))
            self.leapt += seconds
            await asyncio.sleep(0)


class Silence(NullObserver):
    """What a user is told about waits."""

    def __init__(self) -> None:
        self.waits: list[ModelWait | None] = []

    def model_waits(self, wait: ModelWait | None) -> None:
        self.waits.append(wait)


class FatalModel:
    """Counts its requests. It sends `first`, if any, and then nothing, until the process of its reader dies."""

    name, provider = "fatal", "scripted"
    abilities = Abilities(context_window=200_000, summarises=False)

    def __init__(self, first: str = "") -> None:
        self.first = first
        self.requests = 0
        self.sent = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests += 1
        self.sent.set()
        if self.first:
            yield TextDelta(self.first)
        await asyncio.sleep(3600)
        yield Finished(parts=())

    async def close(self) -> None:
        return


class CrashLoop:
    """One session whose drivers die: each loses its lease to a process that is gone, and cannot write any more."""

    def __init__(self, past: Past, project: Path) -> None:
        self.past, self.project = past, project
        self.clock, self.observer = LeapingClock(), Silence()

    async def life(self, model: FatalModel, until: str = "draft.flushed") -> None:
        """Drive the session until this failpoint is reached, then die. If the turn ends before, that is the end."""
        reached = asyncio.Event()
        failpoints.install(lambda name: reached.set() if name == until else None)
        agent = agent_with(self.past.store, self.project, backend=model, context=self._context)
        assert agent.resume_session(self.past.session_id)
        driving = asyncio.ensure_future(agent.resume())
        died = asyncio.ensure_future(reached.wait())
        try:
            await asyncio.wait([driving, died], timeout=20, return_when="FIRST_COMPLETED")
            if not driving.done():
                await asyncio.sleep(0.02)
                self.past.store.commit(
                    Claim(session_id=self.past.session_id, token=new_id(), holder=dead_holder(), force=True)
                )
                driving.cancel()
            with suppress(asyncio.CancelledError, OutlastError):
                await driving
        finally:
            died.cancel()
            failpoints.install(None)

    def _context(self, context: TurnContext) -> TurnContext:
        return replace(context, clock=self.clock, observer=self.observer)

    @property
    def turn(self) -> OpenTurn | None:
        return load_state(self.past.store, self.past.session_id).turn

    def ended(self) -> list[e.TurnEnded]:
        agent = agent_with(self.past.store, self.project)
        assert agent.resume_session(self.past.session_id)
        return only(agent, e.TurnEnded)


@pytest.fixture
def loop(past: Past, project: Path) -> CrashLoop:
    return CrashLoop(past, project)


async def test_a_reply_that_always_kills_its_reader_ends_after_exactly_five_requests(loop: CrashLoop) -> None:
    model = FatalModel("poison")
    for _ in range(8):
        await loop.life(model)
    [ended] = loop.ended()
    assert model.requests == 5
    assert ended.outcome == "failed_recovery"
    assert ended.reason is not None
    assert "5 processes died" in ended.reason
    assert "retry" in ended.reason
    assert loop.clock.slept == [1, 5, 30]


async def test_deaths_before_the_first_byte_never_end_the_turn(loop: CrashLoop) -> None:
    model = FatalModel()
    for _ in range(9):
        await loop.life(model, until="model.asked")
    assert loop.ended() == []
    assert loop.turn is not None
    assert (loop.turn.recoveries, loop.turn.counted) == (8, 0)
    assert loop.clock.slept == [1, 5, 30, 120, 120, 120, 120]
    recovered = Recovered(loop.past, loop.project, "Done.", context=loop._context)
    assert await recovered.end() == "Done."


async def test_deaths_of_a_process_that_drove_other_turns_never_end_the_turn(loop: CrashLoop) -> None:
    model = FatalModel("fine")
    with DrivenTurn():
        for _ in range(8):
            await loop.life(model)
    assert loop.ended() == []
    assert loop.turn is not None
    assert loop.turn.counted == 0
    await loop.life(model)  # and from now on it is alone
    await loop.life(model)
    assert loop.turn is not None
    assert loop.turn.counted == 1


async def test_a_turn_that_gets_company_while_its_reply_streams_is_not_blamed(loop: CrashLoop) -> None:
    class Streams(FatalModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            with DrivenTurn():  # another session's message comes after the first byte
                while True:
                    yield TextDelta("word ")
                    await asyncio.sleep(0.01)

    await loop.life(Streams())
    await loop.life(FatalModel(), until="lease.claimed")
    await loop.life(FatalModel(), until="model.asked")
    assert loop.turn is not None
    assert loop.turn.counted == 0


async def test_a_minute_of_waiting_for_the_first_byte_counts(loop: CrashLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_call, "WAITED_SECONDS", 0.05)
    model = FatalModel()

    async def waited_long() -> None:
        agent = agent_with(loop.past.store, loop.project, backend=model, context=loop._context)
        assert agent.resume_session(loop.past.session_id)
        driving = asyncio.ensure_future(agent.resume())
        await model.sent.wait()
        async with asyncio.timeout(10):
            while "waited_for_model" not in load_state(loop.past.store, loop.past.session_id).runtime:
                await asyncio.sleep(0.01)
        claim = Claim(session_id=loop.past.session_id, token=new_id(), holder=dead_holder(), force=True)
        loop.past.store.commit(claim)
        driving.cancel()
        with suppress(asyncio.CancelledError, OutlastError):
            await driving

    await waited_long()
    monkeypatch.setattr(model_call, "WAITED_SECONDS", 60.0)
    await loop.life(model, until="model.asked")
    assert loop.turn is not None
    assert loop.turn.counted == 1


async def test_a_driver_that_dies_during_the_wait_leaves_the_rest_of_it(loop: CrashLoop) -> None:
    loop.past.turn()
    model = FatalModel("poison")
    for _ in range(3):
        await loop.life(model)
    requests = model.requests

    class Waits(Silence):
        def model_waits(self, wait: ModelWait | None) -> None:
            super().model_waits(wait)
            failpoints.reach("waits")

    class StandingClock(LeapingClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(3600 if seconds > 0.5 else seconds)

    loop.observer, clock = Waits(), loop.clock
    for _ in range(3):  # each dies while it waits
        loop.clock = StandingClock()
        loop.clock.leapt = clock.leapt
        await loop.life(model, until="waits")
    assert model.requests == requests
    assert loop.turn is not None
    assert loop.turn.recoveries == 4
    waits = [wait for wait in loop.observer.waits if isinstance(wait, TakeoverWait)]
    assert [wait.deaths for wait in waits] == [4, 4, 4]
    assert waits[0].seconds > waits[1].seconds > waits[2].seconds


async def test_the_wait_is_told_and_a_user_ends_it_at_once(loop: CrashLoop) -> None:
    for _ in range(3):
        await loop.life(FatalModel("poison"))
    loop.clock = LeapingClock()
    loop.past.taken_over()
    loop.past.driver(e.RuntimeStateChanged(changes={"taken_over": {"number": 4, "counted": 3, "wait_until": 2**62}}))
    state = load_state(loop.past.store, loop.past.session_id)
    told = takeover_trouble(state)
    assert told == "going on in 30 s: the last 4 processes that drove this turn died"

    agent = agent_with(loop.past.store, loop.project, "never")
    assert agent.resume_session(loop.past.session_id)
    driving = asyncio.ensure_future(agent.resume())
    await asyncio.sleep(0.2)
    assert not driving.done()
    agent.interrupt()
    await asyncio.wait_for(driving, 5)
    assert [ended.outcome for ended in loop.ended()] == ["interrupted"]


async def test_a_turn_that_waits_for_an_answer_waits_for_nothing_else(loop: CrashLoop) -> None:
    loop.past.calls(BASH)
    loop.past.asked(BASH)
    for number in range(1, 5):
        loop.past.taken_over()
        record = {"number": number, "counted": 0}
        loop.past.driver(e.RuntimeStateChanged(changes={"taken_over": record}))
    loop.past.taken_over()
    await loop.life(FatalModel(), until="lease.claimed")
    assert loop.clock.slept == []


async def test_progress_forgets_the_deaths_before_it(loop: CrashLoop) -> None:
    model = FatalModel("poison")
    for _ in range(4):
        await loop.life(model)
    recovered = Recovered(loop.past, loop.project, "Done.", context=loop._context)
    assert await recovered.end() == "Done."
    assert await recovered.agent.resume() == ""
    assert len(WAITS) == 5
