"""The router: its scores, one by one, and what it decides from them."""

import msgspec
import pytest

from outlast.core.workflow_mode import DecisionKind, WorkflowMode, mode_of
from outlast.core.workflow_records import EntryKind, WorkflowTimelineEntry
from outlast.workflow.router import (
    SUMMARIES,
    Signals,
    ambiguity,
    clarify_pressure,
    complexity,
    execute_pressure,
    plan_pressure,
    route,
)

THIRTY = " ".join(f"word{n}" for n in range(30))
EIGHTEEN = " ".join(f"word{n}" for n in range(18))


def entry(kind: str, mode: str = "execute", questions: list[str] | None = None) -> WorkflowTimelineEntry:
    return WorkflowTimelineEntry(
        timestamp="t", kind=kind, mode=mode, reason_code="r", summary="s", unresolved_questions=questions or []
    )


@pytest.mark.parametrize(
    ("task", "score"),
    [
        ("Create hello.txt in the workspace root.", 0.0),
        ("Rename the function foo", 0.0),
        ("Sing a song", 0.20),
        ("Make `app` nicer", 0.20),
        ("Add logging", 0.35),
        ("Improve everything", 0.55),  # vague, no anchor, short with a building word
        ("I am not sure what to do with src/app.py", 0.65),
        ("Not sure, maybe improve things", 1.0),
    ],
)
def test_ambiguity_adds_up(task: str, score: float) -> None:
    assert ambiguity(task) == score


def test_a_clarify_flag_counts_like_uncertain_words() -> None:
    assert ambiguity("Rename the function foo", clarify_flag=True) == 0.65


@pytest.mark.parametrize(
    ("task", "score"),
    [
        ("Sing a song", 0.0),
        ("Rename `foo`", 0.10),
        ("Refactor it", 0.30),
        (EIGHTEEN, 0.20),
        (THIRTY, 0.35),
        ("this and that and more", 0.15),
        ("this, that, more", 0.15),
        (f"Refactor src/app.py, {THIRTY}, and more", 0.90),
    ],
)
def test_complexity_adds_up(task: str, score: float) -> None:
    assert complexity(task) == score


@pytest.mark.parametrize(
    ("signals", "much", "score"),
    [
        (Signals(has_brief=True), 0.6, 0.3),
        (Signals(), 0.6, 0.45),
        (Signals(), 0.5, 0.5),
        (Signals(open_questions=("a",)), 0.6, 0.49),
        (Signals(open_questions=("a", "b", "c", "d")), 0.6, 0.57),
        (Signals(recent=(entry("clarify_continue", "clarify", ["q"]),)), 0.6, 0.49),
        (Signals(clarify_allowed=False), 0.0, 0.0),
    ],
)
def test_clarify_pressure_adds_up(signals: Signals, much: float, score: float) -> None:
    assert clarify_pressure(0.3, much, signals) == score


@pytest.mark.parametrize(
    ("signals", "score"),
    [
        (Signals(), 0.2),
        (Signals(verification_pressure=True), 0.38),
        (Signals(mutating_history=True), 0.32),
        (Signals(has_brief=True), 0.26),
        (Signals(open_questions=("a", "b")), 0.26),
        (Signals(recent=(entry("reentry"),)), 0.26),
        (Signals(recent=(entry("plan_refresh"),)), 0.24),
    ],
)
def test_plan_pressure_adds_up(signals: Signals, score: float) -> None:
    assert plan_pressure(0.2, signals) == score


@pytest.mark.parametrize(
    ("signals", "unclear", "much", "score"),
    [
        (Signals(open_questions=("a",)), 0.5, 0.5, 0.35),
        (Signals(), 0.5, 0.5, 0.40),
        (Signals(has_brief=True), 0.5, 0.5, 0.54),
        (Signals(), 0.34, 0.5, 0.56),
        (Signals(), 0.5, 0.44, 0.52),
        (Signals(recent=(entry("verify_skip"),)), 0.5, 0.5, 0.43),
    ],
)
def test_execute_pressure_adds_up(signals: Signals, unclear: float, much: float, score: float) -> None:
    assert execute_pressure(unclear, much, signals) == score


def test_the_router_remembers_six_entries_and_no_more() -> None:
    old = entry("reentry")
    assert Signals(recent=(old, *[entry("route")] * 5)).lately(EntryKind.REENTRY)
    assert not Signals(recent=(old, *[entry("route")] * 6)).lately(EntryKind.REENTRY)


COMPLEX = f"Refactor the report workflow and migrate the data and the tests, {EIGHTEEN}"

