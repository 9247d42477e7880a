"""The header of a session: the summary that lists show, updated in the same commit as every append.

A header is a fold of the log that needs no reads: each event contributes a `Delta` that depends on the event alone, and
`apply` adds it up. The PostgreSQL function computes the same sums in SQL; `verify` recomputes them here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from outlast.core import events as e
from outlast.core.messages import Part, Role, Usage, text_of
from outlast.core.text import text_tokens

HEADER_VERSION = 4
"""Increment it when an event changes the header in another way than before: caches of older versions are ignored."""

TITLE_LENGTH = 50
EXCERPT_LENGTH = 120
NAME_LENGTH = 200

PLAN = "plan"

ACTIVE, ENDED, ARCHIVED = "active", "ended", "archived"
UNARCHIVED = "unarchived"
"""Only in a delta, never in a header: the session returns to the state it had before it was archived."""

REQUESTS = {"clear": 1, "rewind": 2, "unrewind": 4, "compact": 8, "uncompact": 16, "rotate": 32}
OTHER_REQUEST = 64
"""One bit per boundary that a door can request, and one for all requests that this Outlast does not know."""


class Header(msgspec.Struct, kw_only=True, omit_defaults=True):
    """At most about 1 KiB. `epoch` and the lease belong to the store; the rest is folded from the log.

    `was_ended`: an archived session had ended before, so it still takes no input. Events up to `imported_seq` came from
    a file: they are history, and permissions granted in them do not apply here. `estimated_tokens` estimates the input
    admitted since a provider last reported its count. `plan_mode`: the session may only read and plan. `requests`
    holds the requested boundaries that are not drawn yet (`REQUESTS`). `work_since` is the time of the event since
    which the session has had work without a break, None if it has none. `place` is the location of its project: a
    label, or `@` and a host; None if not given.
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
        """Whether the session takes no more input, archived or not."""
        return self.state == ENDED or self.was_ended

    @property
    def has_work(self) -> bool:
        """Whether a driver is needed: for an unanswered input, an open turn or a requested boundary."""
        return (self.pending_count > 0 or self.turn is not None or self.requests != 0) and not self.has_ended

    @property
    def is_as_imported(self) -> bool:
        """Whether the session was imported and has no event since; it is then continued only on request."""
        return 0 < self.last_seq == self.imported_seq


class Delta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The change of the header by one event."""

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
    """Return the sums in a delta; they are stored for a redacted event so that its header can still be recomputed."""
    names = ("messages", "input_tokens", "output_tokens", "pending", "estimated", "requested", "settled")
    sums = {name: getattr(delta, name) for name in names if getattr(delta, name)}
    return sums if delta.plan_mode is None else {**sums, "plan_mode": int(delta.plan_mode)}


def title_from(text: str) -> str | None:
    """Make a title from the first 50 characters of a message, on one line; None if they are blank."""
    title = shown(text, TITLE_LENGTH)
    if title.isprintable():
        return title if title.strip() else None
    title = title.translate(_ONE_LINE)
    return None if title.isspace() else title or None


_ONE_LINE = {ord(character): " " for character in "\t\n\v\f\r"}


def excerpt_of(parts: tuple[Part, ...]) -> str:
    return shown(text_of(parts), EXCERPT_LENGTH)


def shown(text: str, limit: int = NAME_LENGTH) -> str:
    """Return the start of a text in a form that every store can list: valid Unicode, without NUL."""
    text = text[:limit]
    if text.isprintable():  # no NUL, no surrogate
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def _name(text: str | None) -> str | None:
    return None if text is None else shown(text)


def delta_of(event: e.Event | e.Opaque, turn: str | None = None) -> Delta:
    """Return the delta of an event. Total over the union; empty for kinds that this version does not know."""
    match event:
        case e.MessageAppended(role=role, parts=parts):
            first = title_from(text_of(parts)) if role is Role.USER else None
            return Delta(messages=1, first_title=first)
        case e.InputAdmitted(parts=parts):
            return _admitted(text_of(parts))
        case e.AssistantReplied(usage=usage):  # the model that replied is not the session's chosen model
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
        case e.EventRedacted(counted=counted):  # a driver can no longer see the redacted request
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
    """Return the delta of a runtime change: plan mode, and a refused boundary request."""
    plan = changes["workflow_mode"] == PLAN if "workflow_mode" in changes else None
    refused = changes.get("boundary_refused")
    settled = 0
    if isinstance(refused, dict):
        settled = _request(str(cast("dict[str, Any]", refused).get("what")))
    return Delta(plan_mode=plan, settled=settled)


def imported(delta: Delta) -> Delta:
    """Return the delta of an imported event: its boundary requests are not carried out here."""
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
"""The request that each kind of boundary event settles."""


def delta_of_redacted(kind: str, turn: str | None, counted: Mapping[str, int]) -> Delta:
    """Return the delta of a redacted event from its stored sums (`counted`) and its kind."""
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
    """Complete the stored delta of a redacted event, perhaps from an older version, with what its kind implies."""
    reported = delta.reported or (kind in _REPLIES and delta.input_tokens > 0)
    return msgspec.structs.replace(delta, reported=reported, settled=delta.settled | _SETTLED.get(kind, 0))


def life_after(state: str, was_ended: bool, change: str) -> tuple[str, bool]:
    """Return the new (state, was_ended). Archiving hides a session and changes nothing else about it."""
    if change == ARCHIVED:
        return ARCHIVED, was_ended or state == ENDED
    if change == UNARCHIVED:
        return (ENDED if was_ended else ACTIVE, False) if state == ARCHIVED else (state, was_ended)
    return change, False


def apply(header: Header, delta: Delta, *, seq: int, at: int, now: int, touch: bool) -> None:
    """Add one event to a header in place. `now` is the store's clock; `touch=False` keeps `updated_at`."""
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
