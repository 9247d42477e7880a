"""Detects drift: where the work differs from its brief and plan, how to recover, and how the ledger changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from outlast.core.workflow_records import EvidenceProvenance, WorkflowLedger, WorkflowLedgerItem
from outlast.workflow.artifacts import Brief, WorkPlan, paths_in
from outlast.workflow.text_signals import best_match, likeness, meaningful, normalised


class EvidenceKind(StrEnum):
    """Kind of observation about the brief, the plan or the ledger."""

    CONFIRMED_TOUCHPOINT = "confirmed_touchpoint"
    INFERRED_TOUCHPOINT = "inferred_touchpoint"
    ACCEPTANCE_ANCHOR = "acceptance_anchor"
    CONTRADICTED_ASSUMPTION = "contradicted_assumption"
    VERIFICATION_CONTRADICTION = "verification_contradiction"
    TASK_BOUNDARY_CHANGE = "task_boundary_change"


class DriftEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: EvidenceKind
    text: str
    subject: str = ""


def provenance_of(found: Iterable[DriftEvidence], source: str) -> list[EvidenceProvenance]:
    return [
        EvidenceProvenance(
            category=item.kind, source=source, summary=item.text, status="observed", subject=item.subject or None
        )
        for item in found
    ]


class Strategy(StrEnum):
    PLAN_REFRESH = "plan_refresh"
    CLARIFY_REENTRY = "clarify_reentry"
    FULL_REPLAN = "full_replan"


PLAN_CODES = ("touched_files_outside_plan", "acceptance_criteria_outside_plan")
BRIEF_CODES = ("brief_missing_acceptance_scope", "touchpoints_outside_brief", "task_drifted_beyond_brief")

SUMMARIES = {
    "touched_files_outside_plan": "files were changed that the plan does not name",
    "acceptance_criteria_outside_plan": "there are acceptance criteria that the plan does not cover",
    "brief_missing_acceptance_scope": "the brief says nothing about what the work must fulfil",
    "touchpoints_outside_brief": "files were changed that the brief does not expect",
    "task_drifted_beyond_brief": "the task is no longer the one that the brief was made for",
}


class Reality(msgspec.Struct, frozen=True, kw_only=True):
    """The work actually done. Paths are relative to the project; `failed_commands` are commands that failed."""

    task: str
    touched_files: Sequence[str] = ()
    acceptance_criteria: Sequence[str] = ()
    failed_commands: Sequence[str] = ()


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    codes: tuple[str, ...] = ()
    evidence: tuple[DriftEvidence, ...] = ()

    @property
    def stale_plan(self) -> bool:
        return any(code in PLAN_CODES for code in self.codes)

    @property
    def stale_brief(self) -> bool:
        return any(code in BRIEF_CODES for code in self.codes)

    @property
    def strategy(self) -> Strategy | None:
        if self.stale_plan and self.stale_brief:
            return Strategy.FULL_REPLAN
        if self.stale_plan:
            return Strategy.PLAN_REFRESH
        return Strategy.CLARIFY_REENTRY if self.stale_brief else None

    @property
    def summary(self) -> str:
        return "; ".join(SUMMARIES[code] for code in self.codes)


def drift(reality: Reality, brief: Brief | None, plan: WorkPlan | None) -> Drift:
    """Compare brief and plan with the work done. Without either there is no drift."""
    codes: list[str] = []
    found: list[DriftEvidence] = []
    if plan is not None:
        _from_plan(reality, plan, codes, found)
    if brief is not None:
        _from_brief(reality, brief, codes, found)
    if brief is not None or plan is not None:
        found += [
            _evidence(EvidenceKind.VERIFICATION_CONTRADICTION, f"Verification with `{command}` failed.", command)
            for command in reality.failed_commands
        ]
    return Drift(codes=tuple(codes), evidence=tuple(dict.fromkeys(found)))


def _from_plan(reality: Reality, plan: WorkPlan, codes: list[str], found: list[DriftEvidence]) -> None:
    outside = _outside(reality.touched_files, plan.touchpoints)
    if outside:
        codes.append("touched_files_outside_plan")
        found += [
            _evidence(
                EvidenceKind.CONFIRMED_TOUCHPOINT, f"`{path}` was changed though the plan does not name it.", path
            )
            for path in outside
        ]
    loose = _uncovered(reality.acceptance_criteria, [*plan.acceptance_criteria, *plan.steps, plan.task])
    if loose:
        codes.append("acceptance_criteria_outside_plan")
        found += [_evidence(EvidenceKind.ACCEPTANCE_ANCHOR, text, text) for text in loose]


def _from_brief(reality: Reality, brief: Brief, codes: list[str], found: list[DriftEvidence]) -> None:
    if reality.acceptance_criteria and not brief.acceptance_criteria:
        codes.append("brief_missing_acceptance_scope")
        found += [_evidence(EvidenceKind.ACCEPTANCE_ANCHOR, text, text) for text in reality.acceptance_criteria]
    outside = _outside(reality.touched_files, brief.likely_touchpoints)
    if outside:
        codes.append("touchpoints_outside_brief")
        found += [
            _evidence(
                EvidenceKind.CONFIRMED_TOUCHPOINT, f"`{path}` was changed though the brief does not expect it.", path
            )
            for path in outside
        ]
    found += _contradictions(reality, brief)
    if _is_other_task(reality.task, brief):
        codes.append("task_drifted_beyond_brief")
        text = f"The task is now: {reality.task}"
        found.append(_evidence(EvidenceKind.TASK_BOUNDARY_CHANGE, text, reality.task))
        found += [
            _evidence(EvidenceKind.INFERRED_TOUCHPOINT, f"The task now names `{path}`.", path)
            for path in _outside(paths_in(reality.task), brief.likely_touchpoints)
        ]


def _contradictions(reality: Reality, brief: Brief) -> list[DriftEvidence]:
    """Return evidence for changed files that a non-goal or an assumption of the brief names."""
    return [
        _evidence(EvidenceKind.CONTRADICTED_ASSUMPTION, f"Changed `{path}` against: {text}", path)
        for path in reality.touched_files
        for text in [*brief.non_goals, *brief.assumptions]
        if path.rsplit("/", 1)[-1].lower() in meaningful(text) or path.lower() in meaningful(text)
    ]


def _outside(paths: Sequence[str], expected: Sequence[str]) -> list[str]:
    """Return the paths that no expected file, folder or pattern covers; none if nothing in particular is expected."""
    wanted = [path for item in expected for path in (paths_in(item) or [item.strip("` ")])]
    if not wanted:
        return []
    return [path for path in paths if not any(covers(known, path) for known in wanted)]


def covers(known: str, path: str) -> bool:
    """Whether `known` (a file, a bare file name, a folder, or a pattern) matches `path`."""
    if known.endswith("/"):
        return path.startswith(known) or f"/{known}" in f"/{path}"
    return path == known or path.endswith(f"/{known}") or known.endswith(f"/{path}") or fnmatchcase(path, known)


def _uncovered(criteria: Sequence[str], known: Sequence[str]) -> list[str]:
    return [text for text in criteria if not any(likeness(text, other) for other in known)]


def _is_other_task(task: str, brief: Brief) -> bool:
    known = [brief.task, *brief.desired_outcome, *brief.acceptance_criteria]
    return len(meaningful(task)) >= 2 and not any(likeness(task, text) for text in known)


def _evidence(kind: EvidenceKind, text: str, subject: str) -> DriftEvidence:
    return DriftEvidence(kind=kind, text=text, subject=subject)


# --- the ledger ------------------------------------------------------------------------------------------------------


LEDGER_LENGTH = 64
"""Items per list; the oldest items that still have their first status are dropped first."""


FIRST_STATUS = {"assumptions": "open", "acceptance_anchors": "active", "decision_boundaries": "tracked"}
DRIFTED_STATUS = {"assumptions": "contradicted", "acceptance_anchors": "changed", "decision_boundaries": "reopened"}

_CONCERNS = {
    EvidenceKind.CONFIRMED_TOUCHPOINT: ("assumptions",),
    EvidenceKind.INFERRED_TOUCHPOINT: ("assumptions",),
    EvidenceKind.CONTRADICTED_ASSUMPTION: ("assumptions",),
    EvidenceKind.ACCEPTANCE_ANCHOR: ("acceptance_anchors",),
    EvidenceKind.VERIFICATION_CONTRADICTION: ("acceptance_anchors", "assumptions"),
    EvidenceKind.TASK_BOUNDARY_CHANGE: ("decision_boundaries",),
}


def introduced(
    ledger: WorkflowLedger,
    phase: str,
    *,
    assumptions: Sequence[str] = (),
    acceptance_anchors: Sequence[str] = (),
    decision_boundaries: Sequence[str] = (),
) -> WorkflowLedger:
    """Add these texts to the ledger. A text already in it, compared in normalised form, keeps its status."""
    return WorkflowLedger(
        assumptions=_with(ledger.assumptions, assumptions, phase, FIRST_STATUS["assumptions"]),
        acceptance_anchors=_with(
            ledger.acceptance_anchors, acceptance_anchors, phase, FIRST_STATUS["acceptance_anchors"]
        ),
        decision_boundaries=_with(
            ledger.decision_boundaries, decision_boundaries, phase, FIRST_STATUS["decision_boundaries"]
        ),
    )


def drifted(ledger: WorkflowLedger, evidence: Sequence[DriftEvidence], phase: str) -> WorkflowLedger:
    """Mark, for each piece of evidence, the ledger item that matches it best, with the evidence and phase."""
    lists = {name: list[WorkflowLedgerItem](getattr(ledger, name)) for name in FIRST_STATUS}
    for found in evidence:
        for name in _CONCERNS[found.kind]:
            items = lists[name]
            at = best_match(found.text, [item.text for item in items])
            if at is not None:
                items[at] = _marked(items[at], DRIFTED_STATUS[name], found.text, phase)
    return WorkflowLedger(**lists)


def _marked(item: WorkflowLedgerItem, status: str, evidence: str, phase: str) -> WorkflowLedgerItem:
    known = evidence in item.evidence
    if known and item.status == status:
        return item
    seen = item.evidence if known else [*item.evidence, evidence]
    return msgspec.structs.replace(item, status=status, updated_phase=phase, evidence=seen)


def _with(
    items: Sequence[WorkflowLedgerItem], texts: Sequence[str], phase: str, status: str
) -> list[WorkflowLedgerItem]:
    known = {normalised(item.text) for item in items}
    merged = list(items)
    for text in texts:
        if (key := normalised(text)) and key not in known:
            known.add(key)
            merged.append(WorkflowLedgerItem(text=text.strip(), status=status, introduced_phase=phase))
    while len(merged) > LEDGER_LENGTH:
        untouched = (at for at, item in enumerate(merged) if item.status == status)
        del merged[next(untouched, 0)]
    return merged
