"""The Landlock tier through an agent: where user namespaces are missing, commands still run unasked behind walls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outlast import open_store
from outlast.app import sandbox
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.runtime.sandbox import landlock
from outlast.runtime.sandbox.port import SandboxReport, SandboxTier
from outlast.store.log_store import LogStore
from tests.conftest import everything_is_required
from tests.support.agents import agent_with, call, only


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogStore:
    support = landlock.available()
    if support.abi < 4:
        (pytest.fail if everything_is_required() else pytest.skip)(support.reason or "Landlock is too old")
    report = SandboxReport(tier=SandboxTier.LANDLOCK, abi=support.abi, reason="no user namespaces")

    def probed(_: Path) -> SandboxReport:
        return report

    monkeypatch.setattr(sandbox, "_probed", probed)
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    return open_store(f"sqlite:///{tmp_path}/x.db")


async def run(store: LogStore, project: Path, *commands: str, **config: Any) -> list[str]:
    calls = [call("bash", f"c{at}", command=command) for at, command in enumerate(commands)]
    agent = agent_with(store, project, *calls, "Done.", **config)
    assert await agent.run("Go.") == "Done."
    return [text_of(found.parts) for found in only(agent, e.ToolCallFinished)]


async def test_command_runs_unasked_and_a_write_outside_is_named(store: LogStore, tmp_path: Path) -> None:
    made, outside = await run(store, tmp_path / "proj", "echo made > made; cat made", "touch /usr/outlast-canary")
    assert made == "made"
    assert "blocked by the sandbox" in outside
    assert 'needs=["write:/usr/outlast-canary"]' in outside
    assert not Path("/usr/outlast-canary").exists()


async def test_git_configuration_is_put_back_after_a_command(store: LogStore, tmp_path: Path) -> None:
    project = tmp_path / "proj"
    texts = await run(store, project, "git init -q .", "git config core.fsmonitor ./evil", "git add -A; git status -s")
    assert "fsmonitor" not in (project / ".git" / "config").read_text()
    assert "is as it was before the command" in texts[1]


async def test_command_has_no_network_and_cannot_read_the_home(store: LogStore, tmp_path: Path) -> None:
    (tmp_path / "home" / "state").mkdir(parents=True)
    token = tmp_path / "home" / "state" / "token"
    token.write_text("THE-TOKEN")
    network = "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM)'"
    refused, secret = await run(store, tmp_path / "proj", network, f"cat {token}")
    assert "Permission" in refused
    assert "THE-TOKEN" not in secret


async def test_read_only_mode_keeps_the_project_as_it_is(store: LogStore, tmp_path: Path) -> None:
    project = tmp_path / "proj"
    [text] = await run(store, project, "touch made; echo $?", permission_mode="read-only")
    assert not (project / "made").exists()
    assert "1" in text


async def test_new_repository_that_can_run_a_program_is_set_aside(store: LogStore, tmp_path: Path) -> None:
    project = tmp_path / "proj"
    texts = await run(
        store,
        project,
        "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x",
        "git worktree add -q w",
        "git init -q n; printf '[core]\\nfsmonitor = ./evil\\n' >> n/.git/config",
    )
    assert "its settings were set aside" in texts[2]
    assert not (project / "n" / ".git" / "config").exists()
    assert (project / "w" / ".git").is_file(), "an ordinary worktree stays"
