"""The loop guard: tells the model, then asks the user, and knows waiting from looping."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from outlast import Agent, CompletionResponse, ToolCall, open_store
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.models.scripted import Item
from outlast.runtime.runner import Runner
from outlast.runtime.turn.approvals import Question
from outlast.runtime.turn.loop_guard import SAME_RESULTS, is_poll
from outlast.store.log_store import LogStore
from outlast.store.port import Redact
from outlast.testing import ScriptedBackend
from tests.support.agents import agent_with, call, only

N = SAME_RESULTS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("x")
    return folder


def reads(count: int, first: int = 0, name: str = "a.txt") -> list[CompletionResponse]:
    return [call("read", f"r{name}{n}", file_path=name) for n in range(first, first + count)]


def told(agent: Agent) -> list[str]:
    said = [text_of(event.parts) for event in only(agent, e.MessageAppended)]
    return [text for text in said if "calls were the same" in text]


def codes(agent: Agent) -> list[str]:
    return [event.code for event in only(agent, e.CompletionDecided)]


@pytest.mark.parametrize("workflow", ["plain", "guided"])
async def test_the_model_is_told_once_and_without_a_request_of_its_own(
    store: LogStore, project: Path, workflow: str
) -> None:
    backend = ScriptedBackend(completions=[*reads(N), "Enough."])
    agent = agent_with(store, project, backend=backend, workflow=workflow)
    assert await agent.run("Read a.txt.") == "Enough."
    assert len(told(agent)) == 1
    assert told(agent)[0] in backend.requests[N].messages[-1].content
    assert len(backend.requests) == N + 1
    assert [event.outcome for event in only(agent, e.TurnEnded)] == ["completed"]


@pytest.mark.parametrize("workflow", ["plain", "guided"])
async def test_without_a_user_a_model_that_goes_on_is_stopped_with_a_clear_reason(
    store: LogStore, project: Path, workflow: str
) -> None:
    agent = agent_with(store, project, *reads(2 * N + 3), workflow=workflow)
    await agent.run("Read a.txt.")
    [ended] = only(agent, e.TurnEnded)
    assert ended.outcome == "stopped"
    assert ended.reason == f"the last {2 * N} calls were the same (read) and gave the same result"
    assert len(only(agent, e.ToolCallFinished)) == 2 * N
    assert codes(agent) == ["loop_told", "loop_stopped"]


async def test_the_user_decides_and_may_let_it_continue(store: LogStore, project: Path) -> None:
    asked: list[Question] = []

    async def go_on(question: Question) -> str:
        asked.append(question)
        return "continue"

    agent = agent_with(store, project, *reads(2 * N + 2), "At last.", answerer=go_on)
    assert await agent.run("Read a.txt.") == "At last."
    [question] = asked
    assert question.name == "ask_user"
    assert question.arguments["choices"] == ["continue", "stop"]
    assert codes(agent)[:2] == ["loop_told", "loop_continued"]


async def test_a_user_who_says_stop_ends_the_turn(store: LogStore, project: Path) -> None:
    async def stop(question: Question) -> str:
        return "stop"

    agent = agent_with(store, project, *reads(2 * N + 3), answerer=stop)
    await agent.run("Read a.txt.")
    [ended] = only(agent, e.TurnEnded)
    assert (ended.outcome, (ended.reason or "")[:20]) == ("stopped", "the user stopped it:")


async def test_another_result_is_no_loop(store: LogStore, project: Path) -> None:
    """The same command, and each time one line more."""
    script = [call("bash", f"b{n}", command="echo x >> log.txt; wc -l log.txt") for n in range(3 * N)]
    agent = agent_with(store, project, *script, "Done.", allow=("bash",))
    assert await agent.run("Count.") == "Done."
    assert told(agent) == []


async def test_another_call_in_between_is_no_loop(store: LogStore, project: Path) -> None:
    (project / "b.txt").write_text("y")
    script = [reply for n in range(N + 2) for reply in (*reads(1, n), *reads(1, n, "b.txt"))]
    agent = agent_with(store, project, *script, "Done.")
    assert await agent.run("Read.") == "Done."
    assert told(agent) == []


async def test_a_new_loop_after_the_model_was_told_is_told_again(store: LogStore, project: Path) -> None:
    (project / "b.txt").write_text("y")
    agent = agent_with(store, project, *reads(N), *reads(N, 0, "b.txt"), "Done.")
    assert await agent.run("Read.") == "Done."
    assert len(told(agent)) == 2


async def test_polling_is_no_loop(store: LogStore, project: Path) -> None:
    script: list[CompletionResponse] = []
    for n in range(3 * N):
        script += [call("bash", f"s{n}", command="sleep 0"), *reads(1, n)]
    script += [call("bash", f"t{n}", command="sleep 0; cat a.txt") for n in range(3 * N)]
    script += [call("bash_output", f"o{n}", job_id="job-0") for n in range(3 * N)]
    agent = agent_with(store, project, *script, "Done.", allow=("bash",), max_steps=200)
    assert await agent.run("Wait.") == "Done."
    assert told(agent) == []


@pytest.mark.parametrize(
    ("command", "waits"),
    [
        ("sleep 5", True),
        ("sleep 5 && curl localhost", True),
        ("make; sleep 1; cat log", True),
        ("until test -e x; do sleep 1; done", True),
        ("wait", True),
        ("cat sleep.txt", False),
        ("grep -r sleep .", False),
        ("pytest -k wait", False),
    ],
)
def test_a_command_that_sleeps_is_a_poll(command: str, waits: bool) -> None:
    assert is_poll(ToolCall(id="c", name="bash", arguments={"command": command})) is waits


async def test_a_loop_inside_one_reply_is_seen(store: LogStore, project: Path) -> None:
    same = [ToolCall(id=f"c{n}", name="read", arguments={"file_path": "a.txt"}) for n in range(N)]
    agent = agent_with(store, project, CompletionResponse(tool_calls=same), "Done.")
    await agent.run("Read.")
    assert len(told(agent)) == 1


async def left_with_a_question(store: LogStore, project: Path, script: Sequence[Item], dialect: str) -> str:
    """Run the script in a process that leaves while the user thinks about the guard's question."""
    asking = asyncio.Event()

    async def never(question: Question) -> str:
        asking.set()
        await asyncio.Event().wait()
        raise AssertionError

    first = agent_with(store, project, *script, answerer=never, dialect=dialect)
    first.session.persist()
    await first.service.admit(first.session.session_id, "Read a.txt.")
    runner = Runner(store, first.session.session_id, first._turn_context())
    running = asyncio.ensure_future(runner.drain())
    await asyncio.wait_for(asking.wait(), 20)
    runner.leave()
    await running
    return first.session.session_id


