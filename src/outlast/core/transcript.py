"""The transcript: the messages of a session for people, in log order. The model's view is `outlast.core.window`.

It includes originals that were compacted; cleared and rewound messages are archived and shown only on request. A reply
that broke off is marked `interrupted`; after a retry in the same turn it is archived too, so that it never appears next
to the complete reply as if it were a second one.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.fold import Row
from outlast.core.header import REDACTED
from outlast.core.messages import FilePart, ImagePart, Message, Role, ToolResult, text_of
from outlast.core.state import SessionState

OUTPUTS_PRUNED = "Old tool outputs are left out of the model's window; the log keeps them."
"""Shown to people for a compaction that made no summary."""


def transcript(
    rows: Iterable[Row], state: SessionState, *, include_archived: bool = False, summaries: bool = False
) -> list[Message]:
    """Return the messages in these rows, newest last. `summaries` adds compaction summaries as system messages.

    The rows may be a page of the log; pages that end between turns show exactly what the whole log would.
    """
    rows = list(rows)
    view = state.view
    whole = not (view.cleared_at or view.hidden)  # then nothing is hidden, and the promotions need no lookup
    promoted, retried = {} if whole else _promotions(rows, state), _retried(rows, state)
    messages: list[Message] = []
    for stored, event in rows:
        message = message_of(stored, event)
        if message is None or (message.is_summary and not summaries):
            continue
        if whole and not retried:  # the common case
            messages.append(message)
            continue
        places = promoted.get(stored.seq) or (stored.seq,)
        archived = stored.seq in retried or not (whole or any(not view.archives(seq) for seq in places))
        if include_archived or not archived:
            messages.append(msgspec.structs.replace(message, archived=archived) if archived else message)
    return messages


def message_of(stored: StoredEvent, event: e.Event | e.Opaque) -> Message | None:
    """Convert an event to its message; None if it is not a message."""
    if stored.redacted:
        role = _REDACTED_ROLES.get(stored.kind)
        return Message(role=role, content=REDACTED, seq=stored.seq, at=stored.at) if role else None
    match event:
        case e.MessageAppended(role=role, parts=parts):
            return Message(role=role, parts=parts, seq=stored.seq, at=stored.at)
        case e.InputAdmitted(parts=parts):
            return Message(role=Role.USER, parts=parts, seq=stored.seq, at=stored.at)
        case e.AssistantReplied(parts=parts):
            return Message(role=Role.ASSISTANT, parts=parts, seq=stored.seq, at=stored.at)
        case e.ReplyInterrupted(parts=parts) if parts:
            return Message(role=Role.ASSISTANT, parts=parts, seq=stored.seq, at=stored.at, interrupted=True)
        case e.ToolCallFinished():
            return Message(role=Role.TOOL, parts=_result_parts(event), seq=stored.seq, at=stored.at)
        case e.Compacted(summary=summary, summarised=summarised):
            content = summary if summarised else OUTPUTS_PRUNED
            return Message(role=Role.SYSTEM, content=content, seq=stored.seq, at=stored.at, is_summary=True)
        case _:
            return None


# The author of a redacted text; an appended message lost its role with its body.
_REDACTED_ROLES = {
    "InputAdmitted": Role.USER,
    "MessageAppended": Role.SYSTEM,
    "AssistantReplied": Role.ASSISTANT,
    "ToolCallFinished": Role.TOOL,
}


def _result_parts(event: e.ToolCallFinished) -> tuple[ToolResult | ImagePart | FilePart, ...]:
    """Return one result with the text, followed by images and files."""
    result = ToolResult(call_id=event.call_id, content=text_of(event.parts), is_error=event.is_error, name=event.name)
    return (result, *(part for part in event.parts if isinstance(part, ImagePart | FilePart)))


def _promotions(rows: list[Row], state: SessionState) -> dict[int, list[int]]:
    """Return, by input, the events where a turn read it: an input is visible as long as one of them is. The state
    knows the newest ones, even if the page ends before them."""
    places: dict[int, list[int]] = {}
    for seq, read_at in state.reads:
        places.setdefault(seq, []).append(read_at)
    for stored, event in rows:
        if isinstance(event, e.TurnStarted | e.InputPromoted):
            for seq in event.inputs:
                places.setdefault(seq, []).append(stored.seq)
    return places


def _retried(rows: list[Row], state: SessionState) -> set[int]:
    """Return the replies that broke off, except those with which their turn ended."""
    retried: set[int] = set()
    broken: list[int] = []
    for stored, event in rows:
        if isinstance(event, e.ReplyInterrupted):
            broken.append(stored.seq)
        elif not broken:
            continue
        elif isinstance(event, e.ModelRequested | e.AssistantReplied):
            retried.update(broken)
            broken = []
        elif isinstance(event, e.TurnEnded):
            retried.update(broken[:-1])
            broken = []
    if state.turn is not None:  # the open turn will retry
        retried.update(seq for seq in broken if seq > state.turn.seq)
    return retried
