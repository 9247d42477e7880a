"""The header of a session: what a list shows, kept in the same commit as every append.

A header is a fold of its log, but one that needs no read: each event contributes a `Delta` that depends on the event
alone, and `apply` adds it up. The PostgreSQL function does the same sums in SQL; `verify` recomputes them here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from outlast.core import events as e
from outlast.core.messages import Part, Role, Usage, text_of
from outlast.core.text import text_tokens

HEADER_VERSION = 4
"""Raise it whenever an event comes to mean another header: what a cache kept of an older one is not believed."""

TITLE_LENGTH = 50
EXCERPT_LENGTH = 120
NAME_LENGTH = 200

PLAN = "plan"

ACTIVE, ENDED, ARCHIVED = "active", "ended", "archived"
UNARCHIVED = "unarchived"
"""What a delta says of a session that is again what it was before it was archived; no header has this state."""

REQUESTS = {"clear": 1, "rewind": 2, "unrewind": 4, "compact": 8, "uncompact": 16, "rotate": 32}
OTHER_REQUEST = 64
"""A bit for each boundary that a door can ask for, and one for those that this Outlast does not know."""


class Header(msgspec.Struct, kw_only=True, omit_defaults=True):
    """At most about 1 KiB. `epoch` and the lease are facts of the store, the rest folds from the log.

    `was_ended` says of an archived session that it had ended before: it still takes no input. Events up to
    `imported_seq` came from a file: they are history, and nothing that they permit counts here. `estimated_tokens` is
    about what was admitted since a provider last told how much it had read, `plan_mode` whether the session is to look
    and plan only, `requests` the boundaries that were asked for and not drawn yet (`REQUESTS`). `work_since` is the
    time of the event since which there has been work without a break, None while there is none. `place` is where its
    project is: a label, or `@` and a host; None where nobody said.
    """

    session_id: str
    owner_id: str = "local"
    root_id: str = ""
    base_id: str | None = None
    base_seq: int = 0
    parent_session_id: str | None = None
    depth: int = 0
    project_key: str | None = None
    project_root: str | None = None
    project_fingerprint: str | None = None
    title: str | None = None
    titled: bool = False
    state: str = ACTIVE
    rotated_to: str | None = None
    model: str | None = None
    persona: str | None = None
    message_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    pending_count: int = 0
    pending_text: str | None = None
    pending_at: int | None = None
    turn: str | None = None
    boundary_seq: int = 0
    last_seq: int = 0
    head_hash: bytes = b""
    created_at: int = 0
    updated_at: int = 0
    last_message_at: int | None = None
    epoch: int = 0
    deleted_at: int | None = None
    deleted_by: str | None = None
    was_ended: bool = False
    imported_seq: int = 0
    estimated_tokens: int = 0
    plan_mode: bool = False
    requests: int = 0
    work_since: int | None = None
    place: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it takes no more input, archived or not."""
        return self.state == ENDED or self.was_ended

    @property
    def has_work(self) -> bool:
        """Whether a driver is needed: for an input nobody has answered, an open turn, a boundary asked for."""
        return (self.pending_count > 0 or self.turn is not None or self.requests != 0) and not self.has_ended

    @property
    def is_as_imported(self) -> bool:
        """Whether it came from a file and nobody has gone on with it here: then nobody goes on with it unasked."""
        return 0 < self.last_seq == self.imported_seq


class Delta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What one event changes in its header."""

    messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    pending: int = 0
    pending_text: str | None = None
    title: str | None = None
    first_title: str | None = None
    state: str | None = None
    rotated_to: str | None = None
    model: str | None = None
    persona: str | None = None
    turn: str | None = None
    turn_over: bool = False
    boundary: bool = False
    estimated: int = 0
    reported: bool = False
    plan_mode: bool | None = None
    requested: int = 0
    settled: int = 0


NOTHING = Delta()
REDACTED = "[redacted]"


def counted(delta: Delta) -> dict[str, int]:
    """The sums in a delta, as kept beside a redacted body so that its header can still be recomputed."""
    names = ("messages", "input_tokens", "output_tokens", "pending", "estimated", "requested", "settled")
    sums = {name: getattr(delta, name) for name in names if getattr(delta, name)}
    return sums if delta.plan_mode is None else {**sums, "plan_mode": int(delta.plan_mode)}


def title_from(text: str) -> str | None:
    """The first 50 characters of a first message, on one line."""
    title = shown(text, TITLE_LENGTH)
    if title.isprintable():
        return title if title.strip() else None
    title = title.translate(_ONE_LINE)
    return None if title.isspace() else title or None


_ONE_LINE = {ord(character): " " for character in "\t\n\v\f\r"}


def excerpt_of(parts: tuple[Part, ...]) -> str:
    return shown(text_of(parts), EXCERPT_LENGTH)


def shown(text: str, limit: int = NAME_LENGTH) -> str:
    """The beginning of a text as every store's list can hold it: valid Unicode, without NUL."""
    text = text[:limit]
    if text.isprintable():  # no NUL, no surrogate
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def _name(text: str | None) -> str | None:
    return None if text is None else shown(text)


