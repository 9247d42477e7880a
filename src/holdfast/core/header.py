"""The header of a session: what a list shows, kept in the same commit as every append.

A header is a fold of its log, but one that needs no read: each event contributes a `Delta` that depends on the event
alone, and `apply` adds it up. The PostgreSQL function does the same sums in SQL; `verify` recomputes them here.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core import events as e
from holdfast.core.messages import Part, Role, text_of

TITLE_LENGTH = 50
EXCERPT_LENGTH = 120
NAME_LENGTH = 200

ACTIVE, ENDED, ARCHIVED = "active", "ended", "archived"
UNARCHIVED = "unarchived"
"""What a delta says of a session that is again what it was before it was archived; no header has this state."""


class Header(msgspec.Struct, kw_only=True, omit_defaults=True):
    """At most about 1 KiB. `epoch` and the lease are facts of the store, the rest folds from the log.

    `was_ended` says of an archived session that it had ended before: it still takes no input. Events up to
    `imported_seq` came from a file: they are history, and nothing that they permit counts here.
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

    @property
    def has_ended(self) -> bool:
        """Whether it takes no more input, archived or not."""
        return self.state == ENDED or self.was_ended


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


NOTHING = Delta()
REDACTED = "[redacted]"


def counted(delta: Delta) -> dict[str, int]:
    """The sums in a delta, as kept beside a redacted body so that its header can still be recomputed."""
    names = ("messages", "input_tokens", "output_tokens", "pending")
    return {name: getattr(delta, name) for name in names if getattr(delta, name)}


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
            return Delta(
                messages=1, pending=1, pending_text=excerpt_of(parts) or "", first_title=title_from(text_of(parts))
            )
        case e.AssistantReplied(usage=usage):  # which model answered is the reply's business; the session's is chosen
            return Delta(messages=1, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
        case e.ReplyInterrupted(usage=usage) | e.UsageRecorded(usage=usage):
            return Delta(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
        case e.ToolCallFinished():
            return Delta(messages=1)
        case e.Compacted(usage=usage):
            return Delta(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, boundary=True)
        case e.CompactionUndone() | e.HistoryCleared() | e.Rewound() | e.RewindUndone():
            return Delta(boundary=True)
        case e.TurnStarted():
            return Delta(turn=turn)
        case e.TurnEnded(answered=answered):
            return Delta(pending=-len(answered), turn_over=True)
        case e.InputWithdrawn(inputs=inputs):
            return Delta(pending=-len(inputs))
        case e.SessionCreated(title=title, model=model, persona=persona):
            return Delta(title=_name(title), model=_name(model), persona=_name(persona))
        case e.SessionForked(carried_inputs=carried):
            return Delta(pending=len(carried))
        case e.SessionRenamed(title=title):
            return Delta(title=_name(title))
        case e.SessionRotated(to_session_id=to):
            return Delta(state=ENDED, rotated_to=_name(to))
        case e.SessionEnded():
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
        case _:
            return NOTHING


_STATES = {
    "SessionRotated": ENDED,
    "SessionEnded": ENDED,
    "SessionReopened": ACTIVE,
    "SessionUnarchived": UNARCHIVED,
    "SessionArchived": ARCHIVED,
}
_BOUNDARIES = frozenset({"Compacted", "CompactionUndone", "HistoryCleared", "Rewound", "RewindUndone"})


def delta_of_redacted(kind: str, turn: str | None, counted: Mapping[str, int]) -> Delta:
    """What a redacted event adds: its sums were kept (`counted`), the rest is told by its kind."""
    return Delta(
        messages=counted.get("messages", 0),
        input_tokens=counted.get("input_tokens", 0),
        output_tokens=counted.get("output_tokens", 0),
        pending=counted.get("pending", 0),
        state=_STATES.get(kind),
        turn=turn if kind == "TurnStarted" else None,
        turn_over=kind == "TurnEnded",
        boundary=kind in _BOUNDARIES,
    )


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
    if touch:
        header.updated_at = max(now, header.updated_at + 1)
