"""The completion policy: every code, and the two anchors of seed 000."""

from typing import Any

import msgspec
import pytest

from outlast.core.messages import ToolCall
from outlast.core.record_storage import dump, load
from outlast.core.workflow_mode import WorkflowMode
from outlast.core.workflow_records import (
    DefinitionOfDone,
    EntryKind,
    VerificationEvidence,
    WorkflowTimelineEntry,
    completion_trace,
)
from outlast.workflow.completion import MAX_EMPTY, MAX_NUDGES, CompletionFacts, decide
from outlast.workflow.completion_decision import (
    CODES,
    PHASE_REASONS,
    REMARKS,
    CompletionAction,
    CompletionDecision,
    CompletionOutcome,
    CompletionStage,
)
from outlast.workflow.definition_of_done import begun, fixing, observed, verifying, worked
from outlast.workflow.tool_effect import work_of
from outlast.workflow.verification import ProjectCommands, commands_for, evidence_of

TASK = "Create hello.txt in the workspace root."
REPLY = "The file is written."
CALL = '<tool_call>{"name": "read", "arguments": {"file_path": "a"}}</tool_call>'
START = begun(TASK, WorkflowMode.EXECUTE)
WRITTEN = worked(
    START, work_of("write", {"file_path": "hello.txt", "content": "hello\n"}, is_error=False, project="/p")
)
MANY = msgspec.structs.replace(WRITTEN, touched_files=["a", "b", "c"])


def facts(**more: Any) -> CompletionFacts:
    return msgspec.structs.replace(CompletionFacts(task=TASK, answer=REPLY, done=START), **more)


def attempt(done: DefinitionOfDone, *exit_codes: int) -> DefinitionOfDone:
    done = verifying(done, [f"check {n}" for n in range(len(exit_codes))])
    for n, code in enumerate(exit_codes):
        done = observed(done, evidence_of(f"check {n}", exit_code=code, stdout="3 failed"))
    return done


def retried(times: int) -> DefinitionOfDone:
    done = WRITTEN
    for _ in range(times):
        done = fixing(attempt(done, 1))
    return done


PENDING = msgspec.structs.replace(START, pending_items=["second half"], successful_commands=["true"])

CASES: dict[str, CompletionFacts] = {
    "tool_batch_halted": facts(halted=True),
    "empty_response_retry": facts(answer=" \n"),
    "empty_response_exhausted": facts(answer="", empty_retries=MAX_EMPTY),
    "raw_text_tool_recovered": facts(answer=CALL, calls=(ToolCall(id="text-1-1", name="read"),)),
    "text_loop_bailout": facts(earlier=(REPLY, REPLY)),
    "premature_completion_nudge": facts(answer="I can handle that."),
    "continuation_budget_exhausted": facts(answer="I can handle that.", nudges=MAX_NUDGES),
    "pending_items_continue": facts(task="Do the second half and build it", done=PENDING),
    "non_mutating_response_accepted": facts(task="What is this?", answer="A thing."),
    "definition_of_done_requires_verification": facts(done=WRITTEN, commands=("test -f hello.txt",)),
    "verification_passed": facts(done=attempt(WRITTEN, 0, 0)),
    "verification_failed_reentry": facts(done=attempt(WRITTEN, 0, 1)),
    "verification_retry_budget_exhausted": facts(done=attempt(retried(3), 1)),
    "verify_skip_no_commands": facts(done=WRITTEN),
    "verification_not_required": facts(done=WRITTEN, commands=("x",), verification=False),
}
INTERMEDIATE = {"text_loop_not_detected", "completion_response_accepted"}


@pytest.mark.parametrize("code", sorted(CASES))
def test_every_code_is_reached_with_its_stage_and_outcome(code: str) -> None:
    decision = decide(CASES[code])
    assert decision.code == code
    assert (decision.stage, decision.outcome) == (CODES[code].stage, CODES[code].outcome)
    assert "{" not in decision.summary
    assert decision.changes()["last_completion_decision_code"] == code


def test_the_table_of_codes_is_the_policy() -> None:
    assert set(CASES) | INTERMEDIATE == set(CODES)
    assert {code.stage for code in CODES.values()} == set(CompletionStage)
    assert {code.outcome for code in CODES.values()} == set(CompletionOutcome)


