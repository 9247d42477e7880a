"""Every code of the completion policy: which stage says it, with what outcome, and in which words."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from outlast.runtime.workflow.timeline import EntryKind


class Stage(StrEnum):
    REPAIR = "repair"
    TEXT_LOOP = "text_loop"
    CONTINUATION_CHECK = "continuation_check"
    DEFINITION_OF_DONE = "definition_of_done"
    LOOP_EXIT = "loop_exit"


class Outcome(StrEnum):
    ACCEPT = "accept"
    CONTINUE = "continue"
    FINALIZE = "finalize"
    COMPLETE = "complete"
    RETRY = "retry"
    FAILED = "failed"


class Code(msgspec.Struct, frozen=True):
    stage: Stage
    outcome: Outcome
    kind: EntryKind
    summary: str


_R, _T, _C, _D, _X = Stage
_K, _O = EntryKind, Outcome

CODES: dict[str, Code] = {
    "text_loop_not_detected": Code(_T, _O.ACCEPT, _K.COMPLETION_CHECK, "no repetition was seen"),
    "text_loop_bailout": Code(
        _T, _O.FINALIZE, _K.COMPLETION_FINALIZE, "stopped because the model was repeating itself"
    ),
    "completion_response_accepted": Code(
        _C, _O.ACCEPT, _K.COMPLETION_CHECK, "accepted the response because no missing follow-through was seen"
    ),
    "premature_completion_nudge": Code(
        _C,
        _O.CONTINUE,
        _K.COMPLETION_CHECK,
        "requested one continuation because the {which} response looked incomplete",
    ),
    "continuation_budget_exhausted": Code(
        _C,
        _O.FINALIZE,
        _K.COMPLETION_FINALIZE,
        "stopped because the continuation budget was exhausted while {which}",
    ),
    "pending_items_continue": Code(
        _D,
        _O.CONTINUE,
        _K.COMPLETION_CONTINUE,
        "continued because tracked items are still open and nothing was changed",
    ),
    "non_mutating_response_accepted": Code(
        _D,
        _O.COMPLETE,
        _K.COMPLETION_COMPLETE,
        "accepted the response because nothing was changed that needs verification",
    ),
    "definition_of_done_requires_verification": Code(
        _D, _O.CONTINUE, _K.COMPLETION_CONTINUE, "the work has to be verified before the turn is complete"
    ),
    "verification_passed": Code(_D, _O.COMPLETE, _K.COMPLETION_COMPLETE, "completed because verification passed"),
    "verification_failed_reentry": Code(
        _D,
        _O.CONTINUE,
        _K.COMPLETION_CONTINUE,
        "continued after verification failed and the runtime re-entered execute mode",
    ),
    "verification_retry_budget_exhausted": Code(
        _D, _O.FAILED, _K.COMPLETION_FINALIZE, "stopped because verification still failed after {which}"
    ),
    "verify_skip_no_commands": Code(
        _D,
        _O.COMPLETE,
        _K.COMPLETION_COMPLETE,
        "completed without verification because no command could check the work",
    ),
    "verification_not_required": Code(
        _D, _O.COMPLETE, _K.COMPLETION_COMPLETE, "completed without verification because it was switched off"
    ),
    "empty_response_retry": Code(_R, _O.RETRY, _K.REPAIR_RETRY, "asked again because the response was empty"),
    "empty_response_exhausted": Code(_R, _O.FAILED, _K.REPAIR_FAIL, "stopped because the responses stayed empty"),
    "raw_text_tool_recovered": Code(_R, _O.RETRY, _K.REPAIR_RETRY, "recovered a tool call that was written as text"),
    "raw_text_tool_recovery_exhausted": Code(
        _R, _O.FAILED, _K.REPAIR_FAIL, "stopped because tool calls were still written as text"
    ),
    "tool_batch_halted": Code(
        _X, _O.FINALIZE, _K.COMPLETION_FINALIZE, "stopped because the safeguards halted the tool calls"
    ),
}

REMARKS: dict[str, tuple[EntryKind, str]] = {
    "execute_completed": (EntryKind.HANDOFF, "the work is carried out"),
    "definition_of_done_requires_verification": (EntryKind.HANDOFF, "the definition of done asks for verification"),
    "verification_pending": (EntryKind.VERIFY_OBSERVATION, "verification is pending"),
    "verification_commands_missing": (EntryKind.VERIFY_OBSERVATION, "no verification command is known for the work"),
    "verification_not_required": (EntryKind.VERIFY_SKIP, "nothing was changed that needs verification"),
    "verify_skip_no_commands": (EntryKind.VERIFY_SKIP, "verification was skipped for want of commands"),
    "verification_passed": (EntryKind.VERIFY_OBSERVATION, "verification passed"),
    "verification_failed_reentry": (EntryKind.REENTRY, "verification failed: back to execute"),
    "verification_retry_budget_exhausted": (EntryKind.VERIFY_OBSERVATION, "verification failed for the last time"),
}
"""Remarks on the life of a verification, for the timeline."""

PHASE_REASONS: dict[str, str] = {
    "request_assistant_response": "Requesting the next assistant response",
    "execute_tool_batch": "Executing the requested tool calls",
    "completion_gate": "Checking whether the turn is complete",
    "repair_empty_response": "Repairing an empty response",
    "repair_raw_text_tool_fallback": "Recovering a tool call written as text",
    "tool_batch_halted": "Finalizing after the safeguards halted the tool calls",
    "turn_complete": "Finalizing completed turn",
}
"""Why a phase was entered (`outlast.runtime.phases`)."""
