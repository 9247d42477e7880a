"""The plain policy, with a real store and a scripted model: the model stopped, so the turn is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, open_store
from outlast.core import events as e
from outlast.core.messages import Part, Role
from outlast.runtime.turn.context import PolicyFactory, TurnContext
from outlast.runtime.turn.plain_policy import PlainPolicy
from outlast.runtime.turn.policy import VERIFY, PolicyVerdict
from outlast.runtime.turn.turn_stats import TurnRecord
from outlast.store.log_store import LogStore
from outlast.testing import ScriptedBackend
from tests.support.agents import Reply, agent_with, call, kinds_of, only

PLAIN: PolicyFactory = PlainPolicy


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


def plain_context(context: TurnContext) -> TurnContext:
    return replace(context, policy=PLAIN)


def plain(store: LogStore, project: Path, *replies: Reply, **config: Any) -> Agent:
    return agent_with(store, project, *replies, context=plain_context, **config)


def requests(agent: Agent) -> int:
    backend = agent.backend
    assert isinstance(backend, ScriptedBackend)
    return len(backend.requests)


async def test_the_turn_ends_with_the_first_answer_and_one_request(store: LogStore, tmp_path: Path) -> None:
    agent = plain(store, tmp_path / "p", "I would write it, but I did nothing.")
    assert await agent.run("Create a.py and run it.") == "I would write it, but I did nothing."
    assert requests(agent) == 1
    [decided] = only(agent, e.CompletionDecided)
    assert (decided.outcome, decided.code) == ("complete", "turn_complete")
    [ended] = only(agent, e.TurnEnded)
    assert ended.outcome == "completed"


async def test_every_record_of_a_plain_turn_stands_in_the_log_in_order(store: LogStore, tmp_path: Path) -> None:
    agent = plain(store, tmp_path / "p", call("write", file_path="a.txt", content="x\n"), "Written.")
    await agent.run("Write a.txt.")
    assert requests(agent) == 2
    said = [kind for kind in kinds_of(agent) if kind != "RuntimeStateChanged"]
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
        "TimelineRecorded",
        "TurnEnded",
    ]


async def test_the_session_remembers_task_mode_and_usage(store: LogStore, tmp_path: Path) -> None:
    agent = plain(store, tmp_path / "p", "Four.", "Five.")
    await agent.run("What is two plus two?")
    await agent.run("And one more?")
    summary = agent.last_turn_summary
    assert summary is not None
    assert (summary.task, summary.workflow_mode) == ("And one more?", "execute")
    assert summary.decision_code == "turn_complete"
    assert summary.usage["iterations"] == 1
    done = summary.definition_of_done
    assert done is not None
    assert (done.task_statement, done.verification_commands) == ("And one more?", [])
    timeline = agent.session.workflow_timeline
    assert [(entry.kind, entry.reason_code) for entry in timeline] == [("completion_finalize", "turn_complete")] * 2
    assert [entry.decision_code for entry in agent.session.completion_trace] == ["turn_complete"] * 2


async def test_a_prompt_is_recorded_only_when_it_changed(store: LogStore, tmp_path: Path) -> None:
    agent = plain(store, tmp_path / "p", "One.", "Two.")
    await agent.run("First?")
    await agent.run("Second?")
    [taken] = agent.session.prompt_history
    assert "Mode Guidance" not in taken.prompt_sections


async def test_an_empty_reply_is_asked_for_once_more(store: LogStore, tmp_path: Path) -> None:
    agent = plain(store, tmp_path / "p", "", "Here I am.")
    assert await agent.run("Explain it.") == "Here I am."
    assert requests(agent) == 2
    assert [event.role for event in only(agent, e.MessageAppended)] == [Role.SYSTEM]


async def test_each_empty_reply_of_a_long_turn_is_asked_for_once_more(store: LogStore, tmp_path: Path) -> None:
    write = call("write", file_path="a.txt", content="x\n")
    agent = plain(store, tmp_path / "p", "", write, "", "Written.")
    assert await agent.run("Write a.txt.") == "Written."
    assert requests(agent) == 4


async def test_a_second_empty_reply_ends_the_turn(store: LogStore, tmp_path: Path) -> None:
    agent = plain(store, tmp_path / "p", "", "", "Too late.")
    assert await agent.run("Explain it.") == ""
    assert requests(agent) == 2
    [ended] = only(agent, e.TurnEnded)
    assert (ended.outcome, ended.reason) == ("stopped", "the model's replies were empty")


async def test_the_policy_commits_nothing_of_its_own(store: LogStore, tmp_path: Path) -> None:
    agent = plain(store, tmp_path / "p", "Four.")
    commits: list[int] = []
    commit = store.commit_async

    async def counted(*writes: object) -> object:
        commits.append(len(writes))
        return await commit(*writes)  # pyright: ignore[reportArgumentType]

    store.commit_async = counted  # pyright: ignore[reportAttributeAccessIssue]
    await agent.run("What is two plus two?")
    assert len(commits) == 4  # the input, the start, the request, and the answer with the end


async def test_a_mode_that_was_asked_for_is_kept(store: LogStore, tmp_path: Path) -> None:
    agent = plain(store, tmp_path / "p", "A plan.", workflow_mode="plan")
    await agent.run("Plan it.")
    [started] = only(agent, e.TurnStarted)
    assert started.mode == "plan"
    assert agent.session.workflow_mode == "plan"


async def test_a_call_in_the_text_protocol_is_carried_out(store: LogStore, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.txt").write_text("hello\n")
    asked = 'I look.\nAction: read\nAction Input: {"file_path": "a.txt"}'
    agent = plain(store, tmp_path / "p", asked, "It says hello.", prompt_format="react")
    assert await agent.run("What does a.txt say?") == "It says hello."
    [finished] = only(agent, e.ToolCallFinished)
    assert "hello" in finished.parts[0].text


class VerifyingPolicy(PlainPolicy):
    """Sends the answer to verification, as a guided driver does before its process dies."""

    def judge_reply(self, parts: tuple[Part, ...], record: TurnRecord) -> PolicyVerdict:
        return PolicyVerdict(outcome=VERIFY, code="sent_to_verification", summary="to be verified")


async def test_a_turn_that_another_policy_sent_to_verification_ends_with_its_answer(
    store: LogStore, tmp_path: Path
) -> None:
    agent = agent_with(store, tmp_path / "p", "Done.", context=lambda given: replace(given, policy=VerifyingPolicy))
    assert await agent.run("Do it.") == "Done."
    assert [event.code for event in only(agent, e.CompletionDecided)] == ["sent_to_verification", "turn_complete"]
    assert requests(agent) == 1
