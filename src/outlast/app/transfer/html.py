"""A session as one HTML file: no scripts, no external resources, all stored content escaped as text."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from outlast.app.sessions.detail import SessionDetailView
from outlast.app.transfer.document import DocumentEntry, Progress, entries_of, page_of

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --soft: #f6f8fa; --dim: #59636e; --user: #0969da; }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --soft: #151b23; --dim: #9198a1; --user: #4493f8; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; color: var(--dim); }
dd { margin: 0; overflow-wrap: anywhere; } article { border-top: 1px solid var(--line); padding: 1rem 0; }
header { color: var(--dim); font-size: .85rem; } .user header b { color: var(--user); } .archived { opacity: .6; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0; font: inherit; }
.tool pre, .call pre { font: .85rem/1.45 ui-monospace, monospace; background: var(--soft); padding: .6rem; }
""".strip()


def html(found: SessionDetailView, *, redact: bool = True, progress: Progress | None = None) -> Iterator[str]:
    """Yield the document in pieces."""
    page = page_of(found, redact=redact)
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(page.title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        f"<h1>{escape(page.title)}</h1>\n<dl>\n"
    )
    facts = [*page.facts, *([("secrets", "redacted where their shape is known")] if page.is_redacted else [])]
    for name, value in facts:
        yield f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>\n"
    yield "</dl>\n<main>\n"
    for entry in entries_of(found, redact=redact, progress=progress):
        yield from _entry(entry)
    yield "</main>\n"
    if page.note:
        yield f"<p>{escape(page.note)}</p>\n"
    yield "</body>\n</html>\n"


def _entry(entry: DocumentEntry) -> Iterator[str]:
    classes = " ".join((entry.role, *entry.marks))
    marks = "".join(f" · {mark}" for mark in entry.marks)
    yield f'<article class="{escape(classes)}" id="event-{entry.seq}">\n'
    yield f"<header><b>{escape(entry.role)}</b> · {entry.seq} · {escape(entry.at)}{escape(marks)}</header>\n"
    if entry.text:
        yield f"<pre>{escape(entry.text)}</pre>\n"
    for attachment in entry.attachments:
        yield f"<p>[{escape(attachment)}]</p>\n"
    for name, arguments in entry.calls:
        yield f'<section class="call"><b>{escape(name)}</b><pre>{escape(arguments)}</pre></section>\n'
    yield "</article>\n"