def test_every_remark_is_made() -> None:
    made = {remark for case in CASES.values() for remark in decide(case).remarks}
    assert made == set(REMARKS)


def test_the_phases_have_their_reasons() -> None:
    assert PHASE_REASONS["turn_complete"] == "Finalizing completed turn"
    assert len(PHASE_REASONS) == 7


ACTIONS = {
    CompletionAction.ASK: {
        "empty_response_retry",
        "premature_completion_nudge",
        "pending_items_continue",
        "verification_failed_reentry",
    },
    CompletionAction.CALL: {"raw_text_tool_recovered"},
    CompletionAction.VERIFY: {"definition_of_done_requires_verification"},
}


@pytest.mark.parametrize("code", sorted(CASES))
def test_what_the_turn_does_next(code: str) -> None:
    expected = next((action for action, codes in ACTIONS.items() if code in codes), CompletionAction.END)
    decision = decide(CASES[code])
    assert decision.action is expected
    assert (decision.nudge is not None) is (expected is CompletionAction.ASK)
    if decision.nudge is not None:
        assert decision.nudge.startswith("[Outlast runtime]")


def told(decision: CompletionDecision) -> list[str]:
    return [entry.reason_code for entry in decision.entries("t", WorkflowMode.EXECUTE)]


def test_the_anchor_a_written_file_is_verified_and_then_complete() -> None:
    commands = commands_for(WRITTEN, ProjectCommands())
    assert commands == ("test -f hello.txt",)
    first = decide(facts(done=WRITTEN, commands=commands, performed=1))
    assert first.action is CompletionAction.VERIFY
    assert told(first) == [
        "text_loop_not_detected",
        "completion_response_accepted",
        "execute_completed",
        "definition_of_done_requires_verification",
        "verification_pending",
        "definition_of_done_requires_verification",
    ]
    done = observed(first.done, evidence_of("test -f hello.txt", exit_code=0))
    second = decide(facts(done=done, performed=1))
    assert (second.code, second.outcome, second.action) == (
        "verification_passed",
        CompletionOutcome.COMPLETE,
        CompletionAction.END,
    )
    answer = REPLY + second.suffix
    assert answer.startswith("The file is written.")
    assert answer.endswith("Verification passed: `test -f hello.txt`.")
    assert (second.done.status, second.done.confidence) == ("done", "high")


@pytest.mark.parametrize("check", [True, False])
def test_the_anchor_a_plain_answer_ends_at_once(check: bool) -> None:
    task = "Write a short release-note style summary of what Loader does well."
    decision = decide(
        facts(task=task, answer="Here's the answer.", done=begun(task, WorkflowMode.EXECUTE), completion_check=check)
    )
    assert (decision.code, decision.action, decision.suffix) == (
        "non_mutating_response_accepted",
        CompletionAction.END,
        "",
    )


@pytest.mark.parametrize(
    "quiet", [{"completion_check": False}, {"chat_profile": True}, {"declined": True}, {"mode": WorkflowMode.PLAN}]
)
@pytest.mark.parametrize(
    "code", ["premature_completion_nudge", "pending_items_continue", "continuation_budget_exhausted"]
)
def test_nobody_is_pressed_who_should_not_be(code: str, quiet: dict[str, Any]) -> None:
    decision = decide(msgspec.structs.replace(CASES[code], **quiet))
    assert decision.code == "non_mutating_response_accepted"


def test_verification_goes_on_without_nudges() -> None:
    decision = decide(facts(done=WRITTEN, commands=("test -f hello.txt",), completion_check=False))
    assert decision.action is CompletionAction.VERIFY


@pytest.mark.parametrize(
    ("more", "limit"), [({}, 5), ({"done": MANY}, 8), ({"chat_profile": True}, 1), ({"completion_check": False}, 5)]
)
def test_empty_answers_are_asked_for_again_so_often(more: dict[str, Any], limit: int) -> None:
    assert decide(facts(answer="", empty_retries=limit - 1, **more)).code == "empty_response_retry"
    assert decide(facts(answer="", empty_retries=limit, **more)).code == "empty_response_exhausted"


def test_a_demo_model_is_asked_again_without_a_word() -> None:
    assert decide(facts(answer="", chat_profile=True)).nudge is None


