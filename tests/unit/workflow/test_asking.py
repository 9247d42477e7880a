"""What tasks ask for, and what their answers lack."""

from typing import Any

import msgspec
import pytest

from outlast.core.workflow_records import DefinitionOfDone
from outlast.workflow.definition_of_done import missing_evidence
from outlast.workflow.text_signals import actions, hands_back, is_broad, is_informational, wants_an_install

INFORMATIONAL = [
    "What does this project do?",
    "How do I run the tests?",
    "Explain how to add a route",
    "Please explain the build",
    "Show me how to create a file",
    "Could you describe the architecture?",
    "Summarize README.md",
    "Read notes.txt and tell me what it says",
    "Is there a test for the parser?",
    "Write a short release-note style summary of what Loader does well.",
    "Write a haiku about rain",
    "Do you like Python?",
    "hi",
    "thanks!",
    "",
    "Was macht dieses Projekt?",
]
WORK = [
    "Create hello.txt in the workspace root.",
    "Can you create foo.txt?",
    "Please fix the bug",
    "Do the rest of it",
    "Explain the bug, then fix it",
    "What is in foo.py? Update it.",
    "I want you to add logging",
    "Write a summary to docs/summary.md",
    "Write a list of names to a file",
    "Run the tests",
    "The build is broken",
    "Refactor the entire codebase",
]


@pytest.mark.parametrize("task", INFORMATIONAL)
def test_questions_ask_to_be_told_something(task: str) -> None:
    assert is_informational(task)


@pytest.mark.parametrize("task", WORK)
def test_work_is_recognised(task: str) -> None:
    assert not is_informational(task)
    assert actions(task)


@pytest.mark.parametrize(
    ("answer", "worked", "does"),
    [
        ("You will need to run `pip install x`.", False, True),
        ("Please run the following command:", False, True),
        ("You can now run `python app.py`.", False, True),
        ("You can now run `python app.py`.", True, False),
        ("Would you like me to proceed?", True, True),
        ("Next, I'll create the file.", True, True),
        ("Would you like me to also add tests?", True, False),
        ("Done: the file is written.", False, False),
    ],
)
def test_answers_that_hand_the_step_back(answer: str, worked: bool, does: bool) -> None:
    assert hands_back(answer, worked=worked) is does


def test_broad_tasks_and_installs_are_recognised() -> None:
    assert is_broad("Format the whole project")
    assert is_broad("rename it everywhere")
    assert not is_broad("Format a.py")
    assert wants_an_install("Install requests")
    assert not wants_an_install("Create hello.txt")


def done(**facts: Any) -> DefinitionOfDone:
    return msgspec.structs.replace(DefinitionOfDone(task_statement="t"), **facts)


CHANGED = {"mutating_actions": ["write: a"]}


@pytest.mark.parametrize(
    ("task", "answer", "given", "performed", "missing"),
    [
        ("What is it?", "A thing.", done(pending_items=["x"]), 0, []),
        ("Create hello.txt", "ok", done(**CHANGED), 1, []),
        ("Create hello.txt", "ok", done(), 1, ["showing the requested work was actually carried out"]),
        ("Create hello.txt", "ok", done(**CHANGED, pending_items=["second"]), 1, ["the open item: second"]),
        ("Install requests", "ok", done(successful_commands=["ls"]), 3, ["a successful installation command"]),
        ("Install requests", "ok", done(successful_commands=["pip install requests"]), 1, []),
        ("Add it and run the tests", "ok", done(**CHANGED), 1, ["a command that shows that it works"]),
        ("Add it and run the tests", "ok", done(**CHANGED, successful_commands=["pytest -q"]), 1, []),
        ("Add it and verify it", "ok", done(**CHANGED), 1, []),
        (
            "Add it and run the tests",
            "ok",
            done(**CHANGED, verification_commands=["pytest -q"]),
            1,
            ["a passing verification result from `pytest -q`"],
        ),
        (
            "Add it",
            "ok",
            done(**CHANGED, failed_commands=["pytest -q", "ls nothing"]),
            1,
            ["a passing verification result from `pytest -q`"],
        ),
        (
            "Format the whole project",
            "ok",
            done(**CHANGED),
            2,
            ["work across the whole project (only 2 actions so far)"],
        ),
        ("Format the whole project", "ok", done(**CHANGED), 3, []),
        (
            "Create hello.txt",
            "Should I proceed?",
            done(**CHANGED),
            1,
            ["doing the step itself instead of handing it back to the user"],
        ),
    ],
)
def test_the_evidence_an_answer_lacks(
    task: str, answer: str, given: DefinitionOfDone, performed: int, missing: list[str]
) -> None:
    assert [item.summary for item in missing_evidence(task, answer, given, performed)] == missing


def test_a_failing_check_is_evidence_of_its_own_kind() -> None:
    found = missing_evidence("Add it", "ok", done(**CHANGED, failed_commands=["pytest -q"]), 1)
    assert (found[0].category, found[0].status, found[0].subject) == ("verification", "failed", "pytest -q")


def test_a_very_long_text_is_judged_quickly() -> None:
    long = "next, i'll create " * 50_000
    assert hands_back(long, worked=True) in (True, False)
    assert isinstance(actions(long), list)
