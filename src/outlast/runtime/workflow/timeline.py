"""The timeline: every decision about the work, in order. It is the canonical record; the completion trace is a view.

The completion trace: why a turn went on or stopped, projected from the timeline.

Which prompts a session was driven with.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from outlast.runtime.workflow.evidence import EvidenceProvenance, VerificationObservation

MEMORY = 6
"""How many of the latest entries the router looks at."""


class EntryKind(StrEnum):
    ROUTE = "route"
    HANDOFF = "handoff"
    REENTRY = "reentry"
    CLARIFY_CONTINUE = "clarify_continue"
    CLARIFY_EXIT = "clarify_exit"
    PLAN_REFRESH = "plan_refresh"
    VERIFY_OBSERVATION = "verify_observation"
    VERIFY_SKIP = "verify_skip"
    COMPLETION_CHECK = "completion_check"
    COMPLETION_CONTINUE = "completion_continue"
    COMPLETION_COMPLETE = "completion_complete"
    COMPLETION_FINALIZE = "completion_finalize"
    REPAIR_RETRY = "repair_retry"
    REPAIR_FAIL = "repair_fail"


class WorkflowTimelineEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision. `timestamp` is UTC, ISO 8601; kinds and codes are texts, so that unknown ones can be kept."""

    timestamp: str
    kind: str
    mode: str
    reason_code: str
    summary: str
    decision_kind: str | None = None
    route_score: float | None = None
    runner_up_mode: str | None = None
    runner_up_score: float | None = None
    scheduled_next_mode: str | None = None
    unresolved_questions: list[str] = []
    signals: list[str] = []
    evidence_summary: list[str] = []
    evidence_provenance: list[EvidenceProvenance] = []
    verification_observations: list[VerificationObservation] = []
    clarify_stage: str | None = None
    clarify_pressure: float | None = None
    readiness_gates: list[str] = []
    policy_stage: str | None = None
    policy_outcome: str | None = None
    prompt_format: str | None = None
    prompt_sections: list[str] = []
    artifact_paths: list[str] = []


LENGTH = 8
PREFIX = "completion: "


class CompletionTraceEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    stage: str
    outcome: str
    decision_code: str
    decision_summary: str
    evidence_summary: list[str] = []
    evidence_provenance: list[EvidenceProvenance] = []


def completion_trace(
    timeline: Sequence[WorkflowTimelineEntry], legacy: Sequence[CompletionTraceEntry] = ()
) -> list[CompletionTraceEntry]:
    """The latest completion decisions of the timeline; `legacy` entries count only where it has none."""
    found = [_projected(entry) for entry in timeline if entry.kind.startswith("completion_")]
    return (found or list(legacy))[-LENGTH:]


def _projected(entry: WorkflowTimelineEntry) -> CompletionTraceEntry:
    return CompletionTraceEntry(
        stage=entry.policy_stage or "",
        outcome=entry.policy_outcome or "",
        decision_code=entry.reason_code,
        decision_summary=entry.summary.removeprefix(PREFIX),
        evidence_summary=list(entry.evidence_summary),
        evidence_provenance=list(entry.evidence_provenance),
    )


class PromptSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One system prompt as it was sent. `prompt_sections` are the names of its changing sections, in order."""

    timestamp: str
    workflow_mode: str
    permission_mode: str = ""
    current_task: str | None = None
    prompt_format: str | None = None
    prompt_sections: list[str] = []
    content: str = ""


def is_new(snapshot: PromptSnapshot, last: PromptSnapshot | None) -> bool:
    """False when only the time or the task differ from the last one: an equal prompt is not stored twice."""
    if last is None:
        return True
    return msgspec.structs.replace(snapshot, timestamp=last.timestamp, current_task=last.current_task) != last
