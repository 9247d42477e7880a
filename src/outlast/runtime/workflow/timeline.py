"""The timeline: every decision about the work, in order. It is the canonical record; the completion trace is a view."""

from __future__ import annotations

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