def test_a_call_as_text_is_only_text_where_there_are_no_tools() -> None:
    assert decide(facts(task="What?", answer=CALL)).code == "non_mutating_response_accepted"


def test_a_nudge_names_what_is_missing() -> None:
    decision = decide(CASES["premature_completion_nudge"])
    assert decision.evidence == ("showing the requested work was actually carried out",)
    assert decision.summary == "requested one continuation because the non-mutating response looked incomplete"
    assert decision.nudge is not None
    assert decision.evidence[0] in decision.nudge


@pytest.mark.parametrize(
    ("done", "words"),
    [
        (START, "follow-through evidence was still missing"),
        (msgspec.structs.replace(START, failed_commands=["pytest -q"]), "`pytest -q` still failed"),
        (fixing(attempt(START, 1)), "verification with `check 0` failed"),
    ],
)
def test_an_exhausted_budget_names_the_verification_or_the_missing_evidence(done: DefinitionOfDone, words: str) -> None:
    decision = decide(facts(answer="I can handle that.", done=done, nudges=MAX_NUDGES))
    assert decision.code == "continuation_budget_exhausted"
    assert words in decision.summary
    assert decision.evidence


def test_a_failure_goes_back_to_execute_with_its_output_and_counts() -> None:
    decision = decide(CASES["verification_failed_reentry"])
    assert (decision.done.status, decision.done.retry_count, decision.done.current_mode) == ("fixing", 1, "execute")
    assert decision.evidence == ("verification contradiction: `check 1` failed",)
    assert decision.nudge is not None
    assert "3 failed" in decision.nudge
    entries = decision.entries("t", WorkflowMode.VERIFY)
    assert (entries[0].kind, entries[0].mode) == ("reentry", "execute")
    assert [item.status for item in entries[-1].verification_observations] == ["passed", "failed"]


def test_three_retries_and_no_more() -> None:
    done, seen = WRITTEN, list[str]()
    for _ in range(6):
        decision = decide(facts(done=attempt(done, 1)))
        seen.append(decision.code)
        done = decision.done
        if decision.action is CompletionAction.END:
            break
    assert seen == ["verification_failed_reentry"] * 3 + ["verification_retry_budget_exhausted"]
    assert (done.status, done.confidence) == ("failed", "low")
    assert decision.suffix.startswith("\n\nVerification failed: `check 0`")  # pyright: ignore[reportPossiblyUnboundVariable]


def test_commands_that_could_not_run_prove_nothing() -> None:
    assert decide(facts(done=attempt(WRITTEN, 127, 127))).code == "verify_skip_no_commands"
    assert decide(facts(done=attempt(WRITTEN, 127, 0))).code == "verification_passed"
    assert decide(facts(done=attempt(WRITTEN, 127, 1))).code == "verification_failed_reentry"


def test_an_attempt_that_was_interrupted_goes_on_with_what_is_left() -> None:
    done = observed(verifying(WRITTEN, ["one", "two"]), VerificationEvidence(command="one", passed=True))
    decision = decide(facts(done=done))
    assert decision.action is CompletionAction.VERIFY
    assert decision.done == done
    assert [item.status for item in decision.observations] == ["passed", "pending"]


def test_what_is_verified_already_is_not_verified_again_until_something_changes() -> None:
    done = decide(facts(done=attempt(WRITTEN, 0))).done
    assert decide(facts(done=done)).code == "verification_passed"
    more = worked(done, work_of("write", {"file_path": "b", "content": ""}, is_error=False, project="/p"))
    assert decide(facts(done=more, commands=("test -f b",))).action is CompletionAction.VERIFY


@pytest.mark.parametrize("code", sorted(CASES))
def test_every_decision_can_be_stored_and_is_in_the_trace(code: str) -> None:
    entries = decide(CASES[code]).entries("2026-04-09T12:00:00Z", WorkflowMode.EXECUTE)
    assert [load(WorkflowTimelineEntry, dump(entry)) for entry in entries] == entries
    assert {entry.kind for entry in entries} <= set(EntryKind)
    if entries[-1].kind.startswith("completion_"):
        assert completion_trace(entries)[-1].decision_code == code
    else:
        assert completion_trace(entries) == []
