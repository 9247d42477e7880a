"""Effects of tool calls, and what the exit code of a command can prove."""

import pytest

from outlast.workflow.tool_effect import effect_of, is_change, is_conclusive, normal_command, relative

PROJECT = "/p/proj"


@pytest.mark.parametrize(
    "command",
    ["pytest -q", "cd sub && pytest -q", "pytest -q 2>&1", "pytest -q > out.txt", "pytest -k 'a and b'", "make test"],
)
def test_the_exit_code_of_one_command_or_a_chain_is_conclusive(command: str) -> None:
    assert is_conclusive(command)


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q 2>&1 | tail -5",
        "pytest -q | tee log",
        "pytest -q || true",
        "pytest -q; echo done",
        "set -o pipefail; pytest | tail",
        "pytest -q &",
        "pytest -q |& tail",
        "(pytest; true)",
        "! pytest -q",
        "pytest -q\ntrue",
        "pytest 'unclosed",
        "",
    ],
)
def test_the_exit_code_of_a_pipeline_or_a_list_proves_nothing(command: str) -> None:
    assert not is_conclusive(command)


@pytest.mark.parametrize(
    "command",
    [
        "sed -i s/a/b/ x",
        "echo x > a.txt",
        "cat a >> b",
        "rm -rf build",
        "cd x && mv a b",
        "git checkout -- a",
        "tee a <b",
    ],
)
def test_a_command_that_writes_is_a_change(command: str) -> None:
    assert is_change(command)


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "pytest 2>&1",
        "ls 2>/dev/null",
        "echo x > /dev/null",
        "git status",
        "grep rm a.py",
        "./all_tests.sh",
    ],
)
def test_a_test_or_a_reading_command_is_no_change(command: str) -> None:
    assert not is_change(command)


def test_a_write_names_the_file_that_the_result_names() -> None:
    work = effect_of("write", {"file_path": "x", "content": "a\nb\n"}, is_error=False, project=PROJECT)
    assert (work.touched, work.lines, work.changed) == (("x",), 2, True)
    named = effect_of("edit", {}, is_error=False, project=PROJECT, facts={"path": "/p/proj/a/b.py", "added": 4})
    assert (named.touched, named.lines) == (("a/b.py",), 4)
    assert not effect_of("write", {"file_path": "x"}, is_error=True, project=PROJECT).changed


def test_a_patch_or_a_sub_agent_may_name_several_files() -> None:
    paths = ["a.py", "/p/proj/b.py", "a.py"]
    for name, facts in (("apply_patch", {"paths": paths}), ("task", {"touched_files": paths})):
        assert effect_of(name, {}, is_error=False, project=PROJECT, facts=facts).touched == ("a.py", "b.py")


def test_what_a_sub_agent_changed_counts_even_if_it_failed_later() -> None:
    assert effect_of("task", {}, is_error=True, project=PROJECT, facts={"touched_files": ["a.py"]}).changed
    assert not effect_of("apply_patch", {}, is_error=True, project=PROJECT, facts={"paths": ["a.py"]}).changed


def test_a_background_job_has_no_outcome_yet() -> None:
    work = effect_of("bash", {"command": "pytest -q"}, is_error=False, project=PROJECT, facts={"job_id": "job-1"})
    assert work.command is None


def test_a_todo_list_is_split_into_open_and_completed_items() -> None:
    items = [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, {"content": "c"}, "x"]
    assert effect_of("todo", {"items": items}, is_error=False, project=PROJECT).items == (("b", "c"), ("a",))
    assert effect_of("todo", {"items": "a"}, is_error=False, project=PROJECT).items is None


def test_paths_inside_the_project_are_relative() -> None:
    assert relative("/p/proj/a/../b.py", PROJECT) == "b.py"
    assert relative("/etc/hosts", PROJECT) == "/etc/hosts"
    assert normal_command(" pytest \n  -q ") == "pytest -q"
