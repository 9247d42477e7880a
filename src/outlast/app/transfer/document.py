"""Format-independent content of an exported document: messages in order, with marks, secrets redacted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from outlast.app.sessions.detail import SessionDetailView
from outlast.core.messages import FilePart, ImagePart, Message
from outlast.core.redaction import mapped, redacted, redacted_value

Progress = Callable[[int, int], None]


class DocumentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One message. `calls` are (name, arguments as text), `attachments` describe the parts that are not text."""

    seq: int
    role: str
    marks: list[str]
    at: str
    text: str
    calls: list[tuple[str, str]]
    attachments: list[str]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    facts: list[tuple[str, str]]
    note: str | None
    is_redacted: bool


def page_of(found: SessionDetailView, *, redact: bool) -> Document:
    clean = redacted if redact else _same
    row = found.session
    facts = [
        ("session", row.id),
        ("state", row.state),
        ("model", row.model or "-"),
        ("messages", str(row.message_count)),
        ("tokens", f"{row.total_input_tokens} in, {row.total_output_tokens} out"),
        ("created", moment(row.created_at)),
        ("last activity", moment(row.updated_at)),
    ]
    if row.parent_session_id:
        facts.append(("came from", row.parent_session_id))
    note = f"The last turn was {found.interrupted}." if found.interrupted else None
    return Document(
        title=clean(valid(row.title or "Session")),
        facts=[(name, clean(valid(value))) for name, value in facts],
        note=note and clean(valid(note)),
        is_redacted=redact,
    )


def entries_of(found: SessionDetailView, *, redact: bool, progress: Progress | None = None) -> Iterator[DocumentEntry]:
    for number, message in enumerate(found.messages):
        if progress is not None:
            progress(number, len(found.messages))
        yield _entry(message, redact)


def _entry(message: Message, redact: bool) -> DocumentEntry:
    clean = redacted if redact else _same
    marks = {"archived": message.archived, "summary": message.is_summary, "interrupted": message.interrupted}
    return DocumentEntry(
        seq=message.seq or 0,
        role=message.role.value,
        marks=[name for name, is_so in marks.items() if is_so],
        at=moment(message.at or 0),
        text=clean(valid(message.content)),
        calls=[
            (clean(valid(call.name)), _arguments(call.raw or call.arguments, redact)) for call in message.tool_calls
        ],
        attachments=[clean(valid(told)) for told in _attachments(message)],
    )


def _arguments(arguments: Any, redact: bool) -> str:
    if isinstance(arguments, str):
        return redacted(valid(arguments)) if redact else valid(arguments)
    shown = mapped(arguments, valid)
    shown = redacted_value(shown) if redact else shown
    text = msgspec.json.format(msgspec.json.encode(shown, enc_hook=str)).decode()
    return redacted(text) if redact else text


def _attachments(message: Message) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, ImagePart):
            size = f"{len(part.data):,} bytes" if part.data else (part.url or "")
            yield f"image {part.media_type} {part.alt or ''} {size}".strip()
        elif isinstance(part, FilePart):
            yield f"file {part.name} ({part.media_type}, {len(part.data):,} bytes)"


def valid(text: str) -> str:
    """The text as valid Unicode without control characters, except tabs and line breaks."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _spelled(c) for c in text)


def _spelled(character: str) -> str:
    """Keep joiners and unusual spaces; spell out terminal controls, bidirectional controls and invalid characters."""
    code = ord(character)
    if character in "\u200c\u200d\ufe0f" or character.isspace():
        return character if code >= 0x20 else " "
    return f"<U+{code:04X}>"


def moment(at: int) -> str:
    try:
        return datetime.fromtimestamp(at / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return "?"


def _same(text: str) -> str:
    return text
