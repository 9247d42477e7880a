"""Documents of the search: the text of one event, in the original and case-folded for comparison.

A query matches if its folded text is a substring of a document's folded text, in any script and of any length. Every
index must find exactly these matches. A long text is several documents, its slices. Neighbours overlap, so that each
match with the words around it lies whole in one slice, and no step of a search holds more than a slice of a text.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Iterator
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
MOST_QUERY = 1000
"""Characters of a query. Folded it has at most three times as many."""
SLICE = 65_536
LEAD = CONTEXT + 1
TAIL = 3 * MOST_QUERY + LEAD
_NOT_TEXT = re.compile("[\ud800-\udfff\0]")
_MARK = secrets.token_hex(16)
_REFERENCE = re.compile(_MARK + "([0-9a-f]{64})")
_DIGEST = re.compile("[0-9a-f]{64}")

BlobText = Callable[[str], Iterator[str]]
"""Reads the text of a blob, by its digest, in pieces."""


class SearchDocument(NamedTuple):
    """Slice `part` of the text of event `seq`. `role` is the message's role, or `title`."""

    session_id: str
    seq: int
    at: int
    role: str
    turn: str | None
    text: str
    part: int = 0


class Snippet(msgspec.Struct, frozen=True):
    """A match with the text around it, on one line."""

    before: str
    match: str
    after: str


def blob_reference(digest: str) -> bytes | None:
    """What stands for a blob while an event is decoded, so that its text need not be loaded; None if this is no
    digest. No text can contain a reference by chance or by intent: it begins with a secret of this process."""
    return f"{_MARK}{digest}".encode() if _DIGEST.fullmatch(digest) else None


def documents_of(
    session_id: str, stored: StoredEvent, event: e.Event | e.Opaque, blob_text: BlobText
) -> Iterator[SearchDocument]:
    """The slices of an event's text, under the session through which it is read; none if it is redacted or has no
    text. The event holds `blob_reference` in place of its blobs."""
    if stored.redacted:
        return
    match event:
        case e.SessionRenamed(title=title) | e.SessionCreated(title=str(title)):
            role, texts = "title", iter([(title, False)])
        case _:
            message = message_of(stored, event) if stored.kind in SAID else None
            if message is None:
                return
            role, texts = message.role.value, _words(message)
    for part, text in enumerate(_slices(_pieces(texts, blob_text))):
        yield SearchDocument(session_id, stored.seq, stored.at, role, stored.turn, text, part)


def _words(message: Message) -> Iterator[tuple[str, bool]]:
    """The texts of a message, and whether each is JSON."""
    yield message.content, False
    if any(isinstance(part, TextPart) for part in message.parts):
        for result in message.tool_results:
            yield result.content, False
    for part in message.parts:
        match part:
            case ToolCall():
                yield part.name, False
                yield from map(_argument, part.arguments.values())
            case FilePart(name=name):
                yield name, False
            case ImagePart(alt=str(alt)):
                yield alt, False
            case _:
                pass


def _argument(value: object) -> tuple[str, bool]:
    if isinstance(value, str):
        return value, False
    try:
        return msgspec.json.encode(value).decode(), True
    except (TypeError, UnicodeEncodeError, msgspec.EncodeError):
        return str(value), False


def _pieces(texts: Iterable[tuple[str, bool]], blob_text: BlobText) -> Iterator[str]:
    """All texts, one on each line, with the blobs that they refer to."""
    between = ""
    for text, is_json in texts:
        if not text:
            continue
        yield between
        between = "\n"
        if _MARK not in text:
            yield cleaned(text)
            continue
        for number, piece in enumerate(_REFERENCE.split(text)):
            for read in blob_text(piece) if number % 2 else (piece,):
                yield _as_json(cleaned(read)) if is_json and number % 2 else cleaned(read)


def _as_json(text: str) -> str:
    """A text as it stands between the quotes of a JSON string."""
    return msgspec.json.encode(text).decode()[1:-1]


def _slices(pieces: Iterable[str]) -> Iterator[str]:
    """Cut a text after every `SLICE` characters. A slice begins `LEAD` characters early and ends `TAIL` late."""
    text, size = "", SLICE + TAIL
    for piece in pieces:
        text += piece
        while len(text) > size:
            yield text[:size]
            text = text[size - TAIL - LEAD :]
            size = LEAD + SLICE + TAIL
    if text:
        yield text


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
