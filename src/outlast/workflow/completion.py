"""Completion policy: decides whether a turn is over when the model stops calling tools. Its stages:

    repair             retries an empty answer; recovers a tool call written as text
    text_loop          stops a model that repeats itself
    continuation_check sends back an answer without the evidence that its task needs, at most five times
    definition_of_done verifies changes; a failure leads back to execute mode, at most three times

`decide` is pure and can be repeated after a crash: everything it needs is in the facts, which come from the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.core.messages import ToolCall
from outlast.core.workflow_mode import WorkflowMode
from outlast.core.workflow_records import (
    DefinitionOfDone,
    DoneStatus,
    EvidenceProvenance,
    EvidenceStatus,
    VerificationEvidence,
    VerificationObservation,
)
from outlast.workflow.completion_decision import (
    EMPTY,
    CompletionAction,
    CompletionDecision,
    nudge_for,
    repair_for,
    verdict,
)
from outlast.workflow.definition_of_done import (
    failed,
    finished,
    fixing,
    missing_evidence,
    next_command,
    observations,
    passed,
    verifying,
)
from outlast.workflow.text_signals import (
    is_loop,
)
from outlast.workflow.verification import summary_of

MAX_NUDGES = 5
MAX_EMPTY = 5
MORE_EMPTY = 3
"""Extra retries late in work on several files, where an empty answer would lose the most."""


class CompletionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Input of `decide` when the model has answered without (native) tool calls.

    `commands` would verify the work (`verification.commands_for`); `earlier` are the previous answers of this turn;
    `performed` counts finished tool calls; `nudges` and `empty_retries` count those of this turn; `calls` are written
    as text at the end of the answer.
    `declined`: the user refused a call, so the model may say that it could not continue.
    """

    task: str
    answer: str
    done: DefinitionOfDone
    mode: WorkflowMode = WorkflowMode.EXECUTE
    commands: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    performed: int = 0
    nudges: int = 0
    empty_retries: int = 0
    calls: tuple[ToolCall, ...] = ()
    declined: bool = False
    halted: bool = False
    completion_check: bool = True
    verification: bool = True
    chat_profile: bool = False


def decide(facts: CompletionFacts) -> CompletionDecision:
    """Decide what follows from this answer. Call it for each answer, and again after each verification attempt."""
    if facts.halted:
        return _verdict("tool_batch_halted", facts, CompletionAction.END)
    if facts.done.status == DoneStatus.VERIFYING:
        return _verified(facts) if next_command(facts.done) is None else _pending(facts)
    return _repaired(facts) or _looped(facts) or _checked(facts)


def _verdict(
    code: str, facts: CompletionFacts, action: CompletionAction, which: str = "", /, **told: Any
) -> CompletionDecision:
    return verdict(code, facts.done, action, which, **told)


# --- repair and text loop ----------------------------------------------------------------------------------------


def _repaired(facts: CompletionFacts) -> CompletionDecision | None:
    if not facts.answer.strip():
        if facts.empty_retries < _empty_budget(facts):
            return _verdict(
                "empty_response_retry", facts, CompletionAction.ASK, nudge=None if facts.chat_profile else EMPTY
            )
        return _verdict("empty_response_exhausted", facts, CompletionAction.END)
    return _verdict("raw_text_tool_recovered", facts, CompletionAction.CALL) if facts.calls else None


def _empty_budget(facts: CompletionFacts) -> int:
    if facts.chat_profile:
        return 1
    late = len(facts.done.touched_files) >= 3
    return MAX_EMPTY + (MORE_EMPTY if late else 0)


def _looped(facts: CompletionFacts) -> CompletionDecision | None:
    return _verdict("text_loop_bailout", facts, CompletionAction.END) if is_loop(facts.answer, facts.earlier) else None


# --- continuation check ------------------------------------------------------------------------------------------


def _checked(facts: CompletionFacts) -> CompletionDecision:
    no_loop = _verdict("text_loop_not_detected", facts, CompletionAction.END)
    missing = missing_evidence(facts.task, facts.answer, facts.done, facts.performed) if _may_nudge(facts) else []
    texts = tuple(item.summary for item in missing)
    if missing and facts.nudges >= MAX_NUDGES:
        which = _what_is_missing(facts.done)
        return _verdict(
            "continuation_budget_exhausted",
            facts,
            CompletionAction.END,
            which,
            evidence=texts,
            provenance=tuple(missing),
            observations=tuple(observations(facts.done)),
            before=(no_loop,),
        )
    if missing and not _only_pending(missing, facts.done):
        return _verdict(
            "premature_completion_nudge",
            facts,
            CompletionAction.ASK,
            "mutating" if facts.done.mutated else "non-mutating",
            evidence=texts,
            provenance=tuple(missing),
            nudge=nudge_for(texts),
            before=(no_loop,),
        )
    accepted = _verdict("completion_response_accepted", facts, CompletionAction.END)
    return _gated(facts, tuple(missing), (no_loop, accepted))


def _may_nudge(facts: CompletionFacts) -> bool:
    """Whether the model may be told to continue: only in execute and verify mode (briefs and plans are answers), never
    for a demo model, if the check is switched off, or after the user refused a call."""
    working = facts.mode in (WorkflowMode.EXECUTE, WorkflowMode.VERIFY)
    return facts.completion_check and not facts.chat_profile and not facts.declined and working


