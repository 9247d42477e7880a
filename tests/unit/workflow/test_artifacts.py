"""Brief, plan and ledger."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.workflow_records import WorkflowLedger, WorkflowLedgerItem
from outlast.workflow import artifacts
from outlast.workflow.artifacts import Brief, WorkPlan

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


def test_a_plan_with_headings_in_another_language_still_has_its_steps() -> None:
    plan = artifacts.parsed_plan("## Schritte\n1. `a.py` anlegen\n2. Tests schreiben\n", "Leg es an")
    assert plan.steps == ["`a.py` anlegen", "Tests schreiben"]
    assert plan.touchpoints == ["a.py"]


@pytest.mark.parametrize(
    ("touchpoints", "outside"),
    [
        ([], []),
        (["a.py"], ["lib/b.py"]),
        (["src/", "b.py"], ["a.py"]),
        (["*.py"], []),
        (["lib/b.py", "a.py"], []),
    ],
)
def test_files_that_the_plan_does_not_name_are_found(touchpoints: list[str], outside: list[str]) -> None:
    assert artifacts.outside_plan(WorkPlan(task="t", touchpoints=touchpoints), ["a.py", "lib/b.py"]) == outside


def test_the_ledger_takes_each_text_once_and_keeps_its_status() -> None:
    known = WorkflowLedger(assumptions=[WorkflowLedgerItem(text="Tabs stay.", status="contradicted")])
    ledger = artifacts.noted(known, "clarify", assumptions=["tabs  STAY.", "One file."], decision_boundaries=["Ask."])
    assert [(item.text, item.status) for item in ledger.assumptions] == [
        ("Tabs stay.", "contradicted"),
        ("One file.", "open"),
    ]
    assert (ledger.decision_boundaries[0].status, ledger.decision_boundaries[0].introduced_phase) == (
        "tracked",
        "clarify",
    )


def test_the_ledger_is_bounded_and_drops_the_oldest_untouched_item() -> None:
    known = WorkflowLedger(acceptance_anchors=[WorkflowLedgerItem(text="kept", status="changed")])
    ledger = artifacts.noted(known, "plan", acceptance_anchors=[f"a{n}" for n in range(artifacts.LEDGER_LENGTH)])
    texts = [item.text for item in ledger.acceptance_anchors]
    assert len(texts) == artifacts.LEDGER_LENGTH
    assert texts[:2] == ["kept", "a1"]
