"""The ledger: assumptions, acceptance anchors and decision boundaries of the work, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from outlast.core.workflow_records import WorkflowLedger, WorkflowLedgerItem
from outlast.runtime.workflow.evidence import DriftEvidence, EvidenceKind
from outlast.runtime.workflow.text_similarity import best_match, normalised

LENGTH = 64
"""Items per list; the oldest that nothing has happened to make room."""


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
    """The ledger with these texts in it. One that is there already, however it is written, keeps what it has become."""
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
    """The ledger after drift: the item that each piece of evidence fits best is marked, with the evidence and phase."""
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
    while len(merged) > LENGTH:
        untouched = (at for at, item in enumerate(merged) if item.status == status)
        del merged[next(untouched, 0)]
    return merged
