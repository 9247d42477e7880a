"""Markdown with headings, as models write it, to named lists; and back.

A heading is `# Name`, `**Name**` or `Name:` on its own line. Items are bullets, numbers, check boxes or plain lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MAX_TEXT = 64 * 1024
MAX_ITEMS = 50
MAX_ITEM = 1_000

_HASHES = re.compile(r"#{1,6}[ \t]+(.+)")
_BOLD = re.compile(r"\*\*([^*]+)\*\*:?")
_COLON = re.compile(r"([A-Za-z][\w /-]{2,40}):")
_BULLET = re.compile(r"(?:[-*+]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(.*)")
_NOTHING = frozenset({"none", "(none)", "n/a", "nothing", "-", "tbd", "unknown"})


def heading(line: str) -> str | None:
    """The normalised name that this line announces, if it is a heading."""
    line = line.strip()
    for pattern in (_HASHES, _BOLD, _COLON):
        if found := pattern.fullmatch(line):
            return name_of(found.group(1))
    return None


def name_of(text: str) -> str:
    return " ".join(re.sub(r"[^a-z]+", " ", text.lower()).split())


def sections(text: str, names: Mapping[str, str]) -> dict[str, list[str]]:
    """The items under every heading that `names` knows, by what it calls them; other headings are passed over."""
    found: dict[str, list[str]] = {}
    current: str | None = None
    for line in text[:MAX_TEXT].splitlines():
        if (announced := heading(line)) is not None:
            current = names.get(announced)
            continue
        item = item_of(line)
        if current is None or item is None:
            continue
        items = found.setdefault(current, [])
        if item not in items and len(items) < MAX_ITEMS:
            items.append(item)
    return found


def item_of(line: str) -> str | None:
    """One item, on one line; None for a line that says nothing."""
    bullet = _BULLET.fullmatch(line.strip())
    text = one_line(bullet.group(1) if bullet else line)
    return None if not text or text.lower().rstrip(".") in _NOTHING or set(text) <= set("-*_`") else text


def one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_ITEM]


def listed(title: str, items: Iterable[str], *, empty: str = "(none)") -> str:
    """A heading and its items as Markdown."""
    lines = [f"- {one_line(item)}" for item in items]
    return "\n".join([f"## {title}", "", *(lines or [f"- {empty}"]), ""])
