"""Replies that the length limit cut off: continued, joined, and bounded. In both workflows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, CompletionResponse, open_store
from outlast.core import events as e
from outlast.core.errors import ContextOverflow
from outlast.core.messages import Role, ToolCall, text_of
from outlast.models.port import Finished
from outlast.runtime.turn.context import PolicyFactory
from outlast.runtime.turn.length_limit import GO_ON
from outlast.runtime.turn.plain_policy import PlainPolicy
from outlast.runtime.turn.turn_stats import TurnRecord
from outlast.store.log_store import LogStore
from outlast.store.read.decode import decode_events
from outlast.testing import ScriptedBackend
from outlast.workflow.guided_policy import GuidedPolicy
from tests.support.agents import Reply, agent_with, call, only

POLICIES: dict[str, PolicyFactory] = {"plain": PlainPolicy, "guided": GuidedPolicy}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture(params=["plain", "guided"])
def workflow(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def cut(text: str) -> CompletionResponse:
    return CompletionResponse(content=text, finish_reason="length")


def made(
    store: LogStore, project: Path, *replies: Reply, workflow: str = "plain", **config: Any
) -> tuple[Agent, ScriptedBackend]:
    backend, policy = ScriptedBackend(list(replies)), POLICIES[workflow]
    agent = agent_with(store, project, backend=backend, context=lambda given: replace(given, policy=policy), **config)
    return agent, backend


async def test_a_cut_off_reply_is_continued_and_the_answer_is_whole(
    store: LogStore, tmp_path: Path, workflow: str
) -> None:
    agent, backend = made(store, tmp_path / "p", cut("One, tw"), cut("o, thr"), "ee.", workflow=workflow)
    assert await agent.run("What comes after zero?") == "One, two, three."
    assert [text_of(one.parts) for one in only(agent, e.AssistantReplied)] == ["One, tw", "o, thr", "ee."]
    assert [message.content for message in backend.requests[1].messages][-2:] == ["One, tw", GO_ON]
    codes = [one.code for one in only(agent, e.CompletionDecided)]
    assert codes[:2] == ["reply_cut_off", "reply_cut_off"]
    [ended] = only(agent, e.TurnEnded)
    assert ended.outcome == "completed"
    told = [event for event in only(agent, e.MessageAppended) if event.role is Role.SYSTEM]
    assert len([event for event in told if text_of(event.parts) == GO_ON]) == 2


async def test_a_model_that_never_ends_is_asked_ten_times(store: LogStore, tmp_path: Path, workflow: str) -> None:
    agent, backend = made(store, tmp_path / "p", *[cut(f"{n} ") for n in range(20)], workflow=workflow)
    assert await agent.run("What are the numbers?") == "".join(f"{n} " for n in range(11))
    assert len(backend.requests) == 11
    [ended] = only(agent, e.TurnEnded)
    assert (ended.outcome, ended.reason) == ("stopped", "the length limit cut the reply off again and again")


async def test_a_model_without_progress_is_asked_three_times(store: LogStore, tmp_path: Path, workflow: str) -> None:
    agent, backend = made(store, tmp_path / "p", cut("Half "), cut(""), cut(" "), cut(""), "never", workflow=workflow)
    assert await agent.run("What is it?") == "Half  "
    assert len(backend.requests) == 4
    assert only(agent, e.TurnEnded)[0].reason == "the length limit cut the reply off again and again"


async def test_a_compaction_between_the_pieces_loses_none_of_the_answer(
    store: LogStore, tmp_path: Path, workflow: str
) -> None:
    pieces, full = [cut(f"{n} ") for n in range(5)], ContextOverflow("too long")
    replies = (*pieces[:3], full, *pieces[3:], full, "end.")
    agent, backend = made(store, tmp_path / "p", *replies, workflow=workflow, compaction_keep_last_messages=1)
    assert await agent.run("What are the numbers?") == "0 1 2 3 4 end."
    assert len(only(agent, e.Compacted)) == 2
    assert "0 " not in [message.content for message in backend.requests[-1].messages]


async def test_every_reply_of_a_long_turn_may_be_continued(store: LogStore, tmp_path: Path, workflow: str) -> None:
    steps = [(cut(f"Step {n} "), call("bash", f"c{n}", command=f"echo {n}")) for n in range(12)]
    agent, _ = made(store, tmp_path / "p", *(one for step in steps for one in step), "Done.", workflow=workflow)
    assert await agent.run("Work.") == "Done."
    idle = [(cut(""), call("bash", f"d{n}", command=f"echo {n}")) for n in range(4)]
    agent, _ = made(store, tmp_path / "p", *(one for step in idle for one in step), "Done.", workflow=workflow)
    assert await agent.run("Work.") == "Done."


async def test_a_cut_off_native_call_is_answered_as_malformed(store: LogStore, tmp_path: Path) -> None:
    broken = Finished(parts=(ToolCall(id="c", name="read", raw='{"file_pa'),), finish_reason="length")
    agent, backend = made(store, tmp_path / "p", broken, "I stop.")
    assert await agent.run("Read it.") == "I stop."
    assert [one.status for one in only(agent, e.ToolCallFinished)] == ["malformed"]
    assert not [one for one in only(agent, e.MessageAppended) if text_of(one.parts) == GO_ON]
    assert len(backend.requests) == 2


async def test_a_text_call_that_was_cut_in_the_middle_is_carried_out_once_it_is_whole(
    store: LogStore, tmp_path: Path, workflow: str
) -> None:
    agent, backend = made(
        store,
        tmp_path / "p",
        cut('I write.\nAction: write\nAction Input: {"file_path": "a.txt", "con'),
        'tent": "hello\\n"}',
        "Written.",
        workflow=workflow,
        dialect="text",
    )
    answer = await agent.run("Write a.txt.")
    assert answer.startswith("Written.")
    assert (tmp_path / "p" / "a.txt").read_text() == "hello\n"
    replies = only(agent, e.AssistantReplied)
    assert [part.name for part in replies[1].parts if isinstance(part, ToolCall)] == ["write"]
    assert text_of(replies[1].parts) == ""
    assert backend.requests[2].messages[-1].content.startswith("Observation of write:")


async def test_the_record_of_a_turn_joins_the_pieces_at_every_point(store: LogStore, tmp_path: Path) -> None:
    agent, _ = made(store, tmp_path / "p", cut("One, tw"), cut("o, thr"), "ee.")
    await agent.run("What comes after zero?")
    rows = decode_events(store, store.read(agent.session.session_id))
    seen = [TurnRecord(rows[:n], 1).last_answer for n in range(len(rows) + 1)]
    assert list(dict.fromkeys(seen)) == ["", "One, tw", "One, two, thr", "One, two, three."]
