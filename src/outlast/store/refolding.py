"""What a migration cannot say in SQL: fields of a header that only its events tell.

Migration 4 gave headers an estimate of tokens, plan mode, the boundaries asked for, and since when there is work. For
sessions that older versions wrote they are added up here, by the very sums that `verify` makes; so every header can be
verified afterwards, whoever wrote it. A session that cannot be read is left as it is: `verify` names it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from outlast.core.events import EventRedacted
from outlast.core.log import StoredEvent
from outlast.store.recount import Recount
from outlast.store.sealing import event_of
from outlast.store.tx import Row

DECISIVE = (
    "AssistantReplied",
    "BoundaryRequested",
    "Compacted",
    "CompactionUndone",
    "EventRedacted",
    "HistoryCleared",
    "InputAdmitted",
    "InputWithdrawn",
    "ReplyInterrupted",
    "RewindUndone",
    "Rewound",
    "RuntimeStateChanged",
    "SessionArchived",
    "SessionCreated",
    "SessionEnded",
    "SessionForked",
    "SessionReopened",
    "SessionRotated",
    "SessionUnarchived",
    "TurnEnded",
    "TurnStarted",
)
"""The kinds that have a say in these fields; the others need not be read."""


PLANNING = ("SessionCreated", "RuntimeStateChanged")


class Past(Protocol):
    """What an adapter shows of its store while it is being upgraded."""

    def row(self, session_id: str) -> Row | None:
        """The header as it is stored, a tombstone too; None where it cannot be read."""
        ...

    def events(self, row: Row, kinds: tuple[str, ...], upto: int) -> Iterable[StoredEvent]:
        """The session's own events of these kinds up to that one, ascending."""
        ...

    def blob(self, row: Row, sha256: str) -> bytes: ...


def refold(row: Row, past: Past) -> bool:
    """Fill in the fields from the session's own events; whether one changed."""
    before = _fields(row)
    recount = _recounted(row, past, DECISIVE, row.last_seq)
    told = recount.header
    row.estimated_tokens, row.requests, row.work_since = told.estimated_tokens, told.requests, told.work_since
    row.plan_mode = told.plan_mode if recount.plan_said else _inherited_plan(row, past)
    return _fields(row) != before


def _recounted(row: Row, past: Past, kinds: tuple[str, ...], upto: int) -> Recount:
    redactions = [event_of(stored) for stored in past.events(row, ("EventRedacted",), row.last_seq)]
    counted = {event.seq: event.counted for event in redactions if isinstance(event, EventRedacted)}
    recount = Recount(row.session_id, 0, counted, row.imported_seq)
    for stored in past.events(row, kinds, upto):
        recount.add(stored, event_of(stored, lambda sha256: past.blob(row, sha256)))
    return recount


def _inherited_plan(row: Row, past: Past) -> bool:
    """A fork goes on in the mode that its history ends in."""
    while row.base_id is not None and (base := past.row(row.base_id)) is not None:
        recount = _recounted(base, past, PLANNING, row.base_seq)
        if recount.plan_said:
            return recount.header.plan_mode
        row = base
    return False


def _fields(row: Row) -> tuple[int, bool, int, int | None]:
    return row.estimated_tokens, row.plan_mode, row.requests, row.work_since
