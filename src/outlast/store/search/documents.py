"""Documents of the search: the text of one event, in the original and case-folded for comparison.

A query matches if its folded text is a substring of a document's folded text, in any script and of any length. Every
index must find exactly these matches.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.messages import FilePart, ImagePart, Message, TextPart, ToolCall
from outlast.core.transcript import message_of

SAID = frozenset({"MessageAppended", "InputAdmitted", "AssistantReplied", "ReplyInterrupted", "ToolCallFinished"})
TITLES = frozenset({"SessionCreated", "SessionRenamed"})
LOOKED_AT = SAID | TITLES | {"EventRedacted"}
CONTEXT = 60
_NOT_TEXT = re.compile("[\ud800-\udfff\0]")


class SearchDocument(NamedTuple):
    """The text of event `seq`. `role` is the message's role, or `title`."""

    session_id: str
    seq: int
    at: int
    role: str
    turn: str | None
    text: str


class Snippet(msgspec.Struct, frozen=True):
    """A match with the text around it, on one line."""

    before: str
    match: str
    after: str


def document_of(session_id: str, stored: StoredEvent, event: e.Event | e.Opaque) -> SearchDocument | None:
    """The document of an event, under the session through which it is read; None if it is redacted or has no text."""
    if stored.redacted:
        return None
    match event:
        case e.SessionRenamed(title=title) | e.SessionCreated(title=str(title)):
            role, text = "title", title
        case _:
            message = message_of(stored, event) if stored.kind in SAID else None
            if message is None:
                return None
            role, text = message.role.value, _words(message)
    text = cleaned(text)
    return SearchDocument(session_id, stored.seq, stored.at, role, stored.turn, text) if text else None


def _words(message: Message) -> str:
    texts = [message.content]
    if any(isinstance(part, TextPart) for part in message.parts):
        texts += [result.content for result in message.tool_results]
    for part in message.parts:
        match part:
            case ToolCall():
                texts += [part.name, *(_argument(value) for value in part.arguments.values())]
            case FilePart(name=name):
                texts.append(name)
            case ImagePart(alt=str(alt)):
                texts.append(alt)
            case _:
                pass
    return "\n".join(text for text in texts if text)


def _argument(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, UnicodeEncodeError, msgspec.EncodeError):
        return str(value)


def cleaned(text: str) -> str:
    """The text without NUL and surrogates, which not every index can hold."""
    return text if text.isascii() and "\0" not in text else _NOT_TEXT.sub("\ufffd", text)


def folded(text: str) -> str:
    """The text for comparison. Folding works per character, so a substring folds to a substring of the folded text."""
    return cleaned(text).casefold()


def snippet_of(text: str, query: str) -> Snippet | None:
    """The first match of the folded query in a text; None if there is none."""
    place = folded(text).find(query)
    if place < 0:
        return None
    start, end = _unfolded(text, place, place + len(query))
    before, after = text[max(0, start - CONTEXT) : start], text[end : end + CONTEXT]
    return Snippet(
        ("…" if start > CONTEXT else "") + _one_line(before).lstrip(),
        _one_line(text[start:end]),
        _one_line(after).rstrip() + ("…" if len(text) > end + CONTEXT else ""),
    )


def _unfolded(text: str, start: int, end: int) -> tuple[int, int]:
    """Convert positions in the folded text to positions in the text; one character may fold to several."""
    if len(text.casefold()) == len(text):
        return start, end
    first = last = 0
    length = 0
    for number, character in enumerate(text):
        if length <= start:
            first = number
        if length < end:
            last = number + 1
        length += len(character.casefold())
    return first, last


def _one_line(text: str) -> str:
    return re.sub(r"\s", " ", text)
