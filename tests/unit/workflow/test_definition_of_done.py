"""The definition of done: what work adds to it, and how evidence gets stale."""

import pytest

from outlast.core.workflow_mode import WorkflowMode
from outlast.core.workflow_records import DefinitionOfDone, EvidenceStatus, TaskSize
from outlast.runtime.tools.port import ToolOutcome
from outlast.workflow.artifacts import Brief, WorkPlan
from outlast.workflow.definition_of_done import (
    MAX_EVIDENCE,
    MAX_OUTPUT,
    begun,
    evidence_of,
    finished,
    next_command,
    observations,
    observed,
    planned,
    result_of,
    size_of,
    verification_note,
    verifying,
    worked,
)
from outlast.workflow.tool_effect import ToolEffect, effect_of

TASK = "Create hello.txt in the workspace root."
TESTS, LINT, PIPE = "pytest -q", "ruff check .", "pytest | tail"


def start(*commands: str) -> DefinitionOfDone:
    return begun(TASK, WorkflowMode.EXECUTE, commands=commands)


def wrote(path: str = "a.py", content: str = "x\n") -> ToolEffect:
    return effect_of("write", {"file_path": path, "content": content}, is_error=False, project="/p")


def saw(done: DefinitionOfDone, command: str, code: int | None, *, by_model: bool = False) -> DefinitionOfDone:
    status = "blocked" if code is None else "executed"
    outcome = ToolOutcome(text="out", facts={} if code is None else {"exit_code": code})
    return observed(done, evidence_of(command, outcome, status, by_model=by_model))


@pytest.mark.parametrize(
    ("files", "lines", "size"),
    [
        (0, 0, TaskSize.SMALL),
        (3, 99, TaskSize.SMALL),
        (3, 100, TaskSize.STANDARD),
        (15, 499, TaskSize.STANDARD),
        (15, 500, TaskSize.LARGE),
        (16, 1, TaskSize.LARGE),
    ],
)
def test_task_size(files: int, lines: int, size: TaskSize) -> None:
    assert size_of(files, lines) is size


def test_a_definition_begins_with_the_criteria_and_the_commands_that_are_named() -> None:
    brief = Brief(task=TASK, acceptance_criteria=["b", "both"])
    plan = WorkPlan(task=TASK, acceptance_criteria=["p", "both"], verification_commands=[TESTS])
    done = begun(TASK, WorkflowMode.EXECUTE, brief=brief, plan=plan, commands=[" pytest   -q", LINT])
    assert done.acceptance_criteria == ["p", "both", "b"]
    assert done.verification_commands == [TESTS, LINT]
    assert done.planned_commands == [TESTS]


def test_a_plan_that_is_approved_in_the_turn_brings_its_commands() -> None:
    plan = WorkPlan(task=TASK, acceptance_criteria=["p"], verification_commands=[LINT])
    done = planned(begun(TASK, WorkflowMode.PLAN, commands=[TESTS]), plan)
    assert (done.verification_commands, done.mode_history) == ([LINT, TESTS], ["plan", "execute"])


def test_without_a_named_command_nothing_is_ever_run() -> None:
    done = worked(start(), wrote("clean.sh", "#!/bin/sh\nrm -rf /\n"))
    assert done.mutated
    assert next_command(done) is None
    assert verification_note(done) == ""


def test_a_pipeline_is_never_run_as_a_check() -> None:
    done = worked(start(PIPE), wrote())
    assert next_command(done) is None
    assert result_of(done) is EvidenceStatus.SKIPPED
    assert "proves nothing" in verification_note(done)


def test_evidence_counts_until_the_next_change() -> None:
    done = saw(worked(start(TESTS), wrote()), TESTS, 0, by_model=True)
    assert next_command(done) is None
    assert result_of(done) is EvidenceStatus.PASSED
    again = worked(done, wrote("b.py"))
    assert next_command(again) == TESTS
    assert again.active_verification_attempt_id != done.active_verification_attempt_id
    assert observations(again)[0].status == "stale"


def test_a_test_before_the_first_change_is_no_evidence_for_it() -> None:
    assert next_command(worked(saw(start(TESTS), TESTS, 1), wrote())) == TESTS


@pytest.mark.parametrize(
    ("codes", "result"),
    [
        ((0, 0), EvidenceStatus.PASSED),
        ((0, 1), EvidenceStatus.FAILED),
        ((0, None), EvidenceStatus.PASSED),
        ((127, None), EvidenceStatus.SKIPPED),
    ],
)
def test_the_result_of_an_attempt(codes: tuple[int | None, int | None], result: EvidenceStatus) -> None:
    done = verifying(worked(start(TESTS, LINT), wrote()))
    for command, code in zip((TESTS, LINT), codes, strict=True):
        assert next_command(done) == command
        done = saw(done, command, code)
    assert next_command(done) is None
    assert result_of(done) is result


def test_the_note_says_what_each_named_command_showed() -> None:
    done = saw(saw(worked(start(TESTS, LINT, "mypy"), wrote()), TESTS, 0), LINT, 2)
    assert verification_note(done) == "`pytest -q` passed; `ruff check .` failed (exit code 2); `mypy` could not be run"


def test_evidence_is_bounded() -> None:
    text = "x" * (3 * MAX_OUTPUT)
    evidence = evidence_of(TESTS, ToolOutcome(text=text, facts={"exit_code": 1}), "failed", by_model=False)
    assert len(evidence.stdout) < MAX_OUTPUT + 50
    done = start(TESTS)
    for n in range(2 * MAX_EVIDENCE):
        done = saw(worked(done, wrote(f"{n}.py")), TESTS, 0)
    assert len(done.evidence) == MAX_EVIDENCE


@pytest.mark.parametrize(
    ("result", "status", "confidence"),
    [
        (EvidenceStatus.PASSED, "done", "high"),
        (EvidenceStatus.FAILED, "failed", "low"),
        (EvidenceStatus.SKIPPED, "done", "medium"),
    ],
)
def test_a_finished_definition_says_how_sure_it_is(result: EvidenceStatus, status: str, confidence: str) -> None:
    done = finished(start(), result)
    assert (done.status, done.confidence, done.last_verification_result) == (status, confidence, str(result))
