"""What the guided policy adds to the system prompt."""

from outlast.core.workflow_mode import WorkflowMode
from outlast.core.workflow_records import WorkflowLedger, WorkflowLedgerItem
from outlast.runtime.prompt.system_prompt import PromptInputs, system_prompt
from outlast.workflow.artifacts import Brief, WorkPlan
from outlast.workflow.guided_state import GUIDANCE, prompt_sections

BRIEF = Brief(task="Do it", non_goals=["No UI"])
PLAN = WorkPlan(task="Do it", steps=["Change a.py"], verification_commands=["pytest -q"])
LEDGER = WorkflowLedger(assumptions=[WorkflowLedgerItem(text="a.py is small", status="contradicted")])


def test_every_mode_has_its_guidance() -> None:
    assert set(GUIDANCE) == set(WorkflowMode)
    for mode in WorkflowMode:
        assert dict(prompt_sections(mode))["Mode Guidance"].startswith(f"Mode: {mode}.")


def test_workflow_context_holds_brief_plan_and_what_is_no_longer_true() -> None:
    text = dict(prompt_sections(WorkflowMode.EXECUTE, BRIEF, PLAN, LEDGER))["Workflow Context"]
    assert "## Brief: Do it" in text
    assert "- No UI" in text
    assert "- `pytest -q`" in text
    assert "- a.py is small (contradicted)" in text


def test_the_guided_sections_stand_between_tools_and_project() -> None:
    sections = prompt_sections(WorkflowMode.PLAN, BRIEF, PLAN, LEDGER)
    prompt = system_prompt(PromptInputs(sections=sections, project_notes=("python",)))
    assert prompt.sections == ("Runtime Config", "Mode Guidance", "Workflow Context", "Project Context")


def test_without_artifacts_there_is_no_workflow_context() -> None:
    prompt = system_prompt(PromptInputs(sections=prompt_sections(WorkflowMode.EXECUTE)))
    assert prompt.sections == ("Runtime Config", "Mode Guidance")
