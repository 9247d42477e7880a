"""The completion trace: why a turn went on or stopped, projected from the timeline."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from outlast.runtime.workflow.evidence import EvidenceProvenance
from outlast.runtime.workflow.timeline import WorkflowTimelineEntry

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
