"""What is known about finished work, and where it is known from."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from outlast.core.workflow_records import EvidenceProvenance


class EvidenceKind(StrEnum):
    """What the work has shown about the brief, the plan and the ledger."""

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
