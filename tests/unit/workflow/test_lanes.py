"""Brief, plan and the clarify lane."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.workflow_mode import WorkflowMode
from outlast.workflow import artifacts, clarify
from outlast.workflow.artifacts import Brief, Slot, WorkPlan

FULL = Brief(
    task="Do it",
    desired_outcome=["It works"],
    acceptance_criteria=["The tests pass"],
    non_goals=["No new dependency"],
    decision_boundaries=["Ask before a rename"],
)

TEXT = """\
Here is what I know.

## Desired outcome
- A faster parser

**Non-goals**
1. No new syntax
2) None

Acceptance criteria:
- [ ] parses 1 MB in a second
* [x] all tests pass

### Something else
- is passed over

## Likely touchpoints
src/parser.py
"""


def test_a_brief_is_read_from_what_models_write() -> None:
    brief = artifacts.parsed_brief(TEXT, "Speed it up")
    assert brief.desired_outcome == ["A faster parser"]
    assert brief.non_goals == ["No new syntax"]
    assert brief.acceptance_criteria == ["parses 1 MB in a second", "all tests pass"]
    assert brief.likely_touchpoints == ["src/parser.py"]
    assert brief.constraints == []


def test_a_second_brief_keeps_what_it_does_not_mention() -> None:
    first = artifacts.parsed_brief(TEXT, "Speed it up")
    second = artifacts.parsed_brief("## Constraints\n- Python 3.11", "Speed it up", first)
    assert second.constraints == ["Python 3.11"]
    assert second.desired_outcome == ["A faster parser"]
    assert artifacts.parsed_brief("", "Another task", first) == Brief(task="Another task")


ITEMS = st.lists(
    st.text("abcdefgh xyz0123-`/._", min_size=3, max_size=30)
    .map(lambda text: " ".join(text.split()))
    .filter(lambda text: text[:1].isalpha() and text not in ("none", "nothing", "unknown", "tbd")),
    max_size=4,
    unique=True,
)


@given(ITEMS, ITEMS, ITEMS)
def test_a_rendered_brief_is_read_back(outcome: list[str], goals: list[str], files: list[str]) -> None:
    brief = Brief(task="Do it", desired_outcome=outcome, non_goals=goals, likely_touchpoints=files)
    assert artifacts.parsed_brief(artifacts.rendered_brief(brief), "Do it") == brief


def test_a_brief_is_stored_as_runtime_state_and_can_be_forgotten() -> None:
    assert artifacts.brief_of(artifacts.stored_brief(FULL)) == FULL
    assert artifacts.brief_of(artifacts.stored_brief(None)) is None
    assert artifacts.brief_of({}) is None


def test_slots_are_asked_for_in_order_and_two_at_a_time() -> None:
    decision = clarify.decide(Brief(task="Do it"))
    assert decision.code == "clarify_follow_up_needed"
    assert decision.missing == tuple(Slot)
    assert decision.question == "\n".join(
        [clarify.QUESTIONS[Slot.DESIRED_OUTCOME], clarify.QUESTIONS[Slot.ACCEPTANCE_CRITERIA]]
    )
    assert decision.pressure == 1.0


@pytest.mark.parametrize(
    ("brief", "code", "leaves"),
    [
        (Brief(task="t"), "clarify_follow_up_needed", False),
        (FULL, "clarify_pressure_pass_required", False),
        (msgspec.structs.replace(FULL, pressure_passed=True), "clarify_complete", True),
        (msgspec.structs.replace(FULL, pressure_passed=True, rounds=3), "clarify_complete", True),
        (Brief(task="t", rounds=3, pressure_passed=True), "clarify_budget_exhausted", True),
        (Brief(task="t", rounds=3), "clarify_budget_exhausted_without_pressure_pass", True),
        (msgspec.structs.replace(FULL, rounds=3), "clarify_budget_exhausted_without_pressure_pass", True),
    ],
)
def test_every_clarify_code(brief: Brief, code: str, leaves: bool) -> None:
    decision = clarify.decide(brief)
    assert (decision.code, decision.leaves) == (code, leaves)
    assert decision.summary
    entry = decision.entry("t", WorkflowMode.PLAN)
    assert entry.kind == ("clarify_exit" if leaves else "clarify_continue")
    assert entry.scheduled_next_mode == ("plan" if leaves else "clarify")
    assert entry.readiness_gates[-1].startswith("pressure_pass: ")


def test_the_codes_are_all_there_are() -> None:
    assert len(clarify.SUMMARIES) == 5
    assert set(clarify.QUESTIONS) == set(Slot)


def test_the_pressure_pass_challenges_an_assumption_first() -> None:
    assert "tabs stay" in clarify.pressure_question(
        Brief(task="t", assumptions=["tabs stay"], acceptance_criteria=["x"])
    )
    assert "The tests pass" in clarify.pressure_question(FULL)
    assert "smallest" in clarify.pressure_question(Brief(task="t"))


def test_answers_are_counted_and_the_challenge_is_remembered() -> None:
    brief = clarify.answered(FULL, clarify.decide(FULL))
    assert (brief.rounds, brief.pressure_passed) == (1, True)
    assert clarify.decide(brief).code == "clarify_complete"
    assert clarify.answered(Brief(task="t"), clarify.decide(Brief(task="t"))).pressure_passed is False


PLAN = """\
# Plan
1. Add `parse` to src/parser.py
2. Cover it in tests/test_parser.py

