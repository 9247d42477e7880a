"""Which confinement a turn gives to its commands: read-only and plan mode, the home, and commands that run unasked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from outlast import Agent, open_store
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.runtime.sandbox import landlock
from outlast.runtime.tools.builtin import bash
from outlast.runtime.tools.process.environment import sealed
from outlast.store.log_store import LogStore
from tests.conftest import everything_is_required
from tests.support.agents import agent_with, call, only

DONE = ["Done."] * 4
MAKES = 'python3 -c \'open("made", "w")\''


@pytest.fixture(autouse=True)
def _landlock() -> None:
    support = landlock.available()
    if not support and everything_is_required():
        pytest.fail(support.reason)
    if not support:
        pytest.skip(support.reason)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogStore:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    return open_store(f"sqlite:///{tmp_path}/x.db")


async def yes(*_: object) -> str:
    return "once"


def results(agent: Agent) -> list[str]:
    return [text_of(found.parts) for found in only(agent, e.ToolCallFinished)]


@pytest.mark.parametrize(
    ("mode", "made"),
    [("workspace-write", True), ("read-only", False)],
)
async def test_command_that_the_user_allows_writes_only_where_the_mode_writes(
    store: LogStore, tmp_path: Path, mode: str, made: bool
) -> None:
    project = tmp_path / "proj"
    agent = agent_with(store, project, call("bash", command=MAKES), *DONE, answerer=yes, permission_mode=mode)
    await agent.run("Make it.")
    [finished] = only(agent, e.ToolCallFinished)
    assert finished.facts.get("confined") is True, finished
    assert (project / "made").exists() is made


@pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
async def test_the_home_cannot_be_read_by_a_command_that_the_user_allows(
    store: LogStore, tmp_path: Path, mode: str
) -> None:
    home = tmp_path / "home"
    (home / "state").mkdir(parents=True)
    (home / "state" / "token").write_text("THE-TOKEN")
    command = call("bash", command=f"python3 -c 'print(open(\"{home}/state/token\").read())'")
    agent = agent_with(store, tmp_path / "proj", command, *DONE, answerer=yes, permission_mode=mode)
    await agent.run("Read it.")
    [text] = results(agent)
    assert "Permission denied" in text or "No such file" in text
    assert "THE-TOKEN" not in text


@pytest.mark.usefixtures("asks_first")
async def test_only_a_command_that_runs_unasked_has_read_only_variables(
    store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[str] = []

    def noted(command: str, environment: Mapping[str, str]) -> str:
        before.append(command)
        return sealed(command, environment)

    monkeypatch.setattr(bash, "sealed", noted)
    commands = ("cat nothing", "PATH=$PATH:/x; echo path=$PATH")
    calls = [call("bash", f"c{number}", command=text) for number, text in enumerate(commands)]
    agent = agent_with(store, tmp_path / "proj", *calls, *DONE, answerer=yes)
    await agent.run("What is there?")
    assert before == ["cat nothing"]
    first, second = results(agent)
    assert "No such file" in first
    assert second.endswith(":/x")


@pytest.mark.parametrize("mode", ["plan", "execute"])
async def test_a_sub_agent_of_a_session_in_plan_mode_writes_nothing(store: LogStore, tmp_path: Path, mode: str) -> None:
    project = tmp_path / "proj"
    write = call("write", "w1", file_path="made", content="x")
    agent = agent_with(store, project, call("task", prompt="Write it."), write, *DONE, *DONE)
    agent.set_workflow_mode(mode)
    await agent.run("What is there?")
    assert (project / "made").exists() is (mode == "execute")