@pytest.mark.parametrize("dialect", ["native", "text"])
async def test_a_question_that_was_open_when_the_process_died_is_asked_again(
    store: LogStore, project: Path, dialect: str
) -> None:
    """The first process leaves while the user thinks about it; the second asks the same question."""
    written = ['Action: read\nAction Input: {"file_path": "a.txt"}'] * (2 * N + 1)
    script: list[Item] = [*(reads(2 * N + 1) if dialect == "native" else written), "At last."]
    session_id = await left_with_a_question(store, project, script, dialect)
    questions: list[int] = []

    async def go_on(question: Question) -> str:
        questions.append(question.seq)
        return "continue"

    second = agent_with(store, project, *script[2 * N :], answerer=go_on, dialect=dialect)
    assert second.resume_session(session_id)
    assert await second.resume() == "At last."
    asked = [stored.seq for stored in store.read(session_id) if stored.kind == "ApprovalRequested"]
    assert questions == asked
    of_guard = [code for code in codes(second) if code.startswith("loop_")]
    assert of_guard == ["loop_told", "loop_continued"]


async def test_a_question_about_a_result_that_was_redacted_since_does_not_hold_the_turn(
    store: LogStore, project: Path
) -> None:
    session_id = await left_with_a_question(store, project, reads(2 * N + 1), "native")
    results = [stored.seq for stored in store.read(session_id) if stored.kind == "ToolCallFinished"]
    store.commit(Redact(session_id=session_id, seq=results[-2], actor="user/test"))
    second = agent_with(store, project, "At last.")
    assert second.resume_session(session_id)
    assert await asyncio.wait_for(second.resume(), 20) == "At last."
