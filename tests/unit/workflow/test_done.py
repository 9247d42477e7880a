"""The definition of done: what work adds to it, how verification moves it."""

import pytest

from outlast.core.workflow_mode import WorkflowMode
from outlast.core.workflow_records import DefinitionOfDone, TaskSize, VerificationEvidence
from outlast.workflow.artifacts import Brief, WorkPlan
from outlast.workflow.definition_of_done import (
    MAX_EVIDENCE,
    MAX_OUTPUT,
    begun,
    entered,
    failed,
    finished,
    fixing,
    next_command,
    observations,
    observed,
    passed,
    size_of,
    verifying,
    worked,
)
from outlast.workflow.tool_effect import ToolEffect, relative, work_of

TASK = "Create hello.txt in the workspace root."


def wrote(path: str, content: str = "x\n", *, is_error: bool = False) -> ToolEffect:
    return work_of("write", {"file_path": path, "content": content}, is_error=is_error, project="/p/proj")


def ran(command: str, exit_code: int = 0) -> ToolEffect:
    facts = {"exit_code": exit_code}
    return work_of("bash", {"command": command}, is_error=exit_code != 0, project="/p/proj", facts=facts)


def shown(command: str, exit_code: int) -> VerificationEvidence:
    return VerificationEvidence(command=command, passed=exit_code == 0, exit_code=exit_code)


@pytest.mark.parametrize(
    ("files", "lines", "size"),
    [
        (0, 0, TaskSize.SMALL),
        (3, 99, TaskSize.SMALL),
        (3, 100, TaskSize.STANDARD),
        (4, 1, TaskSize.STANDARD),
        (15, 499, TaskSize.STANDARD),
        (15, 500, TaskSize.LARGE),
        (16, 1, TaskSize.LARGE),
    ],
)
def test_task_size(files: int, lines: int, size: TaskSize) -> None:
    assert size_of(files, lines) is size


def test_a_definition_begins_with_the_criteria_of_plan_and_brief() -> None:
    brief = Brief(task=TASK, acceptance_criteria=["b", "both"])
    plan = WorkPlan(task=TASK, acceptance_criteria=["p", "both"], verification_commands=["pytest -q"])
    done = begun(TASK, WorkflowMode.EXECUTE, brief=brief, plan=plan)
    assert done.acceptance_criteria == ["p", "both", "b"]
    assert done.verification_commands == done.planned_commands == ["pytest -q"]
    assert (done.status, done.mode_history, done.retry_budget) == ("draft", ["execute"], 3)


def test_a_write_touches_a_file_and_counts_its_lines() -> None:
    done = worked(begun(TASK, WorkflowMode.EXECUTE), wrote("/p/proj/hello.txt", "a\nb\n"))
    assert done.touched_files == ["hello.txt"]
    assert done.mutating_actions == ["write: hello.txt"]
    assert (done.line_changes, done.task_size, done.status) == (2, "small", "in_progress")


def test_a_failed_write_is_no_work() -> None:
    start = begun(TASK, WorkflowMode.EXECUTE)
    assert worked(start, wrote("hello.txt", is_error=True)) == start


def test_an_edit_counts_the_larger_side_unless_the_tool_counted() -> None:
    arguments = {"file_path": "a.py", "old_string": "1\n2\n3", "new_string": "1"}
    assert work_of("edit", arguments, is_error=False, project="/p").lines == 3
    assert work_of("edit", arguments, is_error=False, project="/p", facts={"added": 40, "removed": 2}).lines == 40


def test_a_patch_counts_all_its_files() -> None:
    facts = {"paths": ["a.py", "sub/b.py"], "added": 3, "removed": 1}
    effect = work_of("apply_patch", {"patch": "..."}, is_error=False, project="/p", facts=facts)
    assert (effect.touched, effect.changed, effect.lines) == (("a.py", "sub/b.py"), True, 3)
    failed = work_of("apply_patch", {"patch": "..."}, is_error=True, project="/p")
    assert (failed.touched, failed.changed) == ((), False)


def test_commands_are_kept_by_their_last_outcome() -> None:
    done = worked(begun(TASK, WorkflowMode.EXECUTE), ran("pytest -q", 1))
    assert (done.failed_commands, done.successful_commands) == (["pytest -q"], [])
    done = worked(done, ran("pytest -q"))
    assert (done.failed_commands, done.successful_commands) == ([], ["pytest -q"])
    assert not done.mutated


def test_a_command_that_changes_something_is_a_mutation_without_a_file() -> None:
    done = worked(begun(TASK, WorkflowMode.EXECUTE), ran("mkdir build"))
    assert done.mutated
    assert done.touched_files == []


