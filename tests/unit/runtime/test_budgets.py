"""Budgets of a turn: none by default; with one, a reminder, a last request without tools, and the reason in the log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Agent, AgentConfig, CompletionResponse, ToolCall, open_store
from outlast.core import events as e
from outlast.core.messages import Role, text_of
from outlast.core.state import OpenTurn
from outlast.models.port import ModelRequest, ToolSpec
from outlast.models.provider_request import settings_for
from outlast.runtime.agent_config import Budgets
from outlast.store.log_store import LogStore
from outlast.testing import ScriptedBackend
from tests.support.agents import agent_with, call, only

LAST = "No steps are left: answer now, without tools, with what is done and what is not."


@pytest.fixture
def store() -> Iterator[LogStore]:
    with open_store("memory://") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.txt").write_text("x\n" * 400)
    return tmp_path / "p"


class Died(BaseException):
    """Nothing of ours catches it: the log is left as a killed process leaves it."""


def looks(count: int) -> list[CompletionResponse]:
    return [call("read", f"r{n}", file_path="a.txt", offset=n + 1, limit=1) for n in range(count)]


def requests(agent: Agent) -> list[ModelRequest]:
    assert isinstance(agent.backend, ScriptedBackend)
    return agent.backend.requests


def told(request: ModelRequest) -> str:
    return "\n".join(text_of(message.parts) for message in request.messages if message.role is Role.SYSTEM)


def ended(agent: Agent) -> tuple[str, str | None]:
    [event] = only(agent, e.TurnEnded)
    return event.outcome, event.reason


async def test_without_a_limit_a_turn_takes_as_many_steps_as_the_model_wants(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, *looks(120), "All of it.", workflow="plain")
    assert await agent.run("Read it line by line.") == "All of it."
    assert ended(agent) == ("completed", "turn_complete")
    assert not any("left" in told(request) for request in requests(agent))


async def test_the_end_of_the_steps_is_told_and_a_last_answer_is_asked_for(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, *looks(12), "Half of it is read.", workflow="plain", max_steps=12)
    assert await agent.run("Read it line by line.") == "Half of it is read."
    assert ended(agent) == ("budget_exhausted", "the step budget of 12 is used up")
    sent = requests(agent)
    assert len(sent) == 13
    reminded = ["10 steps are left: come to an end and answer." in told(request) for request in sent]
    assert reminded == [False, False] + [True] * 11
    assert all(told(request).count("steps are left") == 1 for request in sent[2:12]), "it is told once"
    assert [request.answer_only for request in sent] == [False] * 12 + [True]
    assert [LAST in told(request) for request in sent] == [False] * 12 + [True]
    assert sent[12].tools == sent[0].tools, "the cached prefix stays"
    assert sent[12].system == sent[0].system
    [decided] = [one for one in only(agent, e.CompletionDecided) if one.code == "last_answer"]
    assert decided.summary == "the step budget of 12 is used up"


async def test_a_small_budget_has_no_reminder_but_a_last_answer(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, *looks(1), "One line.", workflow="plain", max_steps=1)
    assert await agent.run("Read it.") == "One line."
    assert ended(agent)[0] == "budget_exhausted"
    assert "come to an end" not in told(requests(agent)[1])


async def test_calls_in_the_last_answer_are_not_carried_out(store: LogStore, project: Path) -> None:
    write = ToolCall(id="w", name="write", arguments={"file_path": "b.txt", "content": "x"})
    last = CompletionResponse(content="I still wanted to write.", tool_calls=[write])
    agent = agent_with(store, project, *looks(2), last, workflow="plain", max_steps=2)
    assert await agent.run("Read it.") == "I still wanted to write."
    assert not (project / "b.txt").exists()
    assert [one.status for one in only(agent, e.ToolCallFinished)] == ["executed", "executed", "cancelled"]
    assert agent.session.state.open_calls == []
    assert ended(agent)[0] == "budget_exhausted"


async def test_a_step_that_answers_needs_no_last_request(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, *looks(2), "Read.", workflow="plain", max_steps=3)
    assert await agent.run("Read it.") == "Read."
    assert ended(agent)[0] == "completed"


async def test_the_next_turn_has_its_own_budget(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, *looks(1), "Out of steps.", "Four.", workflow="plain", max_steps=1)
    await agent.run("Read it.")
    assert await agent.run("What is two plus two?") == "Four."
    assert [one.outcome for one in only(agent, e.TurnEnded)] == ["budget_exhausted", "completed"]


async def test_a_last_request_that_a_crash_interrupted_is_made_again_and_counts_once(
    store: LogStore, project: Path
) -> None:
    agent = agent_with(store, project, *looks(2), Died("now"), workflow="plain", max_steps=2)
    with pytest.raises(Died, match="now"):
        await agent.run("Read it.")
    later = agent_with(store, project, "Two lines.", workflow="plain", max_steps=2)
    assert later.resume_session(agent.session.session_id)
    assert await later.resume() == "Two lines."
    [request] = requests(later)
    assert request.answer_only
    assert told(request).count(LAST) == 1
    assert len([one for one in only(later, e.CompletionDecided) if one.code == "last_answer"]) == 1
    assert [one.outcome for one in only(later, e.TurnEnded)] == ["budget_exhausted"]


async def test_a_token_budget_is_told_of_and_ends_with_an_answer(store: LogStore, project: Path) -> None:
    read = CompletionResponse(
        tool_calls=[ToolCall(id="r", name="read", arguments={"file_path": "a.txt", "limit": 1})],
        usage={"input_tokens": 940, "output_tokens": 0},
    )
    more = CompletionResponse(
        tool_calls=[ToolCall(id="s", name="read", arguments={"file_path": "a.txt", "limit": 2})],
        usage={"input_tokens": 940, "output_tokens": 10},
    )
    agent = agent_with(store, project, read, more, "Enough.", workflow="plain", max_tokens=1000)
    assert await agent.run("Read it.") == "Enough."
    first, second, last = requests(agent)
    assert "left" not in told(first)
    assert "About 60 tokens are left for this turn" in told(second)
    assert "No tokens are left: answer now" in told(last)
    assert ended(agent) == ("budget_exhausted", "the token budget of 1000 is used up (1890 tokens)")


def test_a_turn_that_is_out_of_time_gets_no_last_request() -> None:
    turn = OpenTurn(turn="t", seq=1, at=0, replies=5)
    budgets = Budgets(max_steps=5, max_seconds=1)
    assert budgets.last_words(turn, 500_000) is not None
    assert budgets.last_words(turn, 1_000_000) is None


def test_no_door_has_a_step_limit_of_its_own() -> None:
    assert (AgentConfig().max_steps, Budgets().max_steps) == (None, None)


def test_providers_are_told_not_to_call_tools_in_the_last_request() -> None:
    tools = (ToolSpec(name="read", description="", parameters={}),)
    wanted = {
        answer_only: settings_for(
            "openai", ModelRequest(system="", messages=[], tools=tools, answer_only=answer_only), official=True
        )
        for answer_only in (False, True)
    }
    assert wanted[True].get("tool_choice") == "none"
    assert "tool_choice" not in wanted[False]


# --- the probes of the quality report that concern limits


async def test_probe_7_waiting_five_times_is_no_reason_to_stop(store: LogStore, project: Path) -> None:
    waits = [call("bash", f"s{n}", command="sleep 0.01") for n in range(6)]
    agent = agent_with(store, project, *waits, "The job is done.", workflow="plain", allow=("bash",))
    assert await agent.run("Wait for the job.") == "The job is done."
    assert ended(agent)[0] == "completed"


async def test_probe_10_reply_50_does_not_end_the_turn_with_an_empty_answer(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, *looks(50), "Fifty lines are read.", workflow="plain", max_steps=50)
    assert await agent.run("Read it line by line.") == "Fifty lines are read."
    told_at = [n for n, request in enumerate(requests(agent)) if "10 steps are left" in told(request)]
    assert told_at[0] == 40
