"""Long texts as several messages: cut at the end of a paragraph, a line, a sentence or a word, in this order.

A block of code is kept whole where it fits; where it does not, it is closed at the cut and opened again behind it.
A cut depends on nothing behind it, so while a reply grows, the messages that are full stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

EARLIEST = 0.4
"""A message is not cut in its first part, however good the place."""
OPENING = 48
"""So much of the line that opens a block of code is repeated behind a cut."""
_FENCE = re.compile(r" {0,3}(`{3,16}|~{3,16})(.*)")
_SENTENCE = re.compile(r"[.!?…。]['\")\]]*\s")


def split(text: str, longest: int, size: Callable[[str], int] = len) -> list[str]:
    """The text in parts of at most `longest` each, in order; none where there is nothing to say."""
    parts: list[str] = []
    rest = text.strip("\n")
    while size(rest) > longest:
        part, rest = _cut(rest, longest, size)
        parts.append(part)
    if rest.strip():
        parts.append(rest)
    return parts


def _cut(text: str, longest: int, size: Callable[[str], int]) -> tuple[str, str]:
    most = _most(text, longest, size)
    at = _place(text[:most])
    opened, began = _open_fence(text[:at])
    if opened is not None and began > most * EARLIEST:
        return text[:began].rstrip("\n"), text[began:]
    if opened is None:
        return text[:at].rstrip("\n"), text[at:].lstrip("\n")
    closing = f"\n{_mark(opened)}"
    at = _place(text[: _most(text, longest - size(closing), size)], words=False)
    return text[:at].rstrip("\n") + closing, f"{opened.strip()[:OPENING]}\n{text[at:].removeprefix(chr(10))}"


def _most(text: str, longest: int, size: Callable[[str], int]) -> int:
    """How many characters fit; at least one."""
    low, high = 1, min(len(text), longest)
    while low < high:
        middle = (low + high + 1) // 2
        if size(text[:middle]) <= longest:
            low = middle
        else:
            high = middle - 1
    return low


def _place(head: str, *, words: bool = True) -> int:
    """Where to cut a text that is as long as may be."""
    earliest = int(len(head) * EARLIEST)
    for mark in ("\n\n", "\n"):
        found = head.rfind(mark, earliest)
        if found > 0:
            return found + len(mark)
    sentences = [found.end() for found in _SENTENCE.finditer(head, earliest)] if words else []
    if sentences:
        return sentences[-1]
    return found + 1 if (found := head.rfind(" ", earliest)) > 0 else len(head)


def _open_fence(text: str) -> tuple[str | None, int]:
    """The line that opened the block of code in which this text ends, and where it stands; None when in none."""
    opened: str | None = None
    began = at = 0
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if found is not None:
            if opened is None:
                opened, began = line, at
            elif found[1][0] == _mark(opened)[0] and len(found[1]) >= len(_mark(opened)) and not found[2].strip():
                opened = None
        at += len(line) + 1
    return opened, began


def _mark(opening: str) -> str:
    found = _FENCE.fullmatch(opening)
    assert found is not None
    return found[1]
