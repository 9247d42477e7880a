"""One turn after another, with a real store and a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlast import Agent, CompletionResponse, Role, ToolCall, open_store
from outlast.core import events as e
from outlast.core.errors import (
    ContextOverflow,
    InvalidTransition,
    ModelRefused,
    ModelUnavailable,
    ScriptExhausted,
    SessionBusy,
)
from outlast.core.event_row import StoredEvent
from outlast.core.messages import TextPart
from outlast.models.port import ModelEvent, ModelRequest
from outlast.models.scripted import Line
from outlast.runtime.clock import SystemClock
from outlast.runtime.driver import RENEW_AFTER
from outlast.runtime.runner import Runner
from outlast.runtime.turn.approvals import Question
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.observer import NullObserver
from outlast.runtime.turn.phases import Phase, Phases
from outlast.store.log_store import LogStore
from outlast.store.port import LEASE_MS
from outlast.testing import ScriptedBackend
from tests.support.agents import agent_with, call, kinds_of, log_of, only


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


RENEWAL = LEASE_MS / 1000 * RENEW_AFTER


class FastClock:
    """The real clock, but nobody waits for a provider."""

    def __init__(self) -> None:
        self._real = SystemClock()
        self.slept: list[float] = []
        self.now_us, self.monotonic, self.chance, self.token = (
            self._real.now_us,
            self._real.monotonic,
            self._real.chance,
            self._real.token,
        )

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(3600 if seconds == RENEWAL else 0)


async def test_every_record_of_a_turn_stands_in_the_log_in_order(store: LogStore, project: Path) -> None:
    (project / "a.txt").write_text("hello\n")
    agent = agent_with(store, project, call("read", file_path="a.txt"), "It says hello.")
    assert await agent.run("What does a.txt say?") == "It says hello."
    said = [kind for kind in kinds_of(agent) if kind not in {"RuntimeStateChanged", "TimelineRecorded"}]
    assert said == [
        "SessionCreated",
        "InputAdmitted",
        "TurnStarted",
        "DefinitionOfDoneUpdated",
        "PromptRecorded",
        "EnvironmentDescribed",
        "ModelRequested",
        "AssistantReplied",
        "ToolCallStarted",
        "ToolCallFinished",
        "ModelRequested",
        "AssistantReplied",
        "CompletionDecided",
        "TurnEnded",
    ]
    assert store.holder(agent.session.session_id) is None


async def test_a_turn_without_tools_adds_at_most_five_commits(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "Four.")
    commits: list[int] = []
    store.timed = lambda seconds, count: commits.append(count)
    await agent.run("What is two plus two?")
    assert 1 <= sum(commits) <= 5


async def test_the_admitted_text_is_the_last_user_message_of_the_first_request(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "Yes.", "Again.")
    await agent.run("First 😀 question?")
    await agent.run("  second, with spaces  ")
    backend = agent.backend
    assert isinstance(backend, ScriptedBackend)
    [told, *said] = [message.content for message in backend.requests[1].messages]
    assert told.startswith("[Outlast runtime] Your environment:\n- Project folder: ")
    assert said == [
        "First 😀 question?",
        "Yes.",
        "  second, with spaces  ",
    ]


async def test_a_fault_of_the_provider_is_retried_and_each_attempt_is_closed_once(
    store: LogStore, project: Path
) -> None:
    clock = FastClock()

    def fast(context: TurnContext) -> TurnContext:
        return replace(context, clock=clock)

    broken = Line(reply="half an ans", breaks_after=6, error=ModelUnavailable("overloaded", status=529))
    agent = agent_with(store, project, broken, ModelUnavailable("busy", retry_after=1.5), "Whole.", context=fast)
    assert await agent.run("Say it.") == "Whole."
    asked = only(agent, e.ModelRequested)
    assert [one.attempt for one in asked] == [1, 2, 3]
    interrupted = only(agent, e.ReplyInterrupted)
    assert [one.reason for one in interrupted] == ["overloaded", "busy"]
    assert interrupted[0].parts == (TextPart("half a"),)
    assert 1.5 in clock.slept
    assert [message.content for message in agent.session.history()] == ["Say it.", "Whole."]


async def test_a_provider_that_wants_an_hour_is_not_waited_for(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, ModelUnavailable("rate limited", retry_after=3600))
    with pytest.raises(ModelUnavailable, match="rate limited"):
        await agent.run("Say it.")
    assert len(only(agent, e.ModelRequested)) == 1


async def test_a_refusal_is_never_looped(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, ModelRefused("bad request", status=400), "never said")
    with pytest.raises(ModelRefused, match="bad request"):
        await agent.run("Say it.")
    assert len(only(agent, e.ModelRequested)) == 1
    assert only(agent, e.TurnEnded)[0].reason == "bad request"


async def test_an_exhausted_script_is_loud_and_the_turn_is_closed(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project)
    with pytest.raises(ScriptExhausted):
        await agent.run("Say it.")
    assert agent.session.state.turn is None
    assert agent.last_turn_summary is not None
    assert agent.last_turn_summary.outcome == "failed"


async def test_an_overflow_compacts_once_and_asks_again(store: LogStore, project: Path) -> None:
    answers = [f"Answer number {n}." for n in range(6)]
    agent = agent_with(store, project, *answers, ContextOverflow("too long"), "Fits now.")
    for n in range(6):
        await agent.run(f"What is number {n}?")
    assert await agent.run("What is the last?") == "Fits now."
    [compacted] = only(agent, e.Compacted)
    assert compacted.facts["reason"] == "overflow"
    assert agent.messages[0].content.startswith("[COMPACTED CONTEXT]")


async def test_a_long_turn_compacts_after_each_overflow(store: LogStore, project: Path) -> None:
    steps = [call("bash", f"c{n}", command=f"echo {n}") for n in range(12)]
    full = ContextOverflow("too long")
    agent = agent_with(store, project, *steps[:6], full, *steps[6:], full, "Done.", allow=("bash",))
    assert await agent.run("Work.") == "Done."
    assert [one.facts["reason"] for one in only(agent, e.Compacted)] == ["overflow", "overflow"]


async def test_malformed_unknown_and_misfitting_calls_are_answered_and_never_executed(
    store: LogStore, project: Path
) -> None:
    calls = [
        ToolCall(id="a", name="write", raw='{"file_path": "x.txt", "content": "trunc'),
        ToolCall(id="b", name="launch_missiles", arguments={}),
        ToolCall(id="c", name="write", arguments={"file_path": "x.txt"}),
        ToolCall(id="c", name="write", arguments={"file_path": 5, "content": "x"}),
    ]
    agent = agent_with(store, project, CompletionResponse(tool_calls=calls), "I could not do it: the calls failed.")
    await agent.run("What happens?")
    finished = only(agent, e.ToolCallFinished)
    assert [one.status for one in finished] == ["malformed", "unknown_tool", "invalid_arguments", "invalid_arguments"]
    assert len({one.call_id for one in finished}) == 4
    assert not only(agent, e.ToolCallStarted)
    assert not (project / "x.txt").exists()


async def test_a_step_budget_ends_the_turn_with_a_durable_reason(store: LogStore, project: Path) -> None:
    (project / "a.txt").write_text("x")
    looks = [call("read", f"r{n}", file_path="a.txt", offset=n + 1) for n in range(9)]
    agent = agent_with(store, project, *looks, max_steps=3)
    await agent.run("Read a.txt for ever.")
    [ended] = only(agent, e.TurnEnded)
    assert (ended.outcome, ended.reason) == ("budget_exhausted", "the step budget of 3 is used up")
    assert agent.session.state.inbox.seqs() == []


async def test_a_time_budget_stops_a_command_that_runs(store: LogStore, project: Path) -> None:
    sleeps = call("bash", command="sleep 30")
    agent = agent_with(store, project, sleeps, max_seconds=0.4, allow=("bash",))
    await asyncio.wait_for(agent.run("Sleep."), 20)
    [ended] = only(agent, e.TurnEnded)
    assert ended.outcome == "budget_exhausted"
    assert [one.status for one in only(agent, e.ToolCallFinished)] == ["cancelled"]


# --- cancelling ----------------------------------------------------------------------------------------------------


async def test_cancelling_in_mid_stream_keeps_what_came_and_the_session_goes_on(store: LogStore, project: Path) -> None:
    heard = asyncio.Event()
    agent = agent_with(store, project, Line(reply="one two three four five six " * 20, delay=0.2), "Fine.")

    def hear(_: ModelEvent) -> None:
        heard.set()

    agent.on_event = hear
    running = asyncio.create_task(agent.run("Count."))
    await heard.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    [interrupted] = only(agent, e.ReplyInterrupted)
    assert interrupted.parts[0].text.startswith("one")
    assert only(agent, e.TurnEnded)[0].outcome == "interrupted"
    assert store.holder(agent.session.session_id) is None
    assert await agent.run("Go on.") == "Fine."


async def test_cancelling_at_any_moment_leaves_every_call_answered(store: LogStore, project: Path) -> None:
    for n in range(12):
        calls = [
            ToolCall(id="w", name="write", arguments={"file_path": "a.txt", "content": "x"}),
            ToolCall(id="b", name="bash", arguments={"command": "sleep 0.2"}),
        ]
        agent = agent_with(store, project, CompletionResponse(tool_calls=calls), "Done.", "Later.", allow=("bash",))
        agent.session.persist()
        running = asyncio.create_task(agent.run("Create a.txt."))
        await asyncio.sleep(0.025 * n)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        state = agent.session.state
        assert state.turn is None
        asked = [part.id for one in only(agent, e.AssistantReplied) for part in one.parts if isinstance(part, ToolCall)]
        assert sorted(asked) == sorted(one.call_id for one in only(agent, e.ToolCallFinished) if one.call_id in asked)
        assert store.holder(agent.session.session_id) is None


async def test_an_interrupt_from_another_door_stops_the_turn_within_a_second(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, call("bash", command="sleep 30"), "Next.", allow=("bash",))
    running = asyncio.create_task(agent.run("Sleep."))
    await _started(agent)
    await agent.service.interrupt(agent.session.session_id)
    await asyncio.wait_for(running, 5)
    assert only(agent, e.TurnEnded)[0].reason == "the user interrupted it"
    assert await agent.run("And now?") == "Next."


async def _started(agent: Agent) -> None:
    agent.session.persist()
    async for batch in agent.store.follow_async(agent.session.session_id, timeout=10):
        if any(stored.kind == "ToolCallStarted" for stored in batch.events):
            return


# --- steering, queueing, driving -----------------------------------------------------------------------------------


async def test_steering_is_read_between_two_steps_of_the_running_turn(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, call("bash", command="sleep 0.4"), "I heard you.", allow=("bash",))
    running = asyncio.create_task(agent.run("Work."))
    await _started(agent)
    agent.queue_steering_message("Use tabs.")
    assert await running == "I heard you."
    backend = agent.backend
    assert isinstance(backend, ScriptedBackend)
    assert backend.requests[1].messages[-1].content == "Use tabs."
    assert backend.requests[1].messages[-1].role is Role.USER
    assert agent.session.state.inbox.seqs() == []


async def test_steering_that_arrives_with_the_last_answer_is_answered_after_a_crash(
    store: LogStore, project: Path
) -> None:
    """The process leaves after the turn has read the message and before it has asked the model about it."""
    first = agent_with(store, project)
    first.session.persist()
    session_id = first.session.session_id
    runner: Runner | None = None

    class Answering(ScriptedBackend):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            first.queue_steering_message("And the tests?")
            while runner is None or runner.driver is None or len(runner.driver.state.inbox.inputs) < 2:
                await asyncio.sleep(0.01)
            async for event in super().stream(request):
                yield event

    class Leaving(NullObserver):
        def event_written(self, stored: StoredEvent, event: e.Event) -> None:
            if isinstance(event, e.InputPromoted):
                assert runner is not None
                runner.leave()

    await first.service.admit(session_id, "Work.")
    context = replace(first._turn_context(), model=Answering(["Done."]), observer=Leaving())
    runner = Runner(store, session_id, context)
    await runner.drain()
    second = agent_with(store, project, "The tests pass.")
    assert second.resume_session(session_id)
    assert await second.resume() == "The tests pass."
    assert [one.answered for one in only(second, e.TurnEnded)] == [_inputs(second)]


async def test_queued_inputs_get_a_turn_each_in_their_order(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "One.", "Two.", "Three.")
    agent.session.persist()
    for text in ("First?", "Second?"):
        await agent.service.admit(agent.session.session_id, text)
    assert await agent.run("Third?") == "Three."
    assert [one.answered for one in only(agent, e.TurnEnded)] == [[n] for n in _inputs(agent)]


def _inputs(agent: Agent) -> list[int]:
    return [stored.seq for stored in agent.store.read(agent.session.session_id) if stored.kind == "InputAdmitted"]


async def test_drained_steering_is_not_answered_any_more(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project)
    agent.queue_steering_message("One.")
    agent.queue_steering_message("Two.")
    assert agent.drain_steering_messages() == ["One.", "Two."]
    assert agent.drain_steering_messages() == []
    assert agent.session.header.pending_count == 0


async def test_two_agents_cannot_drive_one_session_at_once(store: LogStore, project: Path) -> None:
    first = agent_with(store, project, call("bash", command="sleep 1"), "Done.", allow=("bash",))
    running = asyncio.create_task(first.run("Work."))
    await _started(first)
    second = agent_with(store, project, "Never.")
    assert second.resume_session(first.session.session_id)
    with pytest.raises(SessionBusy):
        await second.resume()
    assert await running == "Done."


# --- approvals -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("asks_first")
@pytest.mark.parametrize(("answer", "runs"), [("once", True), ("session", True), ("deny", False)])
async def test_a_call_beyond_the_mode_is_asked_and_the_answer_decides(
    store: LogStore, project: Path, answer: str, runs: bool
) -> None:
    asked: list[Question] = []

    async def answerer(question: Question) -> str:
        asked.append(question)
        return answer

    command = "python3 -c \"open('made.txt', 'w')\""
    twice = [call("bash", f"c{n}", command=command) for n in range(2)]
    agent = agent_with(store, project, *twice, "That is all I can do: it was declined or done.", answerer=answerer)
    await agent.run("What can you do?")
    assert (project / "made.txt").exists() is runs
    assert len(asked) == (1 if answer == "session" else 2)
    assert asked[0].arguments == {"command": command}


@pytest.mark.usefixtures("asks_first")
async def test_nobody_to_ask_means_denied_with_the_flag_that_allows_it(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, call("bash", command="curl http://example.com"), "It was denied.")
    await agent.run("What is there?")
    [finished] = only(agent, e.ToolCallFinished)
    assert finished.status == "blocked"
    assert "--allow" not in finished.parts[0].text, "the model cannot use a flag"
    assert finished.facts["remedy"].startswith("--allow 'bash(curl ")


@pytest.mark.usefixtures("asks_first")
async def test_an_answer_through_another_door_is_taken(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, call("bash", command="python3 -c 'print(6*7)'"), "42.", prompting=True)
    running = asyncio.create_task(agent.run("Compute."))
    agent.session.persist()
    async for _ in store.follow_async(agent.session.session_id, timeout=10):
        open_ones = agent.session.state.open_approvals
        if open_ones:
            await agent.service.answer(agent.session.session_id, open_ones[0].seq, "once", open_ones[0].call_digest)
            break
    assert await asyncio.wait_for(running, 10) == "42."
    assert len(only(agent, e.ApprovalAnswered)) == 1
    assert "42" in only(agent, e.ToolCallFinished)[0].parts[0].text


# --- phases --------------------------------------------------------------------------------------------------------


def test_a_phase_that_may_not_follow_raises() -> None:
    phases = Phases()
    phases.enter(Phase.PREPARE, "start", "Preparing")
    with pytest.raises(InvalidTransition, match="from prepare to tools"):
        phases.enter(Phase.TOOLS, "x", "y")
    phases.enter(Phase.ASSISTANT, "request_assistant_response", "Asking")
    phases.enter(Phase.ASSISTANT, "again", "Asking")
    assert phases.last is not None
    assert phases.last.reason_code == "request_assistant_response"


def test_no_phase_follows_the_last_one() -> None:
    for phase in Phase:
        if phase is not Phase.FINALIZE:
            with pytest.raises(InvalidTransition):
                Phases(Phase.FINALIZE).enter(phase, "x", "y")


# --- what the log says ---------------------------------------------------------------------------------------------


async def test_a_sub_agent_has_its_own_log_and_its_answer_is_the_result(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, call("task", prompt="Find out."), "Found out.", "The sub-agent found out.")
    assert await agent.run("What is it?") == "The sub-agent found out."
    [finished] = only(agent, e.ToolCallFinished)
    child = store.head(finished.facts["session_id"])
    assert (child.parent_session_id, child.depth) == (agent.session.session_id, 1)
    assert "Found out." in finished.parts[0].text


async def test_a_rotation_goes_on_in_a_new_session_and_keeps_everything(store: LogStore, project: Path) -> None:
    replies = [f"Answer {n}." for n in range(8)]
    agent = agent_with(
        store,
        project,
        *replies,
        compaction_mode="rotate",
        auto_compaction_input_tokens_threshold=2_400,
        compaction_keep_last_messages=2,
    )
    first = agent.session.session_id
    for n in range(8):
        await agent.run(f"Question {n}? " + "x" * 900)
    assert agent.session.session_id != first
    assert agent.last_turn_summary is not None
    assert agent.last_turn_summary.session_id == agent.session.session_id
    assert store.tip(first) == agent.session.session_id
    said = [message.content for message in agent.session.history(limit=None)]
    assert [text for text in said if text.startswith("Answer")] == replies


def test_texts_of_the_runtime_never_have_the_role_user(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "", "Now I answer.")
    agent.run_sync("Explain it.")
    nudges = [event for event in log_of(agent) if isinstance(event, e.MessageAppended)]
    assert nudges
    assert all(event.role is Role.SYSTEM for event in nudges)
