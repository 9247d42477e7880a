"""Ten exact probes: places where the runtime once stood between a model and its work, in both workflows."""

from pathlib import Path
from typing import Any

import pytest

from outlast import Agent
from outlast.core import events as e
from outlast.core.messages import TextPart
from outlast.models.port import Finished
from outlast.models.scripted import ScriptedBackend
from outlast.runtime.sandbox import landlock
from outlast.runtime.turn.approvals import Question
from outlast.store import open_store
from tests.support.agents import Reply, agent_with, call, only
from tests.workflow.provider import requests_of

BOTH = pytest.mark.parametrize("workflow", ["plain", "guided"])


def agent_at(folder: Path, workflow: str, *replies: Reply, **config: Any) -> Agent:
    return agent_with(open_store("memory://"), folder, *replies, workflow=workflow, **config)


def ends(agent: Agent) -> list[str]:
    return [ended.outcome for ended in only(agent, e.TurnEnded)]


def statuses(agent: Agent) -> list[str]:
    return [done.status for done in only(agent, e.ToolCallFinished)]


ISSUE = (
    "The function f in calc.py returns 1, and callers, tests and docs expect 2. It happens on Linux and on macOS. "
    "I would expect the documented value, and no change of its callers. Please fix this in calc.py and keep the style."
)


