"""What is known about finished work, and where it is known from."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class EvidenceStatus(StrEnum):
    """What a verification has come to."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    MISSING = "missing"
    STALE = "stale"
    SKIPPED = "skipped"


class CommandKind(StrEnum):
    TEST = "test"
    TYPECHECK = "typecheck"
    LINT = "lint"
    BUILD = "build"
    SMOKE = "smoke"
    RUNTIME = "runtime"
    MANUAL = "manual"


class EvidenceProvenance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of evidence: what it is about (`subject`), what it says, and which record it comes from."""

    category: str
    source: str
    summary: str
    status: str = ""
    subject: str | None = None
    attempt_id: str | None = None


class VerificationEvidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a verification command said. `skipped`: it could not be run (denied, or the program is not installed)."""

    command: str
    passed: bool = False
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    kind: str = "runtime"
    skipped: bool = False
    attempt_id: str | None = None
    attempt_number: int = 0

    @property
    def status(self) -> EvidenceStatus:
        if self.skipped:
            return EvidenceStatus.SKIPPED
        return EvidenceStatus.PASSED if self.passed else EvidenceStatus.FAILED


class VerificationObservation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the verification by one command stands. A later attempt supersedes what an earlier one showed."""

    command: str
    status: str
    summary: str = ""
    kind: str = "runtime"
    exit_code: int | None = None
    attempt_id: str | None = None
    attempt_number: int = 0
    supersedes: str | None = None


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