def test_a_background_job_has_shown_nothing_yet() -> None:
    work = work_of("bash", {"command": "pytest -q"}, is_error=False, project="/p", facts={"job_id": "job-1"})
    assert worked(begun(TASK, WorkflowMode.EXECUTE), work).successful_commands == []


def test_reading_is_no_work() -> None:
    start = begun(TASK, WorkflowMode.EXECUTE)
    assert worked(start, work_of("read", {"file_path": "a"}, is_error=False, project="/p")) == start


def test_the_todo_list_gives_the_items() -> None:
    items = [
        "one",
        {"content": "two", "status": "in_progress"},
        {"text": "three", "done": True},
        {"title": "four"},
        5,
        {},
    ]
    done = worked(begun(TASK, WorkflowMode.EXECUTE), work_of("todo", {"items": items}, is_error=False, project="/p"))
    assert done.pending_items == ["one", "two", "four"]
    assert done.completed_items == ["three"]
    assert work_of("todo", {"items": "text"}, is_error=False, project="/p").items is None


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/p/proj/a/b.py", "a/b.py"),
        ("a/../b.py", "b.py"),
        ("./b.py", "b.py"),
        ("/p/proj-evil/b.py", "/p/proj-evil/b.py"),
        ("../x", "/p/x"),
        ("", ""),
    ],
)
def test_paths_are_seen_from_the_project(path: str, seen: str) -> None:
    assert relative(path, "/p/proj") == seen


def test_an_attempt_runs_its_commands_one_after_the_other() -> None:
    done = verifying(worked(begun(TASK, WorkflowMode.EXECUTE), wrote("a")), ["one", "two"])
    assert (done.status, done.current_mode, done.active_verification_attempt_id) == ("verifying", "verify", "attempt-1")
    assert next_command(done) == "one"
    done = observed(done, shown("one", 0))
    assert next_command(done) == "two"
    done = observed(done, shown("two", 1))
    assert next_command(done) is None
    assert [item.status for item in observations(done)] == ["passed", "failed"]
    assert [item.attempt_number for item in done.of_attempt()] == [1, 1]


def test_a_later_attempt_supersedes_an_older_one() -> None:
    done = verifying(begun(TASK, WorkflowMode.EXECUTE), ["one"])
    done = fixing(observed(done, shown("one", 1)))
    assert (done.status, done.retry_count, done.current_mode) == ("fixing", 1, "execute")
    done = verifying(done, ["one"])
    seen = observations(done)[0]
    assert (seen.status, seen.attempt_id, seen.supersedes) == ("pending", "attempt-2", "attempt-1")
    done = passed(observed(done, shown("one", 0)))
    assert observations(done)[0].status == "passed"
    assert (done.status, done.confidence, done.last_verification_result) == ("done", "high", "passed")
    assert done.mode_history == ["execute", "verify", "execute", "verify"]


def test_a_change_after_a_pass_makes_it_stale() -> None:
    done = passed(observed(verifying(begun(TASK, WorkflowMode.EXECUTE), ["one"]), shown("one", 0)))
    done = worked(done, wrote("a"))
    assert done.last_verification_result == "stale"
    assert observations(done)[0].status == "stale"


def test_without_an_attempt_evidence_is_missing_and_what_cannot_run_is_skipped() -> None:
    start = DefinitionOfDone(task_statement=TASK, verification_commands=["one"])
    assert observations(start)[0].status == "missing"
    done = verifying(start, ["one"])
    done = observed(done, VerificationEvidence(command="one", skipped=True, exit_code=127))
    assert observations(done)[0].status == "skipped"


def test_repeating_an_observation_replaces_it() -> None:
    done = observed(verifying(begun(TASK, WorkflowMode.EXECUTE), ["one"]), shown("one", 1))
    assert [item.passed for item in observed(done, shown("one", 0)).evidence] == [True]


def test_evidence_is_bounded() -> None:
    done = verifying(begun(TASK, WorkflowMode.EXECUTE), [str(n) for n in range(40)])
    for n in range(40):
        done = observed(done, VerificationEvidence(command=str(n), stdout="x" * 10_000, stderr="é" * 10_000))
    assert len(done.evidence) == MAX_EVIDENCE
    assert len(done.evidence[0].stdout) < MAX_OUTPUT + 40


def test_a_definition_can_end_failed_or_unverified() -> None:
    start = begun(TASK, WorkflowMode.EXECUTE)
    assert (failed(start).status, failed(start).confidence) == ("failed", "low")
    assert (finished(start).status, finished(start).last_verification_result) == ("done", "skipped")
    assert entered(start, WorkflowMode.EXECUTE) is start