@BOTH
async def test_probe_1_an_issue_of_four_sentences_may_be_solved_at_once(workflow: str, tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text("def f():\n    return 1\n")
    edit = call("edit", file_path="calc.py", old_string="return 1", new_string="return 2")
    agent = agent_at(tmp_path, workflow, edit, "Fixed.")
    assert await agent.run(ISSUE) == "Fixed."
    assert (requests_of(agent), statuses(agent), ends(agent)) == (2, ["executed"], ["completed"])


@BOTH
async def test_probe_2_what_is_done_already_is_an_answer(workflow: str, tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text("def f():\n    return 1\n")
    agent = agent_at(tmp_path, workflow, call("read", file_path="calc.py"), "f returns 1 already.")
    assert await agent.run("Fix the bug: f must return 1") == "f returns 1 already."
    assert (requests_of(agent), ends(agent)) == (2, ["completed"])


@BOTH
async def test_probe_3_a_question_to_the_user_ends_the_turn(workflow: str, tmp_path: Path) -> None:
    agent = agent_at(tmp_path, workflow, "May I change calc.py?")
    assert await agent.run("Ask me before you change anything. Make it faster.") == "May I change calc.py?"
    assert (requests_of(agent), ends(agent)) == (1, ["completed"])


@BOTH
async def test_probe_4_every_call_written_as_text_is_carried_out_and_none_is_scolded(
    workflow: str, tmp_path: Path
) -> None:
    for n in range(4):
        (tmp_path / f"f{n}.txt").write_text(f"text {n}\n")
    asked = [f'Action: read\nAction Input: {{"file_path": "f{n}.txt"}}' for n in range(4)]
    agent = agent_at(tmp_path, workflow, *asked, "All read.")
    assert await agent.run("Read the four files.") == "All read."
    assert (statuses(agent), ends(agent)) == (["executed"] * 4, ["completed"])
    assert requests_of(agent) == 5
    assert isinstance(agent.backend, ScriptedBackend)
    told = " ".join(message.content for message in agent.backend.requests[-1].messages)
    assert "interface" not in told


@BOTH
async def test_probe_5_a_denied_command_is_denied_once_and_not_asked_for_again(workflow: str, tmp_path: Path) -> None:
    wanted = call("bash", command="python -m pytest -q", needs=["network:example.org"], why="A test needs it.")
    agent = agent_at(tmp_path, workflow, wanted, "I could not run the tests.")
    assert await agent.run("Fix the bug and make the tests pass.") == "I could not run the tests."
    assert (requests_of(agent), statuses(agent), ends(agent)) == (2, ["blocked"], ["completed"])
    [done] = only(agent, e.ToolCallFinished)
    assert "--" not in done.parts[0].text  # the model cannot give command line flags


@BOTH
@pytest.mark.skipif(not landlock.available(), reason="no Landlock here, so no command is confined")
async def test_probe_6_a_refusal_by_the_sandbox_is_named(workflow: str, tmp_path: Path) -> None:
    outside = Path("/usr") / f"outlast-probe-{tmp_path.name}"

    async def never(question: Question) -> str:
        raise AssertionError(f"a sandboxed command was asked about: {question}")

    agent = agent_at(tmp_path, workflow, call("bash", command=f"mkdir {outside}"), "It failed.", answerer=never)
    await agent.run("Install the packages.")
    [done] = only(agent, e.ToolCallFinished)
    assert done.is_error
    assert f"[blocked by the sandbox: this command may not write to {outside}" in done.parts[0].text
    assert requests_of(agent) == 2
    assert not outside.exists()


@BOTH
@pytest.mark.usefixtures("asks_first")
@pytest.mark.skipif(not landlock.available(), reason="no Landlock here, so no command is confined")
async def test_probe_6_a_refusal_is_named_where_there_is_no_sandbox_of_a_session(
    workflow: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "cache"

    async def yes(_: Question) -> str:
        return "once"

    agent = agent_at(tmp_path, workflow, call("bash", command=f"mkdir {outside}"), "It failed.", answerer=yes)
    await agent.run("Install the packages.")
    [done] = only(agent, e.ToolCallFinished)
    assert done.is_error
    assert "a sandbox confined this command" in done.parts[0].text
    assert requests_of(agent) == 2


@BOTH
async def test_probe_7_waiting_is_no_loop(workflow: str, tmp_path: Path) -> None:
    waits = [call("bash", f"s{n}", command="sleep 0.01") for n in range(7)]
    agent = agent_at(tmp_path, workflow, *waits, "The job is done.")
    assert await agent.run("Wait for the job.") == "The job is done."
    assert (requests_of(agent), statuses(agent), ends(agent)) == (8, ["executed"] * 7, ["completed"])


@BOTH
async def test_probe_8_a_passing_run_under_another_spelling_counts(workflow: str, tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text("def f():\n    return 1\n")
    steps = [
        call("bash", "t1", command="sh -c 'exit 1'"),
        call("edit", "e1", file_path="calc.py", old_string="return 1", new_string="return 2"),
        call("bash", "t2", command="sh -c 'exit 0'"),
    ]
    agent = agent_at(tmp_path, workflow, *steps, "The tests pass.", allow=("bash",))
    assert await agent.run("Make the tests pass.") == "The tests pass."
    assert (requests_of(agent), ends(agent)) == (4, ["completed"])


@BOTH
async def test_probe_9_a_reply_cut_off_by_length_goes_on(workflow: str, tmp_path: Path) -> None:
    cut = Finished(parts=(TextPart("The answer is forty-"),), finish_reason="length")
    agent = agent_at(tmp_path, workflow, cut, "two.")
    assert await agent.run("What is the answer?") == "The answer is forty-two."
    assert (requests_of(agent), ends(agent)) == (2, ["completed"])


@BOTH
async def test_probe_10_the_last_step_is_an_answer(workflow: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    reads = [call("read", f"r{n}", file_path="a.txt", offset=n + 1) for n in range(3)]
    agent = agent_at(tmp_path, workflow, *reads, "Three of five are read.", max_steps=3)
    assert await agent.run("Read all of it.") == "Three of five are read."
    assert (requests_of(agent), ends(agent)) == (4, ["budget_exhausted"])


async def test_without_a_limit_three_hundred_steps_are_not_too_many(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n" * 400)
    reads = [call("read", f"r{n}", file_path="a.txt", offset=n) for n in range(1, 300)]
    agent = agent_at(tmp_path, "plain", *reads, "Read.")
    assert await agent.run("Read it line by line.") == "Read."
    assert ends(agent) == ["completed"]
