"""Drift from brief and plan, and the hand-offs it leads to."""

from typing import Any

import msgspec
import pytest

from outlast.core.workflow_mode import WorkflowMode
from outlast.workflow.artifacts import Brief, WorkPlan
from outlast.workflow.drift import SUMMARIES, Drift, EvidenceKind, Reality, Strategy, covers, drift
from outlast.workflow.handoff import SUMMARIES as HANDOFFS
from outlast.workflow.handoff import after_drift, handed_over, planned, rerouted
from outlast.workflow.router import SUMMARIES as ROUTES
from outlast.workflow.router import Signals, route

TASK = "Speed up the parser module"
PLAN = WorkPlan(
    task=TASK, touchpoints=["src/parser.py", "tests/"], acceptance_criteria=["parser reads 1 MB per second"]
)
BRIEF = Brief(
    task=TASK,
    acceptance_criteria=["parser reads 1 MB per second"],
    likely_touchpoints=["`src/parser.py`", "the tests/ folder"],
    non_goals=["notes.txt stays out of scope"],
)


def real(**facts: Any) -> Reality:
    return msgspec.structs.replace(Reality(task=TASK), **facts)


def test_work_within_brief_and_plan_is_no_drift() -> None:
    facts = real(
        touched_files=["src/parser.py", "tests/test_parser.py"], acceptance_criteria=["parser reads 1 MB per second"]
    )
    found = drift(facts, BRIEF, PLAN)
    assert found == Drift()
    assert found.strategy is None


def test_without_artifacts_nothing_can_drift() -> None:
    assert drift(real(touched_files=["a"], failed_commands=["pytest"]), None, None) == Drift()


@pytest.mark.parametrize(
    ("facts", "brief", "plan", "codes", "strategy"),
    [
        (real(touched_files=["docs/a.md"]), None, PLAN, ("touched_files_outside_plan",), Strategy.PLAN_REFRESH),
        (
            real(acceptance_criteria=["colour output works"]),
            None,
            PLAN,
            ("acceptance_criteria_outside_plan",),
            Strategy.PLAN_REFRESH,
        ),
        (
            real(acceptance_criteria=["anything"]),
            Brief(task=TASK),
            None,
            ("brief_missing_acceptance_scope",),
            Strategy.CLARIFY_REENTRY,
        ),
        (real(touched_files=["docs/a.md"]), BRIEF, None, ("touchpoints_outside_brief",), Strategy.CLARIFY_REENTRY),
        (
            real(task="Paint website buttons green"),
            BRIEF,
            None,
            ("task_drifted_beyond_brief",),
            Strategy.CLARIFY_REENTRY,
        ),
        (
            real(touched_files=["docs/a.md"]),
            BRIEF,
            PLAN,
            ("touched_files_outside_plan", "touchpoints_outside_brief"),
            Strategy.FULL_REPLAN,
        ),
    ],
)
def test_every_drift_code(
    facts: Reality, brief: Brief | None, plan: WorkPlan | None, codes: tuple[str, ...], strategy: Strategy
) -> None:
    found = drift(facts, brief, plan)
    assert found.codes == codes
    assert found.strategy is strategy
    assert found.evidence
    assert all(SUMMARIES[code] in found.summary for code in codes)


def test_every_kind_of_evidence_is_found() -> None:
    facts = Reality(
        task="Paint website buttons in web/page.css",
        touched_files=["notes.txt"],
        acceptance_criteria=["colour output works"],
        failed_commands=["pytest -q"],
    )
    found = drift(facts, BRIEF, PLAN)
    assert {item.kind for item in found.evidence} == set(EvidenceKind)
    assert len(set(found.evidence)) == len(found.evidence)


@pytest.mark.parametrize(
    ("known", "path", "does"),
    [
        ("src/", "src/a.py", True),
        ("core/", "src/core/a.py", True),
        ("src/", "srcs/a.py", False),
        ("a.py", "src/a.py", True),
        ("src/a.py", "a.py", True),
        ("a.py", "ba.py", False),
        ("*.md", "docs/x.md", True),
    ],
)
def test_what_an_expected_path_covers(known: str, path: str, does: bool) -> None:
    assert covers(known, path) is does


ROUTE = route(TASK, Signals())
REFRESH = drift(real(touched_files=["docs/a.md"]), None, PLAN)
REENTRY = drift(real(touched_files=["docs/a.md"]), BRIEF, None)
BOTH = drift(real(touched_files=["docs/a.md"]), BRIEF, PLAN)


@pytest.mark.parametrize(
    ("found", "allowed", "code", "mode"),
    [
        (REFRESH, True, "stale_plan_artifacts", WorkflowMode.PLAN),
        (REENTRY, True, "clarify_reentry_required", WorkflowMode.CLARIFY),
        (REENTRY, False, f"post_drift_{ROUTE.reason_code}", ROUTE.mode),
        (BOTH, True, "full_replan_requires_clarify", WorkflowMode.CLARIFY),
        (BOTH, False, "full_replan_required", WorkflowMode.PLAN),
    ],
)
def test_drift_leads_back_to_the_lane_that_can_mend_it(
    found: Drift, allowed: bool, code: str, mode: WorkflowMode
) -> None:
    step = after_drift(found, clarify_allowed=allowed, route=ROUTE)
    assert step is not None
    assert (step.reason_code, step.mode) == (code, mode)
    entry = step.entry("t", ["plan.md"])
    assert entry.evidence_summary
    assert entry.artifact_paths == ["plan.md"]
    assert len(entry.evidence_provenance) == len(entry.evidence_summary)
    assert step.changes()["workflow_mode"] == str(mode)


def test_no_drift_leads_nowhere() -> None:
    assert after_drift(Drift(), clarify_allowed=True, route=ROUTE) is None


@pytest.mark.parametrize(
    ("strategy", "code", "kind"),
    [
        (Strategy.PLAN_REFRESH, "plan_refresh_completed", "plan_refresh"),
        (Strategy.CLARIFY_REENTRY, "clarify_reentry_plan_created", "handoff"),
        (Strategy.FULL_REPLAN, "full_replan_completed", "plan_refresh"),
    ],
)
def test_a_new_plan_leads_back_to_the_work(strategy: Strategy, code: str, kind: str) -> None:
    step = planned(strategy)
    assert (step.reason_code, step.mode) == (code, WorkflowMode.EXECUTE)
    assert step.entry("t").kind == kind


@pytest.mark.parametrize("code", sorted(ROUTES))
def test_every_route_code_has_its_post_drift_form(code: str) -> None:
    routed = msgspec.structs.replace(ROUTE, reason_code=code)
    assert rerouted(routed).reason_code == f"post_drift_{code}"


def test_an_ordinary_hand_over_is_recorded_as_one() -> None:
    entry = handed_over(WorkflowMode.EXECUTE, "clarify_complete", "the brief is complete", WorkflowMode.VERIFY).entry(
        "t"
    )
    assert (entry.kind, entry.decision_kind, entry.scheduled_next_mode) == ("handoff", "handoff", "verify")
    assert set(HANDOFFS) >= {"full_replan_completed", "clarify_reentry_required"}
