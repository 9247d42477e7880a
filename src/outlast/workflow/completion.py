"""Completion of a guided turn: what an answer without tool calls leads to, and the codes that record it.

An answer ends the turn as completed. There are two exceptions, together at most one per turn: the model began its own
todo list in this turn and left items open, or a command that the user or the plan named failed when the runtime ran it.
Neither applies when the answer asks the user something or when a call was denied. No decision depends on the wording of
the request or of the answer, so it is the same in every language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.core.text import fenced
from outlast.core.workflow_mode import DecisionKind, WorkflowMode
from outlast.core.workflow_records import (
    COMPLETION_PREFIX,
    DefinitionOfDone,
    EntryKind,
    EvidenceProvenance,
    EvidenceStatus,
    VerificationEvidence,
    VerificationObservation,
    WorkflowTimelineEntry,
)
from outlast.runtime.turn.policy import CONTINUE, VERIFY
from outlast.workflow.definition_of_done import (
    finished,
    fixing,
    next_command,
    observations,
    result_of,
    verification_note,
    verifying,
)

LABEL = "[Outlast runtime]"
MAX_OUTPUT = 1_200
READ = 2_000
"""Number of characters at the end of an answer in which a question is looked for."""
NUDGES = ("pending_items_continue", "verification_failed_reentry", "premature_completion_nudge")
"""Codes of the decisions that ask the model for more; the last one only in logs of older versions."""

ITEMS = (
    f"{LABEL} Items of your todo list are still open:\n{{items}}\n"
    "Go on with them, or close those that are done or not needed and answer."
)


class CompletionCode(msgspec.Struct, frozen=True):
    outcome: str
    kind: EntryKind
    summary: str


_K = EntryKind
CODES = {
    "pending_items_continue": CompletionCode(
        CONTINUE, _K.COMPLETION_CONTINUE, "continued once because items of the model's own list are still open"
    ),
    "non_mutating_response_accepted": CompletionCode(
        "complete", _K.COMPLETION_COMPLETE, "accepted the response; nothing was changed that needs verification"
    ),
    "verification_not_required": CompletionCode(
        "complete", _K.COMPLETION_COMPLETE, "completed without verification because it is switched off"
    ),
    "verify_skip_no_commands": CompletionCode(
        "complete", _K.COMPLETION_COMPLETE, "completed without verification because no named command could check it"
    ),
    "definition_of_done_requires_verification": CompletionCode(
        VERIFY, _K.COMPLETION_CONTINUE, "the named commands verify the work before the turn is complete"
    ),
    "verification_passed": CompletionCode("complete", _K.COMPLETION_COMPLETE, "completed because verification passed"),
    "verification_failed_reentry": CompletionCode(
        CONTINUE,
        _K.COMPLETION_CONTINUE,
        "continued after verification failed and the runtime re-entered execute mode",
    ),
    "verification_failed": CompletionCode(
        "complete", _K.COMPLETION_COMPLETE, "completed; verification failed, and the user is told so"
    ),
}


class CompletionDecision(msgspec.Struct, frozen=True, kw_only=True):
    """`nudge` goes to the model, never as the user's words; `note` to the user, beside the answer."""

    code: str
    done: DefinitionOfDone
    nudge: str | None = None
    note: str | None = None
    evidence: tuple[str, ...] = ()
    observations: tuple[VerificationObservation, ...] = ()

    @property
    def outcome(self) -> str:
        return CODES[self.code].outcome

    @property
    def summary(self) -> str:
        return CODES[self.code].summary

    def entry(self, timestamp: str, mode: WorkflowMode) -> WorkflowTimelineEntry:
        return WorkflowTimelineEntry(
            timestamp=timestamp,
            kind=str(CODES[self.code].kind),
            mode=str(mode),
            reason_code=self.code,
            summary=f"{COMPLETION_PREFIX}{self.summary}",
            decision_kind=str(DecisionKind.FORCED),
            evidence_summary=list(self.evidence),
            evidence_provenance=[_provenance(item) for item in self.observations],
            verification_observations=list(self.observations),
            policy_stage="continuation_check" if self.code == "pending_items_continue" else "definition_of_done",
            policy_outcome="continue" if self.outcome == VERIFY else self.outcome,
        )

    def changes(self) -> dict[str, Any]:
        """Return the runtime state changes that record the decision."""
        return {"last_completion_decision_code": self.code, "last_completion_decision_summary": self.summary}


