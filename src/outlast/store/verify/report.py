"""The result of a verification as data."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class DamageKind(StrEnum):
    """The part of the store that a finding is about."""

    EVENT = "event"
    HEADER = "header"
    KEY = "key"
    SNAPSHOT = "snapshot"
    BLOB = "blob"
    DRAFT = "draft"
    ROUTE = "route"
    LINEAGE = "lineage"
    LIST = "list"
    STORE = "store"


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One problem. `seq` to `upto` is a range of events.

    `damage` False is information only: nothing is lost or wrong.
    """

    what: DamageKind
    text: str
    session_id: str | None = None
    seq: int | None = None
    upto: int | None = None
    damage: bool = True

    def line(self) -> str:
        """The finding in one sentence."""
        where = f"session {self.session_id}" if self.session_id else "the store"
        if self.seq is not None and self.upto is not None and self.upto > self.seq:
            where += f", events {self.seq} to {self.upto}"
        elif self.seq is not None:
            where += f", event {self.seq}"
        return f"{where}: {self.text}"


class VerifyReport(msgspec.Struct, kw_only=True):
    """How much was checked, and the findings."""

    sessions: int = 0
    events: int = 0
    keys: int = 0
    blobs: int = 0
    snapshots: int = 0
    findings: list[Finding] = []

    @property
    def damage(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.damage]

    @property
    def ok(self) -> bool:
        return not self.damage

    @property
    def damaged_sessions(self) -> list[str]:
        return sorted({finding.session_id for finding in self.damage if finding.session_id})

    @property
    def damaged_events(self) -> set[tuple[str, int]]:
        """Session and seq of every event that is missing, changed or not proven."""
        found: set[tuple[str, int]] = set()
        for finding in self.damage:
            if finding.what is DamageKind.EVENT and finding.session_id and finding.seq is not None:
                last = finding.seq if finding.upto is None else finding.upto
                found |= {(finding.session_id, seq) for seq in range(finding.seq, last + 1)}
        return found
