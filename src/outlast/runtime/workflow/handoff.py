"""Hand-offs: from one mode to the next, after drift too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.core.workflow_mode import DecisionKind, WorkflowMode
from outlast.core.workflow_records import EntryKind, WorkflowTimelineEntry
from outlast.runtime.workflow.drift import Drift, Strategy
from outlast.runtime.workflow.evidence import DriftEvidence, provenance_of
from outlast.runtime.workflow.router import SUMMARIES as ROUTE_SUMMARIES
from outlast.runtime.workflow.router import Route

SUMMARIES = {
    "stale_plan_artifacts": ROUTE_SUMMARIES["stale_plan_artifacts"],
    "plan_refresh_completed": "the plan was brought up to date",
    "clarify_reentry_required": "the brief no longer fits the work and has to be clarified again",
    "clarify_reentry_plan_created": "a plan was made from the clarified brief",
    "full_replan_requires_clarify": "neither brief nor plan fits the work: clarify first, then plan anew",
    "full_replan_required": "neither brief nor plan fits the work: plan anew",
    "full_replan_completed": "the work was planned anew",
}


class Handoff(msgspec.Struct, frozen=True, kw_only=True):
    """The mode to go on in, and why."""

    kind: EntryKind
    mode: WorkflowMode
    reason_code: str
    summary: str
    decision_kind: DecisionKind
    next_mode: WorkflowMode | None = None
    evidence: tuple[DriftEvidence, ...] = ()

    def entry(self, timestamp: str, artifact_paths: Sequence[str] = ()) -> WorkflowTimelineEntry:
        return WorkflowTimelineEntry(
            timestamp=timestamp,
            kind=str(self.kind),
            mode=str(self.mode),
            reason_code=self.reason_code,
            summary=f"{self.mode}: {self.summary}",
            decision_kind=str(self.decision_kind),
            scheduled_next_mode=None if self.next_mode is None else str(self.next_mode),
            evidence_summary=[item.text for item in self.evidence],
            evidence_provenance=provenance_of(self.evidence, "workflow.drift"),
            artifact_paths=list(artifact_paths),
        )

    def changes(self) -> dict[str, Any]:
        return {
            "workflow_mode": str(self.mode),
            "workflow_reason_code": self.reason_code,
            "workflow_reason_summary": self.summary,
            "workflow_decision_kind": str(self.decision_kind),
            "workflow_scheduled_next_mode": None if self.next_mode is None else str(self.next_mode),
        }


def after_drift(found: Drift, *, clarify_allowed: bool, route: Route) -> Handoff | None:
    """Where drift leads; None when there is none. `route` is what the router says now: it decides where a brief is
    stale and nobody can be asked."""
    if found.strategy is None:
        return None
    if found.strategy is Strategy.PLAN_REFRESH:
        return _reentry("stale_plan_artifacts", WorkflowMode.PLAN, WorkflowMode.EXECUTE, found)
    if found.strategy is Strategy.FULL_REPLAN and clarify_allowed:
        return _reentry("full_replan_requires_clarify", WorkflowMode.CLARIFY, WorkflowMode.PLAN, found)
    if found.strategy is Strategy.FULL_REPLAN:
        return _reentry("full_replan_required", WorkflowMode.PLAN, WorkflowMode.EXECUTE, found)
    if clarify_allowed:
        return _reentry("clarify_reentry_required", WorkflowMode.CLARIFY, route.mode, found)
    return rerouted(route, found.evidence)


def _reentry(code: str, mode: WorkflowMode, then: WorkflowMode, found: Drift) -> Handoff:
    return Handoff(
        kind=EntryKind.REENTRY,
        mode=mode,
        reason_code=code,
        summary=SUMMARIES[code],
        decision_kind=DecisionKind.REENTRY,
        next_mode=then,
        evidence=found.evidence,
    )


def rerouted(route: Route, evidence: tuple[DriftEvidence, ...] = ()) -> Handoff:
    """The router's word after drift, marked as such."""
    return Handoff(
        kind=EntryKind.HANDOFF,
        mode=route.mode,
        reason_code=f"post_drift_{route.reason_code}",
        summary=f"after drift: {route.summary}",
        decision_kind=DecisionKind.HANDOFF,
        next_mode=route.scheduled_next_mode,
        evidence=evidence,
    )


_PLANNED = {
    Strategy.PLAN_REFRESH: (EntryKind.PLAN_REFRESH, "plan_refresh_completed"),
    Strategy.CLARIFY_REENTRY: (EntryKind.HANDOFF, "clarify_reentry_plan_created"),
    Strategy.FULL_REPLAN: (EntryKind.PLAN_REFRESH, "full_replan_completed"),
}


def planned(strategy: Strategy) -> Handoff:
    """Back to the work, with the plan that this strategy led to."""
    kind, code = _PLANNED[strategy]
    return Handoff(
        kind=kind,
        mode=WorkflowMode.EXECUTE,
        reason_code=code,
        summary=SUMMARIES[code],
        decision_kind=DecisionKind.HANDOFF,
        next_mode=WorkflowMode.VERIFY,
    )


def handed_over(mode: WorkflowMode, reason_code: str, summary: str, then: WorkflowMode | None = None) -> Handoff:
    """An ordinary step from one mode to the next."""
    return Handoff(
        kind=EntryKind.HANDOFF,
        mode=mode,
        reason_code=reason_code,
        summary=summary,
        decision_kind=DecisionKind.HANDOFF,
        next_mode=then,
    )