def delta_of(event: e.Event | e.Opaque, turn: str | None = None) -> Delta:
    """What this event adds to its header; total over the union, nothing for kinds we do not know."""
    match event:
        case e.MessageAppended(role=role, parts=parts):
            first = title_from(text_of(parts)) if role is Role.USER else None
            return Delta(messages=1, first_title=first)
        case e.InputAdmitted(parts=parts):
            return _admitted(text_of(parts))
        case e.AssistantReplied(usage=usage):  # which model answered is the reply's business; the session's is chosen
            return _counted(usage, messages=1, reported=usage.input_tokens > 0)
        case e.ReplyInterrupted(usage=usage):
            return _counted(usage, reported=usage.input_tokens > 0)
        case e.UsageRecorded(usage=usage):
            return _counted(usage)
        case e.ToolCallFinished():
            return Delta(messages=1)
        case e.Compacted(usage=usage):
            return _counted(usage, boundary=True, settled=_SETTLED["Compacted"])
        case e.CompactionUndone() | e.HistoryCleared() | e.Rewound() | e.RewindUndone():
            return Delta(boundary=True, settled=_SETTLED[e.KIND_OF[type(event)]])
        case e.BoundaryRequested(what=what):
            return Delta(requested=_request(what))
        case e.RuntimeStateChanged(changes=changes):
            return _runtime(changes)
        case e.TurnStarted():
            return Delta(turn=turn)
        case e.TurnEnded(answered=answered):
            return Delta(pending=-len(answered), turn_over=True)
        case e.InputWithdrawn(inputs=inputs):
            return Delta(pending=-len(inputs))
        case e.SessionCreated(title=title, model=model, persona=persona, settings=settings):
            plan = True if settings.get("plan_mode") is True else None
            return Delta(title=_name(title), model=_name(model), persona=_name(persona), plan_mode=plan)
        case e.SessionForked(carried_inputs=carried):
            return Delta(pending=len(carried))
        case e.SessionRenamed(title=title):
            return Delta(title=_name(title))
        case e.SessionRotated(to_session_id=to):
            return Delta(state=ENDED, rotated_to=_name(to), settled=REQUESTS["rotate"])
        case e.SessionClosed():
            return Delta(state=ENDED)
        case e.SessionReopened():
            return Delta(state=ACTIVE)
        case e.SessionUnarchived():
            return Delta(state=UNARCHIVED)
        case e.SessionArchived():
            return Delta(state=ARCHIVED)
        case e.ModelChanged(model=model):
            return Delta(model=_name(model))
        case e.PersonaChanged(persona=persona):
            return Delta(persona=_name(persona))
        case e.EventRedacted(counted=counted):  # whoever drives the session cannot tell what was asked for
            return Delta(settled=counted.get("requested", 0))
        case _:
            return NOTHING


def _admitted(text: str) -> Delta:
    return Delta(
        messages=1,
        pending=1,
        pending_text=shown(text, EXCERPT_LENGTH),
        first_title=title_from(text),
        estimated=text_tokens(text),
    )


def _counted(
    usage: Usage, *, messages: int = 0, reported: bool = False, boundary: bool = False, settled: int = 0
) -> Delta:
    return Delta(
        messages=messages,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        reported=reported,
        boundary=boundary,
        settled=settled,
    )


def _request(what: str) -> int:
    return REQUESTS.get(what, OTHER_REQUEST)


def _runtime(changes: Mapping[str, Any]) -> Delta:
    """Of what the runtime notes, a list shows whether only plans are made; and a boundary may have been refused."""
    plan = changes["workflow_mode"] == PLAN if "workflow_mode" in changes else None
    refused = changes.get("boundary_refused")
    settled = 0
    if isinstance(refused, dict):
        settled = _request(str(cast("dict[str, Any]", refused).get("what")))
    return Delta(plan_mode=plan, settled=settled)


