"""Clarify and plan mode of guided turns: entered only when the user, the configuration or the model asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outlast import ToolCall
from outlast.core import events as e
from outlast.runtime.clock import SystemClock
from outlast.runtime.driver import Driver
from outlast.runtime.tools.port import ToolOutcome
from outlast.store.log_store import LogStore
from outlast.workflow.guided_policy import GuidedPolicy
from tests.support.agents import call
from tests.unit.workflow.guided_agents import WRITE, codes, guided, requests, turn_context, uninvited

BRIEF = "## Desired outcome\n- faster\n\n## Assumptions\n- one file\n\nWhich file?"
PLAN = "# Steps\n- write a.py\n# Files\n- a.py\n# Verification commands\n- `test -f a.py`\n"


@pytest.mark.parametrize("asked", [{"workflow_mode": "clarify"}, {"clarify": True}])
async def test_clarify_is_for_one_turn_and_the_answer_begins_the_work(
    store: LogStore, project: Path, asked: dict[str, Any]
) -> None:
    agent = guided(store, project, BRIEF, **asked)
    assert await agent.run("Make it faster") == BRIEF
    assert (requests(agent), codes(agent)) == (1, ["clarify_follow_up_needed"])
    assert agent.session.workflow_timeline[0].mode == "clarify"
    assert agent.session.workflow_ledger.assumptions[0].text == "one file"
    asked.pop("workflow_mode", None)
    goes_on = guided(store, project, WRITE, "Done.", **asked)
    assert goes_on.resume_session(agent.session.session_id)
    assert await goes_on.run("a.py") == "Done."
    assert goes_on.session.workflow_mode == "execute"
    assert goes_on.current_task == "Make it faster"


async def test_a_clarify_mode_that_the_user_set_ends_with_its_turn(store: LogStore, project: Path) -> None:
    agent = guided(store, project, BRIEF, "Done.")
    agent.set_workflow_mode("clarify")
    await agent.run("Make it faster")
    await agent.run("a.py")
    assert [entry.mode for entry in agent.session.workflow_timeline if entry.kind == "route"] == ["clarify", "execute"]


async def test_a_plan_mode_that_the_user_set_stays_until_the_user_ends_it(store: LogStore, project: Path) -> None:
    agent = guided(store, project, PLAN, "It needs no more.", WRITE, "Done.", allow=("bash",))
    agent.set_workflow_mode("plan")
    await agent.run("Plan it")
    await agent.run("Is that all?")
    assert (agent.session.workflow_mode, codes(agent)) == ("plan", ["plan_ready", "plan_not_ready"])
    agent.set_workflow_mode("execute")
    await agent.run("Go")
    assert uninvited(agent) == ["test -f a.py"]


async def test_a_plan_before_each_task_is_carried_out_by_the_next_message(store: LogStore, project: Path) -> None:
    agent = guided(store, project, PLAN, WRITE, "Done.", PLAN, plan=True, allow=("bash",))
    for said in ("Write a.py", "Go", "Another task"):
        await agent.run(said)
    routes = [entry for entry in agent.session.workflow_timeline if entry.kind == "route"]
    assert [(entry.mode, entry.reason_code) for entry in routes] == [
        ("plan", "explicit_request"),
        ("execute", "existing_plan_artifacts"),
        ("plan", "explicit_request"),
    ]
    assert uninvited(agent) == ["test -f a.py"]


async def test_files_outside_the_plan_are_recorded_and_not_argued_about(store: LogStore, project: Path) -> None:
    other = call("write", "w2", file_path="b.py", content="x\n")
    agent = guided(store, project, PLAN, WRITE, other, "Done.", plan=True, allow=("bash",))
    await agent.run("Write a.py")
    assert await agent.run("Go") == "Done."
    last = agent.session.workflow_timeline[-1]
    assert "`b.py` was changed though the plan does not name it" in last.evidence_summary
    assert requests(agent) == 4


async def test_a_plan_that_the_user_approves_names_the_commands_of_the_turn(store: LogStore, project: Path) -> None:
    """The tool itself is tested with the tools; here it has been approved, as `note_call` hears it."""
    agent = guided(store, project, "OK.")
    await agent.run("Hello")
    driver = await Driver.open(store, agent.session.session_id, SystemClock())
    policy = GuidedPolicy(driver, turn_context(agent))
    asked = ToolCall(id="x1", name="exit_plan", arguments={"plan": PLAN})
    [stored, noted, updated] = policy.note_call(asked, ToolOutcome(text="Approved."), "executed")
    assert isinstance(stored, e.RuntimeStateChanged)
    assert isinstance(noted, e.LedgerUpdated)
    assert isinstance(updated, e.DefinitionOfDoneUpdated)
    assert stored.changes["workflow_plan"]["steps"] == ["write a.py"]
    assert updated.definition["verification_commands"] == ["test -f a.py"]
    assert policy.note_call(asked, ToolOutcome(text="No.", is_error=True), "executed") == ()


async def test_a_named_command_in_another_folder_is_no_evidence(store: LogStore, project: Path) -> None:
    agent = guided(store, project, "OK.", verify_commands=("pytest -q",))
    await agent.run("Hello")
    driver = await Driver.open(store, agent.session.session_id, SystemClock())
    policy = GuidedPolicy(driver, turn_context(agent))
    ran = ToolCall(id="b1", name="bash", arguments={"command": "pytest -q"})
    for folder, count in ((project / "sub", 0), (project, 1)):
        outcome = ToolOutcome(text="1 passed", facts={"exit_code": 0, "cwd": str(folder)})
        [updated] = policy.note_call(ran, outcome, "executed")
        assert isinstance(updated, e.DefinitionOfDoneUpdated)
        assert len(updated.definition.get("evidence", ())) == count
