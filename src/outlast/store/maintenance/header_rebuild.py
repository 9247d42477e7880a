"""Recomputes headers from their logs: `Recount` for verification, `refold` for migrations.

Not every header field comes from events: `Create` sets the owner, the project and what a fork inherits, and redaction
removes texts for good. So `Recount` compares only the fields that the log determines.

Migration 4 added estimated tokens, plan mode, requested boundaries and `work_since`, which SQL cannot compute. `refold`
computes them for sessions of older versions with the same sums as `verify`, so that every header can be verified
afterwards. Sessions that cannot be read stay unchanged: `verify` reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.events import EventRedacted
from outlast.core.header import NOTHING, Delta, Header, apply, delta_of, delta_of_redacted, imported, shown
from outlast.store.engine.encode import event_of
from outlast.store.engine.transaction import HeaderRow

MESSAGES = frozenset({"MessageAppended", "InputAdmitted", "AssistantReplied", "ToolCallFinished"})

ALWAYS = (
    "message_count",
    "pending_count",
    "turn",
    "state",
    "was_ended",
    "rotated_to",
    "titled",
    "boundary_seq",
    "last_message_at",
    "estimated_tokens",
    "requests",
    "work_since",
)
SUMS = ("input_tokens", "output_tokens")
WHERE_SAID = ("title", "model", "persona", "pending_text", "pending_at")
"""Fields that `Create` may have set: compared only if an event sets them."""
OF_CREATION = ("parent_session_id", "project_key", "project_root", "project_fingerprint", "depth")


class Recount:
    """Recomputes a header from the session's own events. `inherited` is the number of inherited messages, None if
    unknown; `counted` is what redacted events had added; events up to `imported_seq` came from a file."""

    def __init__(
        self,
        session_id: str,
        inherited: int | None,
        counted: Mapping[int, Mapping[str, int]],
        imported_seq: int = 0,
    ) -> None:
        self.header = Header(session_id=session_id, message_count=inherited or 0, imported_seq=imported_seq)
        self.comparable = inherited is not None
        self.redacted = 0
        self._counted = counted
        self._created: e.SessionCreated | None = None
        self.plan_said = False

    def add(self, stored: StoredEvent, event: e.Event | e.Opaque) -> None:
        delta = self._delta(stored, event)
        if stored.seq <= self.header.imported_seq:
            delta = imported(delta)
        if isinstance(event, e.SessionCreated):
            self._created = event
        self.plan_said = self.plan_said or delta.plan_mode is not None
        apply(self.header, delta, seq=stored.seq, at=stored.at, now=0, touch=False)

    def _delta(self, stored: StoredEvent, event: e.Event | e.Opaque) -> Delta:
        if stored.redacted:
            self.redacted += 1
            return delta_of_redacted(stored.kind, stored.turn, self._counted.get(stored.seq, {}))
        if isinstance(event, e.Opaque):
            # A newer Outlast may have counted this event, which this version does not know.
            self.comparable = False
            return NOTHING
        return delta_of(event, stored.turn)

    def differences(self, stored: Header) -> Iterator[str]:
        """The differences between the stored header and its log, in words."""
        if not self.comparable:
            return
        told, inherits = self.header, stored.base_seq > 0
        for name in ALWAYS:
            if getattr(stored, name) != getattr(told, name) and not self._may_differ(name, inherits):
                yield f"{name} is {getattr(stored, name)!r}, its log says {getattr(told, name)!r}"
        for name in SUMS:
            given = getattr(stored, name) - getattr(told, name)
            if given < 0 or (given and not inherits):
                yield f"{name} is {getattr(stored, name)}, its log says {getattr(told, name)}"
        for name in WHERE_SAID:
            said = getattr(told, name)
            if said is not None and getattr(stored, name) != said and not self._may_be_given(name, stored):
                yield f"{name} is {getattr(stored, name)!r}, its log says {said!r}"
        if self.plan_said and stored.plan_mode != told.plan_mode:
            yield f"plan_mode is {stored.plan_mode!r}, its log says {told.plan_mode!r}"
        yield from self._of_creation(stored)

    def _may_differ(self, name: str, inherits: bool) -> bool:
        """Whether `Create` or a redaction can explain the difference; only if no event sets the field."""
        if getattr(self.header, name):
            return False
        match name:
            case "titled":
                return True
            case "boundary_seq" | "last_message_at":
                return inherits
            case "rotated_to":
                return self.redacted > 0
            case _:
                return False

    def _may_be_given(self, name: str, stored: Header) -> bool:
        """Whether `Create` or a redaction can explain the value: a first message does not replace a given title."""
        return self.redacted > 0 or (name == "title" and not self.header.titled and stored.title is not None)

    def _of_creation(self, stored: Header) -> Iterator[str]:
        for name in OF_CREATION:
            said = getattr(self._created, name, None)
            if said and _plain(said) != _plain(getattr(stored, name)):
                yield f"{name} is {getattr(stored, name)!r}, its first event says {said!r}"
        place = self._created.settings.get("place") if self._created is not None else None
        if place and place != stored.place and not stored.imported_seq:  # imports do not carry a place
            yield f"place is {stored.place!r}, its first event says {place!r}"


def _plain(value: object) -> object:
    return shown(value, len(value)) if isinstance(value, str) else value


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
"""The kinds of events that affect the fields of `refold`; the others need not be read."""


PLANNING = ("SessionCreated", "RuntimeStateChanged")


class StoredHistory(Protocol):
    """Read access to a store during its upgrade."""

    def row(self, session_id: str) -> HeaderRow | None:
        """The stored header, tombstones included; None if it cannot be read."""
        ...

    def events(self, row: HeaderRow, kinds: tuple[str, ...], upto: int) -> Iterable[StoredEvent]:
        """The session's own events of these kinds up to seq `upto`, ascending."""
        ...

    def blob(self, row: HeaderRow, sha256: str) -> bytes: ...


def refold(row: HeaderRow, past: StoredHistory) -> bool:
    """Compute the fields of migration 4 from the session's events; return whether one changed."""
    before = _fields(row)
    recount = _recounted(row, past, DECISIVE, row.last_seq)
    told = recount.header
    row.estimated_tokens, row.requests, row.work_since = told.estimated_tokens, told.requests, told.work_since
    row.plan_mode = told.plan_mode if recount.plan_said else _inherited_plan(row, past)
    return _fields(row) != before


def _recounted(row: HeaderRow, past: StoredHistory, kinds: tuple[str, ...], upto: int) -> Recount:
    redactions = [event_of(stored) for stored in past.events(row, ("EventRedacted",), row.last_seq)]
    counted = {event.seq: event.counted for event in redactions if isinstance(event, EventRedacted)}
    recount = Recount(row.session_id, 0, counted, row.imported_seq)
    for stored in past.events(row, kinds, upto):
        recount.add(stored, event_of(stored, lambda sha256: past.blob(row, sha256)))
    return recount


def _inherited_plan(row: HeaderRow, past: StoredHistory) -> bool:
    """Whether the inherited history ends in plan mode."""
    while row.base_id is not None and (base := past.row(row.base_id)) is not None:
        recount = _recounted(base, past, PLANNING, row.base_seq)
        if recount.plan_said:
            return recount.header.plan_mode
        row = base
    return False


def _fields(row: HeaderRow) -> tuple[int, bool, int, int | None]:
    return row.estimated_tokens, row.plan_mode, row.requests, row.work_since
