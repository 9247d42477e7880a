"""Workflow records of a session: timeline, completion trace, prompts, ledger, definition of done.

Every turn policy writes them and every reader of a session reads them, so they do not depend on a policy. Statuses,
kinds and codes are stored as texts: a reader keeps unknown ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class EvidenceStatus(StrEnum):
    """The status of a verification."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    MISSING = "missing"
    STALE = "stale"
    SKIPPED = "skipped"


class EvidenceProvenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of evidence: its subject, its summary, and the record it comes from."""

    category: str
    source: str
    summary: str
    status: str = ""
    subject: str | None = None
    attempt_id: str | None = None


class VerificationEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a verification command. `skipped`: it could not run (denied, or the program is not installed).

    `by_model`: the model ran the command itself, so it has seen the result."""

    command: str
    passed: bool = False
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    kind: str = "runtime"
    skipped: bool = False
    attempt_id: str | None = None
    attempt_number: int = 0
    by_model: bool = False

    @property
    def status(self) -> EvidenceStatus:
        if self.skipped:
            return EvidenceStatus.SKIPPED
        return EvidenceStatus.PASSED if self.passed else EvidenceStatus.FAILED


class VerificationObservation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Current status of the verification by one command. A later attempt supersedes an earlier one."""

    command: str
    status: str
    summary: str = ""
    kind: str = "runtime"
    exit_code: int | None = None
    attempt_id: str | None = None
    attempt_number: int = 0
    supersedes: str | None = None


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
    """One decision. `timestamp` is UTC, ISO 8601; kinds and codes are texts, so unknown ones can be kept."""

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


TRACE_LENGTH = 8
COMPLETION_PREFIX = "completion: "


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
    """Return the latest completion decisions of the timeline; `legacy` entries are used only if it has none."""
    found = [_projected(entry) for entry in timeline if entry.kind.startswith("completion_")]
    return (found or list(legacy))[-TRACE_LENGTH:]


def _projected(entry: WorkflowTimelineEntry) -> CompletionTraceEntry:
    return CompletionTraceEntry(
        stage=entry.policy_stage or "",
        outcome=entry.policy_outcome or "",
        decision_code=entry.reason_code,
        decision_summary=entry.summary.removeprefix(COMPLETION_PREFIX),
        evidence_summary=list(entry.evidence_summary),
        evidence_provenance=list(entry.evidence_provenance),
    )


class PromptSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One system prompt as sent. `prompt_sections` are the names of its variable sections, in order."""

    timestamp: str
    workflow_mode: str
    permission_mode: str = ""
    current_task: str | None = None
    prompt_format: str | None = None
    prompt_sections: list[str] = []
    content: str = ""


def is_new(snapshot: PromptSnapshot, last: PromptSnapshot | None) -> bool:
    """False if only the time or the task differs from the last snapshot: an equal prompt is not stored twice."""
    if last is None:
        return True
    return msgspec.structs.replace(snapshot, timestamp=last.timestamp, current_task=last.current_task) != last


class WorkflowLedgerItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    text: str
    status: str = ""
    introduced_phase: str = ""
    updated_phase: str | None = None
    evidence: list[str] = []


class WorkflowLedger(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    assumptions: list[WorkflowLedgerItem] = []
    acceptance_anchors: list[WorkflowLedgerItem] = []
    decision_boundaries: list[WorkflowLedgerItem] = []


RETRIES = 3


class DoneStatus(StrEnum):
    DRAFT = "draft"
    IN_PROGRESS = "in_progress"
    VERIFYING = "verifying"
    FIXING = "fixing"
    DONE = "done"
    FAILED = "failed"


class TaskSize(StrEnum):
    SMALL = "small"
    STANDARD = "standard"
    LARGE = "large"


class DefinitionOfDone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`failed_commands` are those whose last run failed; `line_changes` counts lines written or replaced;
    `verification_commands` are those of the latest attempt, `planned_commands` those that the plan requires.

    The paths of brief and plans are set if they were exported; the log holds the originals.
    """

    task_statement: str
    acceptance_criteria: list[str] = []
    verification_commands: list[str] = []
    planned_commands: list[str] = []
    pending_items: list[str] = []
    completed_items: list[str] = []
    evidence: list[VerificationEvidence] = []
    confidence: str = "medium"
    status: str = "draft"
    task_size: str = "small"
    retry_budget: int = RETRIES
    retry_count: int = 0
    touched_files: list[str] = []
    successful_commands: list[str] = []
    failed_commands: list[str] = []
    mutating_actions: list[str] = []
    line_changes: int = 0
    storage_path: str | None = None
    last_verification_result: str | None = None
    verification_attempt_counter: int = 0
    active_verification_attempt_id: str | None = None
    active_verification_attempt_number: int = 0
    current_mode: str = "execute"
    mode_history: list[str] = []
    clarify_brief_path: str | None = None
    implementation_plan_path: str | None = None
    verification_plan_path: str | None = None

    @property
    def mutated(self) -> bool:
        return bool(self.mutating_actions)

    def of_attempt(self) -> list[VerificationEvidence]:
        """Return the evidence of the active attempt."""
        active = self.active_verification_attempt_id
        return [item for item in self.evidence if active is not None and item.attempt_id == active]
