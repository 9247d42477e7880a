"""The shortest history that concerns a violation: the events in question, and what was done to the processes meanwhile.

Events are placed on the laboratory's own clock by the first client that heard of them: the writers' clocks jump.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.crash.client_log import Entry
from tests.crash.evidence import Evidence, Row, Unreadable
from tests.crash.violation import Violation

QUIET = frozenset(
    {
        "RuntimeStateChanged",
        "TimelineRecorded",
        "TraceRecorded",
        "LedgerUpdated",
        "PromptRecorded",
        "DefinitionOfDoneUpdated",
        "UsageRecorded",
    }
)
"""What says nothing about who did what."""
SHOWN = ("fault", "over", "gone", "ready", "calm")
MOST = 60


def history(violation: Violation, evidence: Evidence, diary: list[Entry]) -> list[str]:
    """Lines in the order of time; at most some, the last ones."""
    rows = [row for row in evidence.stored.rows.get(violation.session_id, []) if _concerns(row, violation)]
    heard = _heard(violation.session_id, evidence)
    lines: list[tuple[float, str]] = []
    at = 0.0
    for row in rows:
        at = max(at, heard.get(row.seq, at))
        lines.append((at, _told(row)))
    begin, end = (lines[0][0] - 12, lines[-1][0] + 2) if lines else (0.0, 0.0)
    lines += [(entry.at, _noted(entry)) for entry in diary if entry.what in SHOWN and begin <= entry.at <= end]
    lines += list(_acks(violation, diary))
    lines.sort(key=lambda line: line[0])
    return [f"{at:8.2f} s  {text}" for at, text in lines[-MOST:]]


def _concerns(row: Row, violation: Violation) -> bool:
    return violation.first <= row.seq <= max(violation.last, violation.first) and row.kind not in QUIET


def _heard(session_id: str, evidence: Evidence) -> dict[int, float]:
    found: dict[int, float] = {}
    for log in evidence.logs:
        if log.session_id == session_id:
            for heard in log.heard:
                found[heard.seq] = min(heard.when, found.get(heard.seq, heard.when))
    return found


def _told(row: Row) -> str:
    try:
        said = row.said()
    except Unreadable as error:
        return f"  {row.seq:5} {row.kind} {error}"
    facts = {
        name: said[name] for name in ("call_id", "status", "attempt", "outcome", "answered", "reason") if name in said
    }
    epoch = f" epoch {row.epoch}" if row.epoch is not None else ""
    return f"  {row.seq:5} {row.kind}{epoch} {facts or ''}"


def _noted(entry: Entry) -> str:
    facts = " ".join(f"{name}={value}" for name, value in entry.facts.items() if value != 0.0)
    return f"{entry.what} {entry.who} {facts}"


def _acks(violation: Violation, diary: list[Entry]) -> Iterator[tuple[float, str]]:
    names = set(violation.job.split(", "))
    for entry in diary:
        if entry.what == "ack" and entry.who in names:
            yield entry.at, f"acknowledged {entry.who} as event {entry.facts['seq']}"
