"""The names of workflow modes, and the values that switch plan mode."""

from outlast.core.workflow_mode import WorkflowMode, mode_of, plan_mode_values


def test_an_unknown_mode_becomes_the_one_that_the_caller_names() -> None:
    assert mode_of("plan") is WorkflowMode.PLAN
    assert mode_of("dance") is WorkflowMode.EXECUTE
    assert mode_of(None, WorkflowMode.CLARIFY) is WorkflowMode.CLARIFY


def test_switching_plan_mode_on_records_that_it_was_requested() -> None:
    assert plan_mode_values(True) == {"workflow_mode": "plan", "workflow_decision_kind": "requested"}
    assert plan_mode_values(False) == {"workflow_mode": "execute", "workflow_decision_kind": None}