def imported(delta: Delta) -> Delta:
    """What an event adds that came from a file: nothing that it has requested is carried out here."""
    return msgspec.structs.replace(delta, requested=0) if delta.requested else delta


_STATES = {
    "SessionRotated": ENDED,
    "SessionEnded": ENDED,
    "SessionReopened": ACTIVE,
    "SessionUnarchived": UNARCHIVED,
    "SessionArchived": ARCHIVED,
}
_BOUNDARIES = frozenset({"Compacted", "CompactionUndone", "HistoryCleared", "Rewound", "RewindUndone"})
_REPLIES = frozenset({"AssistantReplied", "ReplyInterrupted"})
_SETTLED = {
    "Compacted": REQUESTS["compact"],
    "CompactionUndone": REQUESTS["uncompact"],
    "HistoryCleared": REQUESTS["clear"],
    "Rewound": REQUESTS["rewind"],
    "RewindUndone": REQUESTS["unrewind"],
    "SessionRotated": REQUESTS["rotate"],
}
"""Which request is carried out by a boundary, by its kind."""


def delta_of_redacted(kind: str, turn: str | None, counted: Mapping[str, int]) -> Delta:
    """What a redacted event adds: its sums were kept (`counted`), the rest is told by its kind."""
    return Delta(
        messages=counted.get("messages", 0),
        input_tokens=counted.get("input_tokens", 0),
        output_tokens=counted.get("output_tokens", 0),
        pending=counted.get("pending", 0),
        estimated=counted.get("estimated", 0),
        reported=kind in _REPLIES and counted.get("input_tokens", 0) > 0,
        plan_mode=bool(counted["plan_mode"]) if "plan_mode" in counted else None,
        requested=counted.get("requested", 0),
        settled=_SETTLED.get(kind, 0) | counted.get("settled", 0),
        state=_STATES.get(kind),
        turn=turn if kind == "TurnStarted" else None,
        turn_over=kind == "TurnEnded",
        boundary=kind in _BOUNDARIES,
    )


def completed(kind: str, delta: Delta) -> Delta:
    """What was kept of a redacted event, perhaps by an older version, with what its kind tells."""
    reported = delta.reported or (kind in _REPLIES and delta.input_tokens > 0)
    return msgspec.structs.replace(delta, reported=reported, settled=delta.settled | _SETTLED.get(kind, 0))


def life_after(state: str, was_ended: bool, change: str) -> tuple[str, bool]:
    """The state, and whether there is an end below it. Archiving hides a session and changes nothing else about it."""
    if change == ARCHIVED:
        return ARCHIVED, was_ended or state == ENDED
    if change == UNARCHIVED:
        return (ENDED if was_ended else ACTIVE, False) if state == ARCHIVED else (state, was_ended)
    return change, False


def apply(header: Header, delta: Delta, *, seq: int, at: int, now: int, touch: bool) -> None:
    """Add one event to a header in place. `now` is the store's clock; `touch` False leaves `updated_at` alone."""
    header.last_seq = seq
    header.message_count += delta.messages
    header.input_tokens += delta.input_tokens
    header.output_tokens += delta.output_tokens
    header.estimated_tokens = (0 if delta.reported else header.estimated_tokens) + delta.estimated
    if delta.messages:
        header.last_message_at = at
    if delta.title is not None:
        header.title, header.titled = delta.title, True
    elif delta.first_title is not None and header.title is None:
        header.title = delta.first_title
    if delta.state is not None:
        header.state, header.was_ended = life_after(header.state, header.was_ended, delta.state)
    header.rotated_to = delta.rotated_to or header.rotated_to
    header.model = delta.model or header.model
    header.persona = delta.persona or header.persona
    if delta.plan_mode is not None:
        header.plan_mode = delta.plan_mode
    if delta.pending_text is not None:
        header.pending_text, header.pending_at = delta.pending_text, at
    header.pending_count = max(0, header.pending_count + delta.pending)
    if header.pending_count == 0:
        header.pending_text = header.pending_at = None
    if delta.turn_over:
        header.turn = None
    elif delta.turn is not None:
        header.turn = delta.turn
    if delta.boundary:
        header.boundary_seq = seq
    header.requests = header.requests & ~delta.settled | delta.requested
    if not header.has_work:
        header.work_since = None
    elif header.work_since is None:
        header.work_since = at
    if touch:
        header.updated_at = max(now, header.updated_at + 1)
