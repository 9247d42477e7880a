"""Splits long texts into several messages, at the end of a paragraph, a line, a sentence or a word, in this order.

A code block is kept whole if it fits; if not, it is closed at the cut and reopened after it. A cut does not depend on
the text after it, so while a reply grows, the messages that are full stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable

EARLIEST = 0.4
"""No cut is made in this first share of a message, however good the place."""
OPENING = 48
"""Characters of a code block's opening line that are repeated after a cut."""
_FENCE = re.compile(r" {0,3}(`{3,16}|~{3,16})(.*)")
_SENTENCE = re.compile(r"[.!?…。]['\")\]]*\s")


def split(text: str, longest: int, size: Callable[[str], int] = len) -> list[str]:
    """The text in parts of at most `longest` each, in order; empty for an empty text."""
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
    """Where to cut a text of maximal length."""
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
    """The opening line of the code block in which this text ends, and its position; None outside a code block."""
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
