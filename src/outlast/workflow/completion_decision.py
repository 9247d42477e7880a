"""Decisions of the completion policy: their codes with stage, outcome and wording, and their timeline entries.

Also the messages of the runtime to a model that stopped too early; they are never sent in the user's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from outlast.core.text import fenced
from outlast.core.workflow_mode import DecisionKind, WorkflowMode
from outlast.core.workflow_records import (
    COMPLETION_PREFIX,
    DefinitionOfDone,
    EntryKind,
    EvidenceProvenance,
    VerificationEvidence,
    VerificationObservation,
    WorkflowTimelineEntry,
)


class CompletionStage(StrEnum):
    REPAIR = "repair"
    TEXT_LOOP = "text_loop"
    CONTINUATION_CHECK = "continuation_check"
    DEFINITION_OF_DONE = "definition_of_done"
    LOOP_EXIT = "loop_exit"


class CompletionOutcome(StrEnum):
    ACCEPT = "accept"
    CONTINUE = "continue"
    FINALIZE = "finalize"
    COMPLETE = "complete"
    RETRY = "retry"
    FAILED = "failed"


class CompletionCode(msgspec.Struct, frozen=True):
    stage: CompletionStage
    outcome: CompletionOutcome
    kind: EntryKind
    summary: str


_R, _T, _C, _D, _X = CompletionStage
_K, _O = EntryKind, CompletionOutcome

CODES: dict[str, CompletionCode] = {
    "text_loop_not_detected": CompletionCode(_T, _O.ACCEPT, _K.COMPLETION_CHECK, "no repetition was seen"),
    "text_loop_bailout": CompletionCode(
        _T, _O.FINALIZE, _K.COMPLETION_FINALIZE, "stopped because the model was repeating itself"
    ),
    "completion_response_accepted": CompletionCode(
        _C, _O.ACCEPT, _K.COMPLETION_CHECK, "accepted the response because no missing follow-through was seen"
    ),
    "premature_completion_nudge": CompletionCode(
        _C,
        _O.CONTINUE,
        _K.COMPLETION_CHECK,
        "requested one continuation because the {which} response looked incomplete",
    ),
    "continuation_budget_exhausted": CompletionCode(
        _C,
        _O.FINALIZE,
        _K.COMPLETION_FINALIZE,
        "stopped because the continuation budget was exhausted while {which}",
    ),
    "pending_items_continue": CompletionCode(
        _D,
        _O.CONTINUE,
        _K.COMPLETION_CONTINUE,
        "continued because tracked items are still open and nothing was changed",
    ),
    "non_mutating_response_accepted": CompletionCode(
        _D,
        _O.COMPLETE,
        _K.COMPLETION_COMPLETE,
        "accepted the response because nothing was changed that needs verification",
    ),
    "definition_of_done_requires_verification": CompletionCode(
        _D, _O.CONTINUE, _K.COMPLETION_CONTINUE, "the work has to be verified before the turn is complete"
    ),
    "verification_passed": CompletionCode(
        _D, _O.COMPLETE, _K.COMPLETION_COMPLETE, "completed because verification passed"
    ),
    "verification_failed_reentry": CompletionCode(
        _D,
        _O.CONTINUE,
        _K.COMPLETION_CONTINUE,
        "continued after verification failed and the runtime re-entered execute mode",
    ),
    "verification_retry_budget_exhausted": CompletionCode(
        _D, _O.FAILED, _K.COMPLETION_FINALIZE, "stopped because verification still failed after {which}"
    ),
    "verify_skip_no_commands": CompletionCode(
        _D,
        _O.COMPLETE,
        _K.COMPLETION_COMPLETE,
        "completed without verification because no command could check the work",
    ),
    "verification_not_required": CompletionCode(
        _D, _O.COMPLETE, _K.COMPLETION_COMPLETE, "completed without verification because it was switched off"
    ),
    "empty_response_retry": CompletionCode(_R, _O.RETRY, _K.REPAIR_RETRY, "asked again because the response was empty"),
    "empty_response_exhausted": CompletionCode(
        _R, _O.FAILED, _K.REPAIR_FAIL, "stopped because the responses stayed empty"
    ),
    "raw_text_tool_recovered": CompletionCode(
        _R, _O.RETRY, _K.REPAIR_RETRY, "recovered a tool call that was written as text"
    ),
    "tool_batch_halted": CompletionCode(
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
"""Timeline remarks on the progress of a verification."""

PHASE_REASONS: dict[str, str] = {
    "request_assistant_response": "Requesting the next assistant response",
    "execute_tool_batch": "Executing the requested tool calls",
    "completion_gate": "Checking whether the turn is complete",
    "repair_empty_response": "Repairing an empty response",
    "repair_raw_text_tool_fallback": "Recovering a tool call written as text",
    "tool_batch_halted": "Finalizing after the safeguards halted the tool calls",
    "turn_complete": "Finalizing completed turn",
}
"""Reasons for entering a phase (`outlast.runtime.turn.phases`)."""


class CompletionAction(StrEnum):
    """The turn's next step."""

    ASK = "ask"
    CALL = "call"
    VERIFY = "verify"
    END = "end"


class CompletionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict. `before` are the stages passed on the way to it, `remarks` additional timeline entries.

    `nudge` goes to the model (never as the user's words), `suffix` to the end of the answer, `done` into the log.
    """

    stage: CompletionStage
    outcome: CompletionOutcome
    code: str
    summary: str
    action: CompletionAction
    done: DefinitionOfDone
    evidence: tuple[str, ...] = ()
    provenance: tuple[EvidenceProvenance, ...] = ()
    nudge: str | None = None
    suffix: str = ""
    before: tuple[CompletionDecision, ...] = ()
    remarks: tuple[str, ...] = ()
    observations: tuple[VerificationObservation, ...] = ()

    def entries(self, timestamp: str, mode: WorkflowMode) -> list[WorkflowTimelineEntry]:
        """Return the timeline entries of this decision, oldest first: stages passed, remarks, verdict."""
        passed_stages = [decision._entry(timestamp, mode) for decision in self.before]
        remarks = [self._remark(code, timestamp) for code in self.remarks]
        return [*passed_stages, *remarks, self._entry(timestamp, mode)]

    def changes(self) -> dict[str, Any]:
        """Return the runtime state changes that record the decision."""
        return {"last_completion_decision_code": self.code, "last_completion_decision_summary": self.summary}

    def _entry(self, timestamp: str, mode: WorkflowMode) -> WorkflowTimelineEntry:
        return WorkflowTimelineEntry(
            timestamp=timestamp,
            kind=str(CODES[self.code].kind),
            mode=str(mode),
            reason_code=self.code,
            summary=f"{COMPLETION_PREFIX}{self.summary}",
            decision_kind=str(DecisionKind.FORCED),
            evidence_summary=list(self.evidence),
            evidence_provenance=list(self.provenance),
            verification_observations=list(self.observations),
            policy_stage=str(self.stage),
            policy_outcome=str(self.outcome),
        )

    def _remark(self, code: str, timestamp: str) -> WorkflowTimelineEntry:
        kind, summary = REMARKS[code]
        return WorkflowTimelineEntry(
            timestamp=timestamp,
            kind=str(kind),
            mode=str(
                WorkflowMode.EXECUTE
                if kind is EntryKind.REENTRY or code == "execute_completed"
                else WorkflowMode.VERIFY
            ),
            reason_code=code,
            summary=f"verify: {summary}",
            decision_kind=str(DecisionKind.REENTRY if kind is EntryKind.REENTRY else DecisionKind.FORCED),
            verification_observations=list(self.observations) if kind is not EntryKind.HANDOFF else [],
        )


def verdict(
    code: str, done: DefinitionOfDone, action: CompletionAction, which: str = "", /, **told: Any
) -> CompletionDecision:
    """Build the decision for this code; `which` completes its summary, `told` are further fields."""
    meaning = CODES[code]
    decision = CompletionDecision(
        stage=meaning.stage,
        outcome=meaning.outcome,
        code=code,
        summary=meaning.summary.format(which=which),
        action=action,
        done=done,
    )
    return msgspec.structs.replace(decision, **told)


LABEL = "[Outlast runtime]"
MAX_OUTPUT = 1_200

EMPTY = f"{LABEL} Your last response was empty. Go on with the task: call a tool, or give your final answer as text."


def nudge_for(missing: Sequence[str]) -> str:
    """Tell the model to continue, with the missing evidence and the option to say why it cannot."""
    listed = "\n".join(f"- {text}" for text in missing)
    return (
        f"{LABEL} The task does not look finished. There is no evidence yet for:\n{listed}\n"
        "Do what is left now, with tools. If it cannot or should not be done, say so plainly and why."
    )


def repair_for(bad: Sequence[VerificationEvidence]) -> str:
    """Tell the model what failed, with the end of the output; it is fenced because it is data."""
    shown = "\n\n".join(_failure(item) for item in bad)
    return f"{LABEL} Verification failed. Find the cause, correct the work, then answer again.\n\n{shown}"


def _failure(item: VerificationEvidence) -> str:
    output = "\n".join(text for text in (item.stdout.rstrip(), item.stderr.rstrip()) if text)[-MAX_OUTPUT:]
    return f"`{item.command}` ended with exit code {item.exit_code}:\n{fenced(output or '(no output)')}"
