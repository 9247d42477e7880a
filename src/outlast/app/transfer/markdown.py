"""A session as Markdown. Messages are kept as the Markdown they are; tool output is in fences it cannot close."""

from __future__ import annotations

import re
from collections.abc import Iterator

from outlast.app.sessions.detail import SessionDetailView
from outlast.app.transfer.document import DocumentEntry, Progress, entries_of, page_of
from outlast.core.text import fenced, one_line

_HEADING = re.compile(r"^(\s{0,3})(#{1,6}\s)", re.MULTILINE)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")


def markdown(found: SessionDetailView, *, redact: bool = True, progress: Progress | None = None) -> Iterator[str]:
    """Yield the document in pieces."""
    page = page_of(found, redact=redact)
    yield f"# {_one_line(page.title)}\n\n"
    for name, value in page.facts:
        yield f"- {name}: {_one_line(value)}\n"
    if page.is_redacted:
        yield "- secrets of known shapes are redacted\n"
    for entry in entries_of(found, redact=redact, progress=progress):
        yield from _entry(entry)
    if page.note:
        yield f"\n---\n\n{_one_line(page.note)}\n"


def _entry(entry: DocumentEntry) -> Iterator[str]:
    marks = "".join(f" [{mark}]" for mark in entry.marks)
    yield f"\n## {entry.role}{marks} ({entry.seq})\n\n*{entry.at}*\n\n"
    if entry.role == "tool":
        yield _block(entry.text) if entry.text else ""
    elif entry.text:
        yield _quiet(entry.text).rstrip("\n") + "\n"
    for attachment in entry.attachments:
        yield f"\n*[{_one_line(attachment)}]*\n"
    for name, arguments in entry.calls:
        yield f"\n**{_one_line(name)}**\n\n{_block(arguments, 'json')}"


def _block(text: str, language: str = "") -> str:
    return f"{fenced(text, language)}\n"


def _quiet(text: str) -> str:
    """Escape headings and HTML tags of a message outside code, so they do not mix with the document's own."""
    pieces = re.split(r"(^```.*?(?:^```[^\n]*$|\Z))", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        piece if number % 2 else _TAG.sub("&lt;", _HEADING.sub(r"\1\\\2", piece)) for number, piece in enumerate(pieces)
    )


def _one_line(text: str) -> str:
    return _TAG.sub("&lt;", one_line(text))
