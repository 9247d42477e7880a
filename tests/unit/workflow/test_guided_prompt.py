"""What the guided policy tells the model in messages."""

from outlast.core.workflow_mode import WorkflowMode
from outlast.workflow.artifacts import Brief, WorkPlan
from outlast.workflow.guided_state import GUIDANCE, workflow_context

BRIEF = Brief(task="Do it", non_goals=["No UI"])
PLAN = WorkPlan(task="Do it", steps=["Change a.py"], verification_commands=["pytest -q"])


def test_every_mode_has_its_guidance() -> None:
    assert set(GUIDANCE) == set(WorkflowMode)
    for mode in WorkflowMode:
        assert GUIDANCE[mode].startswith(f"Mode: {mode}.")


def test_workflow_context_holds_brief_and_plan() -> None:
    text = workflow_context(BRIEF, PLAN)
    assert "## Brief: Do it" in text
    assert "- No UI" in text
    assert "- `pytest -q`" in text


def test_without_artifacts_there_is_no_workflow_context() -> None:
    assert workflow_context(None, None) == ""
