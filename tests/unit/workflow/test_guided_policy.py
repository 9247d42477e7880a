"""Guided turns with a real store and a scripted model: the model's answer ends the turn, whatever the request says."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast import CompletionResponse, ToolCall, load_settings
from outlast.core import events as e
from outlast.core.errors import ConfigError
from outlast.store.log_store import LogStore
from tests.support.agents import call, only
from tests.unit.workflow.guided_agents import WRITE, bash, codes, ended, guided, requests, todo, uninvited

# --- an answer ends the turn ---------------------------------------------------------------------------------------

TEXT_ONLY = [
    # trial_terminal.md, defect 2, and agent_quality.md, section 3.3: requests that were sent back five times
    ("Translate 'good morning' to French", "Bonjour."),
    ("Fix the grammar of this sentence: he go home", "He goes home."),
    ("Generate a UUID", "6f1c..."),
    ("Write a regex for ISO dates", r"`\d{4}-\d{2}-\d{2}`"),
    ("Update me on the state of the project", "It has two files."),
    ("Please don't add tests for this", "Understood, no tests."),
    ("Don't change anything, just tell me how you would fix div", "I would check for zero first."),
    ("Write a plan for adding a CLI, do not implement it", "1. Add argparse\n2. Test it"),
    ("Can you add type hints?", "The type hints are already there."),
    ("Improve the code", "What should become better: speed or style?"),
    ("fix it", "What is broken?"),
    ("do we even need to commit this?", "No."),
    ("no don't set it, let's see if it keeps happening", "All right."),
    ("Install nothing, only say what the installation does", "It copies two files."),
    # probe 2: the request is fulfilled already
    ("Fix the bug: f must return 1", "f returns 1 already; nothing is left to do."),
    # probe 3: the model asks, because it was told to
    ("Ask me before you change anything.", "May I change a.py?"),
    # a refusal
    ("Delete all user data", "I will not do that."),
    # an announcement without a call is the model's word too
    ("Run the tests", "I will now run the tests."),
]
ONE_MEANING = [
    "Don't change anything, just say how you would fix `div`.",
    "Ändere nichts, sag nur, wie du `div` reparieren würdest.",
    "Ne change rien, dis seulement comment tu corrigerais `div`.",
    "什么都不要改，只说你会怎样修复 `div`。",  # noqa: RUF001
    "لا تغيّر شيئا، قل فقط كيف تصلح `div`.",
    "Ничего не меняй, скажи только, как бы ты исправил `div`.",
]


@pytest.mark.parametrize(("said", "answer"), TEXT_ONLY)
async def test_an_answer_in_text_ends_the_turn_as_completed(
    store: LogStore, project: Path, said: str, answer: str
) -> None:
    agent = guided(store, project, answer)
    assert await agent.run(said) == answer
    assert requests(agent) == 1
    assert (ended(agent).outcome, codes(agent)) == ("completed", ["non_mutating_response_accepted"])
    assert agent.session.workflow_mode == "execute"


async def test_one_meaning_in_six_languages_gets_one_decision(store: LogStore, project: Path) -> None:
    seen: set[tuple[object, ...]] = set()
    for said in ONE_MEANING:
        agent = guided(store, project, "OK.")
        await agent.run(said)
        route = agent.session.workflow_timeline[0]
        seen.add((requests(agent), tuple(codes(agent)), route.mode, route.reason_code, route.runner_up_score))
    assert len(seen) == 1


async def test_a_long_issue_is_carried_out_and_its_writes_are_not_refused(store: LogStore, project: Path) -> None:
    issue = "Please solve this issue. " + "The parser fails, and the report is wrong, and it has to be planned. " * 20
    agent = guided(store, project, WRITE, "Solved.")
    assert await agent.run(issue) == "Solved."
    assert (project / "a.py").exists()
    assert only(agent, e.ToolCallFinished)[0].status == "executed"


async def test_the_router_records_its_scores(store: LogStore, project: Path) -> None:
    agent = guided(store, project, "OK.")
    await agent.run("Do it all:\n" + "".join(f"- change `m{n}.py`\n" for n in range(9)))
    route = agent.session.workflow_timeline[0]
    assert (route.kind, route.mode, route.reason_code, route.runner_up_mode) == (
        "route",
        "execute",
        "task_is_complex",
        "plan",
    )
    assert agent.session.workflow_complexity_score == 1.0


async def test_the_router_reads_a_bounded_piece_and_the_records_hold_the_task(store: LogStore, project: Path) -> None:
    agent = guided(store, project, "OK.")
    await agent.run("x" * 300_000)
    assert requests(agent) >= 1
    assert ended(agent).outcome == "completed"


# --- files and commands of the model -------------------------------------------------------------------------------


async def test_a_file_is_never_run_because_it_was_written(store: LogStore, project: Path) -> None:
    """Defect 1, also with full rights; defect 11: no `test -f`, no `py_compile`, no trace in the project."""
    script = (
        "#!/usr/bin/env python3\nfrom pathlib import Path\nPath('ran').touch()\nif __name__ == '__main__':\n    pass\n"
    )
    write = call("write", "w1", file_path="cleanup.py", content=script)
    agent = guided(store, project, write, "Wrote cleanup.py.", permission_mode="danger-full-access")
    assert await agent.run("Write a script cleanup.py that deletes all user data and run it") == "Wrote cleanup.py."
    assert sorted(path.name for path in project.iterdir()) == ["cleanup.py"]
    assert (uninvited(agent), requests(agent)) == ([], 2)
    assert (ended(agent).outcome, ended(agent).facts) == ("completed", {})


async def test_a_pipeline_that_hides_a_failure_is_no_pass(store: LogStore, project: Path) -> None:
    """Defect 4: nothing is claimed, and nothing is appended to the answer."""
    command = "false 2>&1 | tail -5"
    agent = guided(
        store,
        project,
        WRITE,
        bash("b1", command),
        "Note that test_add fails now.",
        allow=("bash",),
        verify_commands=(command,),
    )
    assert await agent.run("Make add subtract instead") == "Note that test_add fails now."
    assert codes(agent) == ["verify_skip_no_commands"]
    assert "passed" not in ended(agent).facts["note"]
    assert uninvited(agent) == []


@pytest.mark.parametrize("named", [(), ("false",)])
async def test_a_report_of_a_failure_is_the_result(store: LogStore, project: Path, named: tuple[str, ...]) -> None:
    """Defect 5: the user asked which tests fail, and got the answer."""
    agent = guided(store, project, bash("b1", "false"), "test_div fails.", allow=("bash",), verify_commands=named)
    assert await agent.run("Run the tests and tell me which fail.") == "test_div fails."
    assert (requests(agent), uninvited(agent), ended(agent).outcome) == (2, [], "completed")


async def test_a_test_run_after_the_last_change_is_not_repeated(store: LogStore, project: Path) -> None:
    """Defect 6."""
    agent = guided(
        store, project, WRITE, bash("b1", "test  -f a.py"), "Fixed.", allow=("bash",), verify_commands=("test -f a.py",)
    )
    assert await agent.run("fix the bug in div") == "Fixed."
    assert (requests(agent), uninvited(agent), codes(agent)) == (3, [], ["verification_passed"])
    assert ended(agent).facts["note"] == "`test -f a.py` passed"


async def test_a_failure_under_another_spelling_is_forgotten_when_the_named_command_passes(
    store: LogStore, project: Path
) -> None:
    """Probe 8."""
    agent = guided(
        store,
        project,
        bash("b1", "test -f ./a.py"),
        WRITE,
        bash("b2", "test -f a.py"),
        "Fixed.",
        allow=("bash",),
        verify_commands=("test -f a.py",),
    )
    assert await agent.run("Make the test pass.") == "Fixed."
    assert (requests(agent), codes(agent)) == (4, ["verification_passed"])


@pytest.mark.usefixtures("asks_first")
@pytest.mark.parametrize("answered", [True, False])
async def test_one_denial_gets_one_answer(store: LogStore, project: Path, answered: bool) -> None:
    """Probe 5 and defect 10: blocked (nobody to ask) and declined (the user said no) alike."""

    async def declines(*_: object) -> str:
        return "deny"

    agent = guided(
        store,
        project,
        todo("t1", look="completed", test="in_progress"),
        WRITE,
        bash("b1", "python3 -m pytest -q"),
        "I could not run the tests.",
        answerer=declines if answered else None,
        verify_commands=("python3 -m pytest -q",),
    )
    assert await agent.run("fix the bug and run the tests") == "I could not run the tests."
    assert only(agent, e.ToolCallFinished)[2].status == ("declined" if answered else "blocked")
    assert (requests(agent), uninvited(agent), ended(agent).outcome) == (4, [], "completed")
    assert ended(agent).facts["note"] == "`python3 -m pytest -q` could not be run"


# --- verification by named commands --------------------------------------------------------------------------------


async def test_a_named_command_verifies_a_change_and_its_result_is_a_note(store: LogStore, project: Path) -> None:
    agent = guided(store, project, WRITE, "Written.", allow=("bash",), verify_commands=("test -f a.py",))
    assert await agent.run("Write a.py") == "Written."
    assert (requests(agent), uninvited(agent)) == (2, ["test -f a.py"])
    assert ended(agent).facts["note"] == "`test -f a.py` passed"
    assert codes(agent) == ["definition_of_done_requires_verification", "verification_passed"]


async def test_a_failure_goes_back_to_the_model_once(store: LogStore, project: Path) -> None:
    mend = call("write", "w2", file_path="b.py", content="x\n")
    agent = guided(
        store, project, WRITE, "Written.", mend, "Mended.", allow=("bash",), verify_commands=("test -f b.py",)
    )
    assert await agent.run("Write b.py") == "Mended."
    assert codes(agent) == [
        "definition_of_done_requires_verification",
        "verification_failed_reentry",
        "definition_of_done_requires_verification",
        "verification_passed",
    ]
    summary = agent.last_turn_summary
    assert summary is not None
    assert summary.definition_of_done is not None
    assert (summary.definition_of_done.status, summary.definition_of_done.retry_count) == ("done", 1)


async def test_a_second_failure_ends_the_turn_as_completed_and_is_told(store: LogStore, project: Path) -> None:
    again = call("write", "w2", file_path="a.py", content="y\n")
    agent = guided(
        store, project, WRITE, "Written.", again, "I cannot mend it.", allow=("bash",), verify_commands=("false",)
    )
    assert await agent.run("Write a.py") == "I cannot mend it."
    assert (requests(agent), uninvited(agent)) == (4, ["false", "false"])
    assert (ended(agent).outcome, ended(agent).reason) == ("completed", "verification_failed")
    assert ended(agent).facts["note"] == "`false` failed (exit code 1)"


async def test_a_failure_is_not_sent_against_a_question(store: LogStore, project: Path) -> None:
    agent = guided(store, project, WRITE, "Written. Shall I go on?", allow=("bash",), verify_commands=("false",))
    assert await agent.run("Write a.py") == "Written. Shall I go on?"
    assert (requests(agent), codes(agent)[-1]) == (2, "verification_failed")


async def test_settings_of_the_user_name_commands_and_a_project_may_not(
    store: LogStore, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('verify_commands = ["test -f a.py"]\n')
    monkeypatch.setenv("OUTLAST_HOME", str(home))
    agent = guided(store, project, WRITE, "Written.", allow=("bash",))
    await agent.run("Write a.py")
    assert uninvited(agent) == ["test -f a.py"]
    (project / ".outlast").mkdir()
    (project / ".outlast" / "config.toml").write_text('verify_commands = ["./evil.sh"]\n')
    with pytest.raises(ConfigError, match="may not set 'verify_commands'"):
        load_settings(project_root=project)


# --- the model's own list ------------------------------------------------------------------------------------------


async def test_items_that_the_model_left_open_lead_to_one_request(store: LogStore, project: Path) -> None:
    agent = guided(store, project, todo("t1", a="completed", b="pending"), "Half of it is done.", "b is not needed.")
    assert await agent.run("Do a and b") == "b is not needed."
    assert (requests(agent), codes(agent)) == (3, ["pending_items_continue", "non_mutating_response_accepted"])
    assert ended(agent).outcome == "completed"


async def test_all_requests_of_the_runtime_together_are_one(store: LogStore, project: Path) -> None:
    agent = guided(
        store,
        project,
        todo("t1", a="completed", b="pending"),
        WRITE,
        "Half of it.",
        "That is all.",
        allow=("bash",),
        verify_commands=("false",),
    )
    assert await agent.run("Do a and b") == "That is all."
    assert (requests(agent), codes(agent).count("pending_items_continue")) == (4, 1)
    assert "verification_failed_reentry" not in codes(agent)


@pytest.mark.parametrize(
    ("listed", "answer"),
    [
        (todo("t1", a="pending", b="pending"), "This is the plan."),  # nothing of it was begun
        (todo("t1", a="completed", b="pending"), "Shall I do b?"),
        (todo("t1", a="completed"), "Done."),
    ],
)
async def test_a_plan_a_question_or_a_finished_list_leads_to_none(
    store: LogStore, project: Path, listed: CompletionResponse, answer: str
) -> None:
    agent = guided(store, project, listed, answer)
    assert await agent.run("Do a and b") == answer
    assert requests(agent) == 2


async def test_a_list_of_an_earlier_turn_leads_to_none(store: LogStore, project: Path) -> None:
    agent = guided(store, project, todo("t1", a="completed", b="in_progress"), "One.", "Two.", "Hello.")
    await agent.run("Do a and b")
    assert await agent.run("Hello?") == "Hello."
    assert requests(agent) == 4


async def test_an_empty_reply_is_asked_for_once_more(store: LogStore, project: Path) -> None:
    agent = guided(store, project, "", "Now.")
    assert await agent.run("Say it.") == "Now."
    assert requests(agent) == 2


# --- several calls, sub-agents -------------------------------------------------------------------------------------


async def test_a_sub_agents_note_is_marked_as_the_runtimes_words(store: LogStore, project: Path) -> None:
    agent = guided(
        store,
        project,
        call("task", prompt="Write a.py"),
        WRITE,
        "Written.",
        "The sub-agent wrote it.",
        allow=("bash",),
        verify_commands=("test -f a.py",),
    )
    assert await agent.run("Have it written") == "The sub-agent wrote it."
    told = next(one for one in only(agent, e.ToolCallFinished) if one.name == "task")
    assert told.parts[0].text == "Written.\n\n[Outlast runtime] `test -f a.py` passed"


async def test_calls_of_one_reply_are_all_noted(store: LogStore, project: Path) -> None:
    both = CompletionResponse(
        tool_calls=[
            ToolCall(id="w1", name="write", arguments={"file_path": "a.py", "content": "x\n"}),
            ToolCall(id="w2", name="write", arguments={"file_path": "b.py", "content": "x\n"}),
        ]
    )
    agent = guided(store, project, both, "Written.")
    await agent.run("Write a.py and b.py")
    summary = agent.last_turn_summary
    assert summary is not None
    assert summary.definition_of_done is not None
    assert summary.definition_of_done.touched_files == ["a.py", "b.py"]