## Acceptance criteria
- parses 1 MB in a second

## Verification commands
- `pytest -q tests/test_parser.py`
- $ ruff check .
- look at the output with your eyes

## Risks
- none
"""


def test_a_plan_is_read_from_what_models_write() -> None:
    plan = artifacts.parsed_plan(PLAN, "Speed it up")
    assert plan.steps == ["Add `parse` to src/parser.py", "Cover it in tests/test_parser.py"]
    assert plan.touchpoints == ["src/parser.py", "tests/test_parser.py"]
    assert plan.verification_commands == ["pytest -q tests/test_parser.py", "ruff check ."]
    assert plan.risks == []
    assert plan.revision == 1
    assert artifacts.parsed_plan(PLAN, "Speed it up", plan).revision == 2
    assert artifacts.parsed_plan(PLAN, "Another task", plan).revision == 1


def test_both_forms_of_a_plan_can_be_read_again() -> None:
    plan = artifacts.parsed_plan(PLAN, "Speed it up")
    whole = f"{artifacts.rendered_plan(plan)}\n{artifacts.rendered_verification_plan(plan)}"
    assert artifacts.parsed_plan(whole, "Speed it up") == plan
    assert artifacts.plan_of(artifacts.stored_plan(plan)) == plan
    assert artifacts.plan_of({artifacts.PLAN_KEY: None}) is None
    assert artifacts.parsed_plan("just prose", "t") == WorkPlan(task="t")


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("change `src/a.py` and b.txt.", ["src/a.py", "b.txt"]),
        ("everything under src/core/", ["src/core/"]),
        ("see ./x/y.md", ["x/y.md"]),
        ("not ../../etc/passwd.txt", []),
        ("not /etc/hosts.conf", []),
        ("not https://example.com/a.html", []),
        ("version 3 of it", []),
    ],
)
def test_paths_are_found_in_text(text: str, paths: list[str]) -> None:
    assert artifacts.paths_in(text) == paths


def test_a_huge_or_hostile_text_is_bounded() -> None:
    plan = artifacts.parsed_plan(
        "## Steps\n" + "- x\n- " + "y" * 5_000 + "\n" + "".join(f"- {n}\n" for n in range(999)), "t"
    )
    assert len(plan.steps) == 50
    assert max(map(len, plan.steps)) <= 1_000
