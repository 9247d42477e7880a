"""The recovery table, calls: started or not, approved or not, each by its own class."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import CompletionResponse, Role, ToolCall, open_store
from outlast.core import events as e
from outlast.core.messages import TextPart, text_of
from outlast.core.repair import OUTCOME_UNKNOWN
from outlast.runtime.tools.files.write_targets import joint_target, target_facts
from outlast.runtime.tools.port import Target
from outlast.runtime.turn.approvals import Question
from outlast.runtime.turn.tool_context import whereabouts
from outlast.store.log_store import LogStore
from tests.faults.old_events import ABSENT, Past, digest_of
from tests.faults.recovered import ASKED, BASH, EDIT, QUESTION, READ, TASK, WRITE, Recovered
from tests.support.agents import only


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def past(store: LogStore) -> Past:
    return Past(store)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    return folder


async def never(question: Question) -> str:
    raise AssertionError(f"asked again: {question}")


# --- calls that were not started


async def test_a_call_that_was_not_started_is_carried_out(past: Past, project: Path) -> None:
    past.calls(READ, BASH)
    recovered = Recovered(past, project, "Done.")
    await recovered.end()
    assert recovered.result(READ).status == "executed"
    assert recovered.witnessed == "ran\n"


async def test_a_call_that_was_not_started_is_judged_by_the_rules_of_this_process(past: Past, project: Path) -> None:
    past.calls(WRITE, BASH, ASKED)
    recovered = Recovered(past, project, "Not allowed.", mode="read-only")
    await recovered.end()
    assert recovered.result(WRITE).status == recovered.result(ASKED).status == "blocked"
    assert "throw-away copy" in text_of(recovered.result(BASH).parts)
    assert not (project / "b.txt").exists()
    assert recovered.witnessed == ""


async def test_an_answered_approval_stands(past: Past, project: Path) -> None:
    past.calls(ASKED)
    past.asked(ASKED, "once")
    recovered = Recovered(past, project, "Done.", answerer=never)
    await recovered.end()
    assert recovered.witnessed == "ran\n"
    assert len(only(recovered.agent, e.ApprovalRequested)) == 1


async def test_an_answered_approval_lifts_its_wall_and_no_other_in_the_process_that_goes_on(
    past: Past, project: Path
) -> None:
    named, other = project.parent / "named", project.parent / "other"
    named.mkdir()
    other.mkdir()
    command = f"touch {named}/made; touch {other}/made; echo ran >> witness.txt"
    wider = ToolCall(id="q", name="bash", arguments={"command": command, "needs": [f"write:{named}"]})
    past.calls(wider)
    past.asked(wider, "once")
    recovered = Recovered(past, project, "Done.", answerer=never)
    await recovered.end()
    assert recovered.witnessed == "ran\n"
    assert recovered.result(wider).facts["lifted"] == [f"write:{named}"]
    assert (named / "made").exists()
    assert not (other / "made").exists()


async def test_a_refusal_stands(past: Past, project: Path) -> None:
    past.calls(ASKED)
    past.asked(ASKED, "deny")
    recovered = Recovered(past, project, "As you like.", answerer=never)
    await recovered.end()
    assert recovered.result(ASKED).status == "declined"
    assert recovered.witnessed == ""


async def test_an_answered_approval_does_not_stand_above_a_lower_ceiling(past: Past, project: Path) -> None:
    past.calls(ASKED)
    past.asked(ASKED, "once")
    recovered = Recovered(past, project, "Not allowed.", mode="read-only")
    await recovered.end()
    assert recovered.result(ASKED).status in {"blocked", "declined"}
    assert recovered.witnessed == ""


async def test_under_a_lower_ceiling_somebody_who_is_here_is_asked_again(past: Past, project: Path) -> None:
    past.calls(ASKED)
    earlier = past.asked(ASKED, "once")
    questions: list[int] = []

    async def no(question: Question) -> str:
        questions.append(question.seq)
        return "deny"

    recovered = Recovered(past, project, "As you like.", mode="read-only", answerer=no)
    await recovered.end()
    assert questions != [earlier]
    assert recovered.result(ASKED).status in {"blocked", "declined"}
    assert recovered.witnessed == ""


async def test_an_approval_of_other_arguments_counts_for_nothing(past: Past, project: Path) -> None:
    past.calls(ASKED)
    past.asked(ToolCall(id=ASKED.id, name="bash", arguments={**ASKED.arguments, "command": "true"}), "once")
    recovered = Recovered(past, project, "Not allowed.")
    await recovered.end()
    assert recovered.result(ASKED).status in {"declined", "blocked"}
    assert recovered.witnessed == ""


async def test_an_open_approval_is_asked_again_and_not_anew(past: Past, project: Path) -> None:
    past.calls(ASKED)
    seq = past.asked(ASKED)
    questions: list[int] = []

    async def answered(question: Question) -> str:
        questions.append(question.seq)
        return "once"

    recovered = Recovered(past, project, "Done.", answerer=answered)
    await recovered.end()
    assert questions == [seq]
    assert len(only(recovered.agent, e.ApprovalRequested)) == 1
    assert recovered.witnessed == "ran\n"


async def test_an_open_approval_waits_for_any_door(past: Past, project: Path) -> None:
    past.calls(ASKED)
    seq = past.asked(ASKED)
    recovered = Recovered(past, project, "Done.")
    running = asyncio.ensure_future(recovered.agent.resume())
    await asyncio.wait([running], timeout=0.2)
    assert not running.done()
    await recovered.agent.service.answer(past.session_id, seq, "once")
    assert await running == "Done."
    assert recovered.witnessed == "ran\n"


# --- calls that were started


async def test_a_read_that_was_started_runs_again(past: Past, project: Path) -> None:
    past.calls(READ)
    past.started(READ, e.EffectClass.READ)
    recovered = Recovered(past, project, "Done.")
    await recovered.end()
    assert "hello" in text_of(recovered.result(READ).parts)
    assert len(only(recovered.agent, e.ToolCallStarted)) == 1


async def test_a_write_that_is_there_as_intended_is_finished(past: Past, project: Path) -> None:
    (project / "b.txt").write_text("new\n")
    past.calls(WRITE)
    past.writing(WRITE, ABSENT, digest_of("new\n"))
    before = (project / "b.txt").stat()
    recovered = Recovered(past, project, "Done.")
    await recovered.end()
    assert recovered.result(WRITE).status == "recovered"
    assert not recovered.result(WRITE).is_error
    assert (project / "b.txt").stat().st_ino == before.st_ino, "it was written again"


@pytest.mark.parametrize("there", [None, "old\n"])
async def test_a_write_whose_target_is_as_before_is_carried_out(past: Past, project: Path, there: str | None) -> None:
    call = WRITE if there is None else EDIT
    if there is not None:
        (project / "b.txt").write_text(there)
    past.calls(call)
    past.writing(call, ABSENT if there is None else digest_of(there), digest_of("new\n"))
    recovered = Recovered(past, project, "Done.")
    await recovered.end()
    assert recovered.result(call).status == "executed"
    assert (project / "b.txt").read_text() == "new\n"


@pytest.mark.parametrize("mode", ["read-only", "prompt"])
async def test_a_write_whose_target_is_as_before_is_not_carried_out_above_a_lower_ceiling(
    past: Past, project: Path, mode: str
) -> None:
    past.calls(WRITE)
    past.writing(WRITE, ABSENT, digest_of("new\n"))
    recovered = Recovered(past, project, "Not allowed.", mode=mode)
    await recovered.end()
    assert recovered.result(WRITE).is_error
    assert not (project / "b.txt").exists()


@pytest.mark.parametrize("there", ["someone else's\n", None])
async def test_a_write_whose_target_is_anything_else_is_unknown_and_left_alone(
    past: Past, project: Path, there: str | None
) -> None:
    if there is not None:
        (project / "b.txt").write_text(there)
    past.calls(EDIT)
    past.writing(EDIT, digest_of("old\n"), digest_of("new\n"))
    recovered = Recovered(past, project, "Let me look.")
    await recovered.end()
    assert recovered.result(EDIT).status == "unknown"
    assert text_of(recovered.result(EDIT).parts) == OUTCOME_UNKNOWN
    assert (project / "b.txt").exists() == (there is not None)


@pytest.mark.parametrize(("there", "status", "left"), [(False, "executed", True), (True, "unknown", False)])
async def test_a_write_that_was_started_at_another_place_is_unknown_and_not_carried_out_here(
    past: Past, project: Path, there: bool, status: str, left: bool
) -> None:
    """The target is as before, here: that says nothing about the disk of the machine that had begun."""
    past.calls(WRITE, BASH)
    past.writing(WRITE, ABSENT, digest_of("new\n"), place=f"elsewhere:{project}" if there else whereabouts(project))
    past.started(BASH)
    recovered = Recovered(past, project, "Let me look.")
    await recovered.end()
    assert recovered.result(WRITE).status == status
    assert (project / "b.txt").exists() == left
    assert recovered.result(BASH).status == "unknown"


async def test_a_write_whose_target_became_a_pipe_is_unknown_and_hangs_nobody(past: Past, project: Path) -> None:
    os.mkfifo(project / "b.txt")
    past.calls(WRITE)
    past.writing(WRITE, ABSENT, digest_of("new\n"))
    recovered = Recovered(past, project, "Let me look.")
    await recovered.end()
    assert recovered.result(WRITE).status == "unknown"


PATCH = ToolCall(
    id="p",
    name="apply_patch",
    arguments={
        "patch": "*** Begin Patch\n*** Add File: new.txt\n+new\n*** Update File: a.txt\n@@\n-hello\n+bye\n"
        "*** Delete File: old.txt\n*** End Patch"
    },
)
FILES = {"new.txt": (None, "new\n"), "a.txt": ("hello\n", "bye\n"), "old.txt": ("old\n", None)}


@pytest.mark.parametrize("done", range(len(FILES) + 1))
async def test_a_patch_of_several_files_goes_by_all_of_them(past: Past, project: Path, done: int) -> None:
    """The process died after `done` files. None: it is carried out; all: it is told as done; else: unknown."""

    def digest(text: str | None) -> str:
        return ABSENT if text is None else digest_of(text)

    targets: list[Target] = []
    for n, (path, (before, after)) in enumerate(FILES.items()):
        kept = None if before is None else before.encode()
        targets.append(Target(path=path, digest_before=digest(before), digest_after=digest(after), before=kept))
        there = after if n < done else before
        (project / path).unlink(missing_ok=True)
        if there is not None:
            (project / path).write_text(there)
    joint = joint_target(targets)
    past.calls(PATCH)
    past.started(
        PATCH,
        e.EffectClass.VERIFIABLE,
        target_digest_before=joint.digest_before,
        target_digest_after=joint.digest_after,
        facts={**target_facts(joint), "place": whereabouts(project)},
    )
    left = {path: (project / path).exists() for path in FILES}
    recovered = Recovered(past, project, "Done.", apply_patch=True)
    await recovered.end()
    result = recovered.result(PATCH)
    assert result.status == {0: "executed", 3: "recovered"}.get(done, "unknown")
    if result.status == "unknown":
        text = text_of(result.parts)
        assert f"Changed as asked: {', '.join(list(FILES)[:done])}. " in text.replace(
            "; Not changed:", ". Not changed:"
        )
        assert f"Not changed: {', '.join(list(FILES)[done:])}. " in text
        assert {path: (project / path).exists() for path in FILES} == left
    else:
        assert (project / "a.txt").read_text() == "bye\n"
        assert not (project / "old.txt").exists()


async def test_a_command_that_was_started_is_told_as_unknown_and_never_run_again(past: Past, project: Path) -> None:
    past.calls(BASH)
    past.started(BASH)
    recovered = Recovered(past, project, "Let me look.")
    await recovered.end()
    assert recovered.result(BASH).status == "unknown"
    assert recovered.witnessed == ""
    told = [message for message in recovered.backend.requests[0].messages if message.role is Role.TOOL]
    assert OUTCOME_UNKNOWN in told[0].tool_results[0].content


async def test_each_of_several_open_calls_goes_by_its_own_class_and_finished_ones_are_kept(
    past: Past, project: Path
) -> None:
    first = ToolCall(id="f", name="bash", arguments={"command": "echo first >> witness.txt"})
    past.calls(first, READ, BASH, WRITE)
    past.started(first)
    past.finished(first, "said before")
    past.started(READ, e.EffectClass.READ)
    past.started(BASH)
    recovered = Recovered(past, project, "Done.")
    await recovered.end()
    assert text_of(recovered.result(first).parts) == "said before"
    statuses = [recovered.result(call).status for call in (READ, BASH, WRITE)]
    assert statuses == ["executed", "unknown", "executed"]
    assert recovered.witnessed == ""


@pytest.mark.parametrize("workflow", ["plain", "guided"])
async def test_a_verification_command_that_was_started_is_not_run_again(
    past: Past, project: Path, workflow: str
) -> None:
    check = ToolCall(id="verify-1-1-1", name="bash", arguments=BASH.arguments)
    past.turn()
    past.reply(TextPart("It is done."))
    past.decided("verify", "definition_of_done_requires_verification")
    past.driver(
        e.RuntimeStateChanged(changes={"workflow": workflow}),
        e.DefinitionOfDoneUpdated(
            definition={
                "task_statement": "Do it.",
                "status": "verifying",
                "mutating_actions": ["write: a.txt"],
                "verification_commands": [BASH.arguments["command"]],
                "active_verification_attempt_id": "attempt-1",
                "active_verification_attempt_number": 1,
            }
        ),
    )
    past.started(check)
    recovered = Recovered(past, project, "It could not be verified.", "It could not be verified.")
    await recovered.end()
    assert recovered.result(check).status == "unknown"
    assert recovered.witnessed == ""


# --- sub-agents and questions


async def test_an_open_task_is_resumed_in_the_child_session_it_began(past: Past, project: Path) -> None:
    past.calls(TASK)
    past.started(TASK)
    recovered = Recovered(past, project, "It is three.", "Three, says the sub-agent.")
    assert await recovered.end() == "Three, says the sub-agent."
    assert text_of(recovered.result(TASK).parts) == "It is three."


async def test_the_same_call_id_in_another_reply_is_another_task(past: Past, project: Path) -> None:
    again = ToolCall(id=TASK.id, name="task", arguments={"prompt": "Count again."})
    replies = [CompletionResponse(tool_calls=[TASK]), "Three.", CompletionResponse(tool_calls=[again]), "Four.", "Ok."]
    recovered = Recovered(past, project, *replies)
    assert await recovered.agent.resume() == "Ok."
    told = [text_of(event.parts) for event in only(recovered.agent, e.ToolCallFinished)]
    assert told == ["Three.", "Four."]


async def test_a_question_that_is_open_still_waits_for_its_answer(past: Past, project: Path) -> None:
    past.calls(QUESTION)
    past.started(QUESTION, e.EffectClass.READ)
    seq = past.asked(ToolCall(id="u", name="ask_user", arguments={"question": "Which colour?", "choices": []}))
    asked: list[int] = []

    async def green(question: Question) -> str:
        asked.append(question.seq)
        return "green"

    recovered = Recovered(past, project, "Green it is.", answerer=green)
    await recovered.end()
    assert asked == [seq]
    assert text_of(recovered.result(QUESTION).parts) == "green"
