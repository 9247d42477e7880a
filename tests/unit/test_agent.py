"""The agent as its callers use it: resuming, refusing, and what it never does with rights that a session claims."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import Agent, AgentConfig, SessionEnded, open_store
from outlast.app.settings import load_settings
from outlast.core import events as e
from outlast.core.errors import ConfigError, ConflictError, InvalidInput, OutlastError
from outlast.core.messages import ImagePart, TextPart
from outlast.store.log_store import LogStore
from outlast.testing import ScriptedBackend
from tests.support.agents import agent_with, call, only

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")
"""One red dot."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_an_unknown_session_is_not_resumed(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project)
    before = agent.session.session_id
    assert agent.resume_session("a" * 26) is False
    assert agent.session.session_id == before


async def test_an_ended_session_takes_no_task_and_says_what_to_do(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "One.", "Two.")
    await agent.run("First?")
    agent.session.end()
    with pytest.raises(SessionEnded, match="reopen it or fork it"):
        await agent.run("Second?")
    agent.session.reopen()
    assert await agent.run("Second?") == "Two."


async def test_ending_a_session_closes_the_turn_that_runs(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "One.")
    await agent.run("First?")
    await agent.service.end(agent.session.session_id, agent._turn_context())
    assert agent.session.header.state == "ended"


async def test_an_empty_task_is_refused_and_nothing_is_stored(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project)
    with pytest.raises(InvalidInput, match="must not be empty"):
        await agent.run("")
    assert not agent.session.exists


async def test_the_same_key_twice_is_one_input(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "One.", "Never said.")
    await agent.run("First?", key="k1")
    await agent.run("First?", key="k1")
    assert len(only(agent, e.InputAdmitted)) == 1
    assert len(only(agent, e.TurnEnded)) == 1
    with pytest.raises(ConflictError):
        await agent.run("Another?", key="k1")


def test_a_malformed_rule_file_keeps_the_agent_from_starting(store: LogStore, project: Path) -> None:
    (project / ".outlast").mkdir()
    (project / ".outlast" / "permission-rules.json").write_text('{"deny": [{"tol": "bash"}]}')
    with pytest.raises(ConfigError, match=r"permission-rules\.json"):
        agent_with(store, project)


def test_an_unknown_persona_names_those_there_are(store: LogStore, project: Path) -> None:
    with pytest.raises(OutlastError, match="default-interactive"):
        agent_with(store, project, persona="nobody")


@pytest.mark.parametrize("claimed", ["allow", "danger-full-access"])
async def test_a_session_never_gets_more_rights_than_the_process(store: LogStore, project: Path, claimed: str) -> None:
    agent = agent_with(store, project, call("write", file_path="x.txt", content="x"), "It was denied.")
    agent.session.update_runtime_state(permission_mode=claimed)
    settings = load_settings(project_root=project, permission_mode="read-only")
    lower = Agent(agent.backend, AgentConfig(auto_context=False), project, store=store, settings=settings)
    assert lower.resume_session(agent.session.session_id)
    assert lower.active_permission_mode == "read-only"
    await lower.run("What happens?")
    assert not (project / "x.txt").exists()


async def test_a_plan_that_was_asked_for_changes_nothing_and_is_carried_out_next(
    store: LogStore, project: Path
) -> None:
    plan = "# Steps\n- write a.txt\n# Files\n- a.txt\n# Verification commands\n- `test -f a.txt`\n"
    write = call("write", file_path="a.txt", content="x")
    agent = agent_with(store, project, write, plan, workflow="guided", workflow_mode="plan")
    assert "# Steps" in await agent.run("Create a.txt in the workspace root.")
    assert only(agent, e.ToolCallFinished)[0].status == "blocked"
    assert not (project / "a.txt").exists()
    carried_out = call("write", "w2", file_path="a.txt", content="x")
    goes_on = agent_with(store, project, carried_out, "Done.", workflow="guided")
    assert goes_on.resume_session(agent.session.session_id)
    await goes_on.run("Carry it out.")
    assert (project / "a.txt").exists()
    assert goes_on.session.workflow_reason_code == "existing_plan_artifacts"


def test_a_name_that_a_session_does_not_record_is_refused(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project)
    with pytest.raises(InvalidInput, match="records no 'favourite_colour'"):
        agent.session.update_runtime_state(favourite_colour="blue")


async def test_a_missing_key_is_one_sentence(store: LogStore, project: Path) -> None:
    settings = load_settings(project_root=project, model="anthropic:claude-sonnet-4-5")
    with pytest.raises(OutlastError, match="ANTHROPIC_API_KEY"):
        Agent(None, AgentConfig(), project, store=store, settings=settings)


def test_the_scripted_model_is_what_was_given(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "x")
    assert isinstance(agent.backend, ScriptedBackend)
    assert repr(agent).startswith("<Agent at session ")


async def test_an_image_goes_to_the_model_as_it_was_given(store: LogStore, project: Path) -> None:
    dot = ImagePart(media_type="image/png", data=PNG)
    agent = agent_with(store, project, "A dot.")
    assert await agent.run((TextPart("What is this?"), dot)) == "A dot."
    assert isinstance(agent.backend, ScriptedBackend)
    assert agent.backend.requests[0].messages[-1].parts == (TextPart("What is this?"), dot)