def _only_pending(missing: Sequence[EvidenceProvenance], done: DefinitionOfDone) -> bool:
    return not done.mutated and all(item.source == "dod.pending_items" for item in missing)


def _what_is_missing(done: DefinitionOfDone) -> str:
    seen = [item for item in observations(done) if item.status in (EvidenceStatus.FAILED, EvidenceStatus.STALE)]
    if seen:
        return f"the observed verification was not good: {seen[-1].summary}"
    if done.failed_commands:
        return f"`{done.failed_commands[-1]}` still failed"
    return "follow-through evidence was still missing"


# --- definition of done ------------------------------------------------------------------------------------------


def _gated(
    facts: CompletionFacts, pending: tuple[EvidenceProvenance, ...], before: tuple[CompletionDecision, ...]
) -> CompletionDecision:
    if pending:
        texts = tuple(item.summary for item in pending)
        return _verdict(
            "pending_items_continue",
            facts,
            CompletionAction.ASK,
            evidence=texts,
            provenance=pending,
            nudge=nudge_for(texts),
            before=before[:1],
        )
    if not facts.done.mutated:
        return _complete("non_mutating_response_accepted", facts, before, ("verification_not_required",))
    if facts.done.last_verification_result == EvidenceStatus.PASSED:
        return _complete_verified(facts, before)
    if not facts.verification:
        return _complete("verification_not_required", facts, before, ())
    if not facts.commands:
        return _complete(
            "verify_skip_no_commands", facts, before, ("verification_commands_missing", "verify_skip_no_commands")
        )
    done = verifying(facts.done, facts.commands)
    return _verdict(
        "definition_of_done_requires_verification",
        facts,
        CompletionAction.VERIFY,
        done=done,
        observations=tuple(observations(done)),
        provenance=tuple(_provenance(item) for item in observations(done)),
        remarks=("execute_completed", "definition_of_done_requires_verification", "verification_pending"),
        before=before,
    )


def _complete(
    code: str, facts: CompletionFacts, before: tuple[CompletionDecision, ...], remarks: tuple[str, ...]
) -> CompletionDecision:
    return _verdict(code, facts, CompletionAction.END, done=finished(facts.done), before=before, remarks=remarks)


def _complete_verified(facts: CompletionFacts, before: tuple[CompletionDecision, ...]) -> CompletionDecision:
    """Complete the turn: nothing has changed since the last verification passed."""
    shown = facts.done.of_attempt()
    return _verdict(
        "verification_passed",
        facts,
        CompletionAction.END,
        done=passed(facts.done),
        before=before,
        suffix=_suffix(shown),
    )


def _pending(facts: CompletionFacts) -> CompletionDecision:
    """Run the remaining commands of an unfinished verification attempt."""
    return _verdict(
        "definition_of_done_requires_verification",
        facts,
        CompletionAction.VERIFY,
        observations=tuple(observations(facts.done)),
        remarks=("verification_pending",),
    )


def _verified(facts: CompletionFacts) -> CompletionDecision:
    shown = facts.done.of_attempt()
    bad = [item for item in shown if item.status is EvidenceStatus.FAILED]
    seen = observations(facts.done)
    told: dict[str, Any] = {"observations": tuple(seen), "provenance": tuple(_provenance(item) for item in seen)}
    if not bad and any(item.passed for item in shown):
        return _verdict(
            "verification_passed",
            facts,
            CompletionAction.END,
            done=passed(facts.done),
            suffix=_suffix(shown),
            evidence=tuple(item.summary for item in seen),
            remarks=("verification_passed",),
            **told,
        )
    if not bad:
        remarks = ("verification_commands_missing", "verify_skip_no_commands")
        skipped = finished(facts.done)
        return _verdict("verify_skip_no_commands", facts, CompletionAction.END, done=skipped, remarks=remarks, **told)
    evidence = tuple(f"verification contradiction: `{item.command}` failed" for item in bad)
    if facts.done.retry_count >= facts.done.retry_budget:
        return _verdict(
            "verification_retry_budget_exhausted",
            facts,
            CompletionAction.END,
            f"{facts.done.retry_count} retries",
            done=failed(facts.done),
            evidence=evidence,
            suffix=_failure_suffix(bad),
            remarks=("verification_retry_budget_exhausted",),
            **told,
        )
    return _verdict(
        "verification_failed_reentry",
        facts,
        CompletionAction.ASK,
        done=fixing(facts.done),
        evidence=evidence,
        nudge=repair_for(bad),
        remarks=("verification_failed_reentry",),
        **told,
    )


def _provenance(item: VerificationObservation) -> EvidenceProvenance:
    return EvidenceProvenance(
        category="verification",
        source="dod.verification_commands",
        summary=item.summary,
        status=item.status,
        subject=item.command,
        attempt_id=item.attempt_id,
    )


def _suffix(shown: Sequence[VerificationEvidence]) -> str:
    return f"\n\n{summary_of(shown)}"


def _failure_suffix(bad: Sequence[VerificationEvidence]) -> str:
    return f"\n\nVerification failed: {', '.join(f'`{item.command}`' for item in bad)}. The work is not done."
