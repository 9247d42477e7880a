"""The router proposes: it records scores, and never enters plan or clarify mode by itself."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.workflow_mode import DecisionKind, WorkflowMode
from outlast.workflow.router import Signals, ambiguity, complexity, route

LONG = "Refactor the whole workflow.\n" + "".join(f"- change `m{n}.py`\n" for n in range(8))
IN_SIX_LANGUAGES = [
    "Fix the bug in `calc.py`:\n1. write a test\n2. make it pass",
    "Behebe den Fehler in `calc.py`:\n1. schreibe einen Test\n2. bring ihn zum Laufen, z.B. sofort",
    "Corrige l'erreur dans `calc.py` :\n1. écris un test\n2. fais-le passer",
    "修复 `calc.py` 中的错误：\n1. 写一个测试\n2. 让它通过",  # noqa: RUF001
    "أصلح الخطأ في `calc.py`:\n1. اكتب اختبارا\n2. اجعله ينجح",
    "Исправь ошибку в `calc.py`:\n1. напиши тест\n2. добейся успеха",
]


@given(st.text(max_size=300), st.booleans(), st.booleans(), st.booleans())
def test_no_text_leads_to_another_mode_than_execute(text: str, plan: bool, brief: bool, failed: bool) -> None:
    signals = Signals(has_plan=plan, has_brief=brief, verification_pressure=failed)
    assert route(text, signals).mode is WorkflowMode.EXECUTE


def test_a_long_list_of_work_is_a_proposal_to_plan() -> None:
    chosen = route(LONG, Signals())
    assert (chosen.mode, chosen.reason_code) == (WorkflowMode.EXECUTE, "task_is_complex")
    entry = chosen.entry("t")
    assert (entry.kind, entry.runner_up_mode) == ("route", "plan")
    assert entry.runner_up_score is not None
    assert entry.route_score is not None
    assert entry.runner_up_score > entry.route_score


def test_the_same_text_in_six_languages_gets_the_same_route() -> None:
    assert len({route(text, Signals()) for text in IN_SIX_LANGUAGES}) == 1


@pytest.mark.parametrize(("forced", "kind"), [(False, DecisionKind.REQUESTED), (True, DecisionKind.FORCED)])
def test_a_requested_mode_wins(forced: bool, kind: DecisionKind) -> None:
    chosen = route("x", Signals(requested=WorkflowMode.PLAN, forced=forced, has_plan=True))
    assert (chosen.mode, chosen.reason_code, chosen.decision_kind) == (WorkflowMode.PLAN, "explicit_request", kind)
    assert chosen.changes()["workflow_scheduled_next_mode"] == "execute"


def test_an_existing_plan_is_carried_out() -> None:
    chosen = route("go on", Signals(has_plan=True))
    assert (chosen.mode, chosen.reason_code) == (WorkflowMode.EXECUTE, "existing_plan_artifacts")


def test_a_failed_verification_is_named_as_the_reason() -> None:
    chosen = route(LONG, Signals(verification_pressure=True, mutating_history=True))
    assert chosen.reason_code == "verification_pressure_requires_plan"
    assert chosen.signals == ("verification pressure", "mutating history")


def test_scores_count_structure() -> None:
    assert (ambiguity("make it better"), ambiguity("see src/a.py"), ambiguity("see `f`")) == (0.2, 0.0, 0.0)
    assert complexity("- a\n- b\n") == 0.2
    assert complexity(LONG * 100) == 1.0


def test_a_huge_text_costs_no_more_than_a_short_one() -> None:
    text = "a/b " * 5_000_000
    began = time.perf_counter()
    route(text, Signals())
    assert time.perf_counter() - began < 0.05
