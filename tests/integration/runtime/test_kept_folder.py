"""The folder of shell commands in a session: kept, judged, asked about, rewound, and told again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Agent, CompletionResponse, ToolCall, open_store
from outlast.core import events as e
from outlast.core.fold import folded
from outlast.core.messages import text_of
from outlast.core.state import SessionState, state_from_bytes, state_to_bytes
from outlast.runtime.permissions.evaluate import Verdict
from outlast.runtime.permissions.rules import PermissionRule, RuleSet
from outlast.runtime.permissions.session_policy import SessionPolicy
from outlast.runtime.turn.approvals import Question
from outlast.store.log_store import LogStore
from outlast.store.read.decode import decode_events
from outlast.testing import ScriptedBackend
from tests.support.agents import agent_with, call, only
from tests.unit.runtime.test_parallel_calls import Scripts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "outside.txt").write_text("outside")
    (folder / "inside.txt").write_text("inside")
    return folder


def texts(agent: Agent) -> list[str]:
    return [text_of(event.parts) for event in only(agent, e.ToolCallFinished)]


def folder_of(agent: Agent) -> str | None:
    rows = decode_events(agent.store, agent.store.read(agent.session.session_id))
    return folded(rows).shell_folder


async def test_a_cd_counts_for_the_next_call_and_for_the_next_turn(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, call("bash", command="cd sub"), call("bash", command="pwd"), "a",
                       call("bash", command="pwd"), "b", call("read", file_path="inside.txt"), "c")  # fmt: skip
    await agent.run("Go.")
    await agent.run("Where are you?")
    await agent.run("Relative paths of file tools stay relative to the project.")
    told = texts(agent)
    assert told[1:3] == [str(project / "sub")] * 2
    assert "inside" in told[3]
    assert [event.facts.get("cwd") for event in only(agent, e.ToolCallFinished)][:3] == [str(project / "sub")] * 3


@pytest.mark.usefixtures("asks_first")
async def test_a_command_that_was_harmless_in_the_folder_is_asked_about_at_another(
    store: LogStore, project: Path
) -> None:
    """`cat ../inside.txt` reads a file of the project from `sub`, and `cat ../outside.txt` one outside from it."""
    asked: list[Question] = []

    async def no(question: Question) -> str:
        asked.append(question)
        return "deny"

    commands = ["cat ../outside.txt", "cd sub", "cat ../inside.txt", "cat ../../outside.txt"]
    script = [call("bash", f"c{n}", command=command) for n, command in enumerate(commands)]
    agent = agent_with(store, project, *script, "Done.", answerer=no)
    await agent.run("Read.")
    assert [question.arguments["command"] for question in asked] == ["cat ../outside.txt", "cat ../../outside.txt"]
    assert str(project / "sub") in (asked[1].reason or "")
    assert [event.status for event in only(agent, e.ToolCallFinished)] == [
        "declined",
        "executed",
        "executed",
        "declined",
    ]


@pytest.mark.usefixtures("asks_first")
@pytest.mark.parametrize("answer", ["session", "always"])
async def test_an_approval_of_a_command_counts_only_in_its_folder(store: LogStore, project: Path, answer: str) -> None:
    asked: list[str] = []

    async def yes(question: Question) -> str:
        asked.append(question.call_digest)
        return answer

    commands = ["rm -f gone.txt", "rm -f gone.txt", "cd sub", "rm -f gone.txt", "rm -f gone.txt"]
    script = [call("bash", f"c{n}", command=command) for n, command in enumerate(commands)]
    agent = agent_with(store, project, *script, "Done.", answerer=yes)
    await agent.run("Remove.")
    assert len(set(asked)) == len(asked) == 2


async def test_a_deny_rule_for_a_path_sees_the_folder(store: LogStore, project: Path) -> None:
    rules = RuleSet(deny=(PermissionRule(path_contains="sub/deep"),))
    gate = SessionPolicy(project=project, roots=(project,), rules=rules, prompting=True)
    listing = ToolCall(id="c", name="bash", arguments={"command": "ls deep"})
    assert gate.judge(listing, SessionState(), None).verdict is not Verdict.DENY
    assert gate.judge(listing, SessionState(), None, project / "sub").verdict is Verdict.DENY


async def test_outside_the_roots_or_gone_the_next_call_starts_in_the_project_and_says_so(
    store: LogStore, project: Path
) -> None:
    commands = ["cd ..", "pwd", "pwd", "cd sub", "rm -r ../sub", "pwd", "pwd"]
    script = [call("bash", f"c{n}", command=command) for n, command in enumerate(commands)]
    agent = agent_with(store, project, *script, "Done.", permission_mode="danger-full-access", allow=("bash",))
    await agent.run("Go.")
    told = texts(agent)
    outside = f"[started in the project's folder: {project.parent} is outside the folders of this session]"
    assert told[1] == f"{project}\n{outside}"
    assert told[2] == str(project)
    assert told[5] == f"{project}\n[started in the project's folder: {project / 'sub'} is gone]"
    assert told[6] == str(project)


async def test_calls_in_background_and_killed_ones_change_nothing(store: LogStore, project: Path) -> None:
    script = [
        call("bash", "c1", command="cd sub; sleep 9", timeout=1),
        call("bash", "c2", command="cd sub; true", background=True),
        call("bash", "c3", command="pwd"),
    ]
    agent = agent_with(store, project, *script, "Done.", allow=("bash",))
    await agent.run("Go.")
    assert texts(agent)[2] == str(project)


async def test_a_rewind_restores_the_folder_and_its_undo_brings_it_back(store: LogStore, project: Path) -> None:
    agent = agent_with(
        store, project, call("bash", "c1", command="cd sub"), "a", call("bash", "c2", command="cd deep"), "b"
    )
    await agent.run("One.")
    await agent.run("Two.")
    two = next(one.seq for one in agent.session.history() if one.content == "Two.")
    session_id, context = agent.session.session_id, agent._turn_context()
    assert folder_of(agent) == str(project / "sub" / "deep")
    await agent.service.boundary(session_id, "rewind", {"seq": two, "keep": False}, context)
    assert folder_of(agent) == str(project / "sub")
    await agent.service.boundary(session_id, "unrewind", {}, context)
    assert folder_of(agent) == str(project / "sub" / "deep")
    await agent.service.boundary(session_id, "clear", {}, context)
    assert folder_of(agent) is None


async def test_a_sub_agent_starts_in_the_project_and_changes_nothing_for_its_parent(
    store: LogStore, project: Path
) -> None:
    scripts = Scripts(
        parent=[
            call("bash", "c1", command="cd sub"),
            call("task", "t1", prompt="Look."),
            call("bash", "c2", command="pwd"),
            "Done.",
        ],
        Look=[call("bash", "k1", command="pwd; cd sub/deep"), "Looked."],
    )
    agent = agent_with(store, project, backend=scripts)
    await agent.run("parent")
    assert texts(agent)[2] == str(project / "sub")
    child = only(agent, e.ToolCallFinished)[1].facts["session_id"]
    [inside] = [event for _, event in decode_events(store, store.read(child)) if isinstance(event, e.ToolCallFinished)]
    assert text_of(inside.parts).splitlines()[0] == str(project)


async def test_after_a_compaction_the_model_is_told_the_folder_again(store: LogStore, project: Path) -> None:
    replies = [call("bash", "c1", command="cd sub"), *("Long. " * 50 for _ in range(6))]
    backend = ScriptedBackend(completions=list(replies))
    agent = agent_with(store, project, backend=backend)
    for n in range(5):
        await agent.run(f"Turn {n}.")
    assert not any("Shell commands start in" in message.content for message in backend.requests[-1].messages)
    await agent.service.boundary(agent.session.session_id, "compact", {}, agent._turn_context())
    await agent.run("And now?")
    assert any(f"Shell commands start in {project / 'sub'}" in m.content for m in backend.requests[-1].messages)


def test_the_folder_survives_a_snapshot_of_the_state() -> None:
    state = SessionState(shell_folders=[(4, "/p/sub")])
    again = state_from_bytes(state_to_bytes(state))
    assert again is not None
    assert again.shell_folder == "/p/sub"


async def test_two_calls_of_one_reply_follow_each_other(store: LogStore, project: Path) -> None:
    calls = [ToolCall(id=f"c{n}", name="bash", arguments={"command": text}) for n, text in enumerate(["cd sub", "pwd"])]
    agent = agent_with(store, project, CompletionResponse(tool_calls=calls), "Done.")
    await agent.run("Go.")
    assert texts(agent)[1] == str(project / "sub")