CASES = [
    ("Improve everything", Signals(), WorkflowMode.CLARIFY, "task_is_ambiguous", DecisionKind.INITIAL_ROUTE),
    (
        "Improve everything",
        Signals(clarify_allowed=False),
        WorkflowMode.EXECUTE,
        "task_is_concrete",
        DecisionKind.INITIAL_ROUTE,
    ),
    (COMPLEX, Signals(), WorkflowMode.PLAN, "task_is_complex", DecisionKind.INITIAL_ROUTE),
    (COMPLEX, Signals(plan_allowed=False), WorkflowMode.EXECUTE, "task_is_concrete", DecisionKind.INITIAL_ROUTE),
    (
        COMPLEX,
        Signals(verification_pressure=True),
        WorkflowMode.PLAN,
        "verification_pressure_requires_plan",
        DecisionKind.INITIAL_ROUTE,
    ),
    ("Create hello.txt", Signals(), WorkflowMode.EXECUTE, "task_is_concrete", DecisionKind.INITIAL_ROUTE),
    (
        "Create hello.txt",
        Signals(requested=WorkflowMode.VERIFY),
        WorkflowMode.VERIFY,
        "explicit_request",
        DecisionKind.REQUESTED,
    ),
    (
        "x",
        Signals(requested=WorkflowMode.PLAN, has_plan=True, stale_plan=True),
        WorkflowMode.PLAN,
        "explicit_request",
        DecisionKind.REQUESTED,
    ),
    (COMPLEX, Signals(has_plan=True), WorkflowMode.EXECUTE, "existing_plan_artifacts", DecisionKind.ARTIFACT_REUSE),
    (COMPLEX, Signals(has_plan=True, stale_plan=True), WorkflowMode.PLAN, "stale_plan_artifacts", DecisionKind.REENTRY),
    (
        "Create hello.txt",
        Signals(stale_plan=True),
        WorkflowMode.EXECUTE,
        "task_is_concrete",
        DecisionKind.INITIAL_ROUTE,
    ),
]


@pytest.mark.parametrize(("task", "signals", "mode", "code", "kind"), CASES)
def test_tasks_are_routed(task: str, signals: Signals, mode: WorkflowMode, code: str, kind: DecisionKind) -> None:
    routed = route(task, signals)
    assert (routed.mode, routed.reason_code, routed.decision_kind) == (mode, code, kind)


def test_every_reason_code_is_reached() -> None:
    assert {code for _, _, _, code, _ in CASES} == set(SUMMARIES)


@pytest.mark.parametrize(
    ("signals", "score"),
    [
        (Signals(requested=WorkflowMode.PLAN), 1.0),
        (Signals(has_plan=True, stale_plan=True), 0.95),
        (Signals(has_plan=True), 0.9),
    ],
)
def test_short_cuts_have_fixed_scores(signals: Signals, score: float) -> None:
    assert route("x", signals).score == score


def test_the_runner_up_is_the_next_best_of_the_others() -> None:
    routed = route("Improve everything", Signals())
    assert (routed.score, routed.runner_up_mode, routed.runner_up_score) == (0.75, WorkflowMode.EXECUTE, 0.52)


def test_clarify_is_followed_by_a_plan_when_the_task_is_complex() -> None:
    assert route("Improve everything", Signals()).scheduled_next_mode is WorkflowMode.EXECUTE
    assert (
        route(f"Not sure: {COMPLEX}", Signals(requested=WorkflowMode.CLARIFY)).scheduled_next_mode is WorkflowMode.PLAN
    )


def test_a_route_says_what_it_leaves_in_the_log() -> None:
    routed = route(COMPLEX, Signals(open_questions=("Which one?",)))
    noted = routed.entry("2026-04-07T12:00:00Z")
    assert (noted.kind, noted.mode, noted.reason_code) == ("route", "plan", "task_is_complex")
    assert noted.summary.startswith("plan: ")
    assert noted.unresolved_questions == ["Which one?"]
    assert noted.signals == ["open questions"]
    assert routed.changes()["workflow_mode"] == "plan"
    assert routed.changes()["workflow_scheduled_next_mode"] == "execute"
    assert msgspec.to_builtins(routed.changes()) == routed.changes()


def test_an_unknown_mode_in_a_log_is_execute() -> None:
    assert mode_of("plan") is WorkflowMode.PLAN
    assert mode_of("meditate") is WorkflowMode.EXECUTE
    assert mode_of(None) is WorkflowMode.EXECUTE