def _provenance(item: VerificationObservation) -> EvidenceProvenance:
    return EvidenceProvenance(
        category="verification",
        source="dod.verification_commands",
        summary=item.summary,
        status=item.status,
        subject=item.command,
        attempt_id=item.attempt_id,
    )


def after_answer(
    done: DefinitionOfDone, *, open_items: Sequence[str] = (), may_nudge: bool = False, verification: bool = True
) -> CompletionDecision:
    """Decide what follows from an answer. `open_items` are those of a todo list that the model began in this turn."""
    if open_items and may_nudge:
        nudge = ITEMS.format(items="\n".join(f"- {item}" for item in open_items))
        evidence = tuple(f"the open item: {item}" for item in open_items)
        return CompletionDecision(code="pending_items_continue", done=done, nudge=nudge, evidence=evidence)
    if verification and done.mutated and next_command(done) is not None:
        begun = verifying(done)
        seen = tuple(observations(begun))
        return CompletionDecision(code="definition_of_done_requires_verification", done=begun, observations=seen)
    return _complete(done, verification=verification)


def after_verification(done: DefinitionOfDone, *, may_nudge: bool) -> CompletionDecision:
    """Decide after the last named command has run. A failure that the model has not seen is sent to it, once."""
    unseen = [item for item in done.of_attempt() if item.status is EvidenceStatus.FAILED and not item.by_model]
    if not (unseen and may_nudge):
        return _complete(done, verification=True)
    return CompletionDecision(
        code="verification_failed_reentry",
        done=fixing(done),
        nudge=repair_request(unseen),
        evidence=tuple(f"verification contradiction: `{item.command}` failed" for item in unseen),
        observations=tuple(observations(done)),
    )


_RESULT_CODES = {
    EvidenceStatus.PASSED: "verification_passed",
    EvidenceStatus.FAILED: "verification_failed",
    EvidenceStatus.SKIPPED: "verify_skip_no_commands",
}


def _complete(done: DefinitionOfDone, *, verification: bool) -> CompletionDecision:
    if not done.mutated or not verification:
        code = "verification_not_required" if done.mutated else "non_mutating_response_accepted"
        return CompletionDecision(code=code, done=finished(done, EvidenceStatus.SKIPPED))
    result = result_of(done)
    ended = finished(done, result)
    seen = tuple(observations(ended))
    return CompletionDecision(
        code=_RESULT_CODES[result],
        done=ended,
        note=verification_note(ended) or None,
        evidence=tuple(item.summary for item in seen),
        observations=seen,
    )


def repair_request(failed: Sequence[VerificationEvidence]) -> str:
    """Tell the model what failed, with the end of the output; it is fenced because it is data."""
    shown = "\n\n".join(_failure(item) for item in failed)
    return f"{LABEL} A command that verifies this task failed. Correct the work, or say why it fails.\n\n{shown}"


def _failure(item: VerificationEvidence) -> str:
    return (
        f"`{item.command}` ended with exit code {item.exit_code}:\n{fenced(item.stdout[-MAX_OUTPUT:] or '(no output)')}"
    )


_QUESTION = re.compile(
    r"[\u037e\u055e\u061f\u1367\u203d\u2047\u2048\uff1f]"  # Greek, Armenian, Arabic, Ethiopic, full width
    r"|\?(?=[\"'\u2019\u201d\u00bb)\]*_`]*(?:\s|$))"  # not the one in an address
    r"|[\u0370-\u03ff];"  # the Greek question mark, as it is typed
)


def is_question(answer: str) -> bool:
    """Whether the last paragraph of an answer asks something, in any script."""
    return _QUESTION.search(answer[-READ:].rstrip().split("\n\n")[-1]) is not None
