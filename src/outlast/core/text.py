"""Plain text: how long it is, on one line, cut, valid, and safe to look at.

Text from strangers gets every invisible character shown, and a fence that nothing in it can close.
"""

from __future__ import annotations

import re
import unicodedata


def text_tokens(text: str) -> int:
    """Four bytes a token: right for English and code, and not far too little for other scripts."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) // 4


def one_line(text: str) -> str:
    """The words of a text with one space between them."""
    return " ".join(text.split())


def shortened(text: str, longest: int) -> str:
    """At most so many characters; where something is left out, the last one says so."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def visible_line(text: str, longest: int) -> str:
    """On one line, every character visible, cut where it is too long."""
    return shortened(show_invisible(one_line(text)), longest)


def valid_text(text: str) -> str:
    """The text with U+FFFD for each lone surrogate: no provider takes those."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180e\u2800\u3164\uffa0")
_HIDDEN = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp"})


def show_invisible(text: str) -> str:
    """The text with every invisible, direction-changing or private character spelled out as `<U+200B>`."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if _is_visible(char) else f"<U+{ord(char):04X}>" for char in text)


def _is_visible(char: str) -> bool:
    if char in "\n\t":
        return True
    code = ord(char)
    # Variation selectors can carry any data; the one that asks for a coloured picture cannot.
    if 0xFE00 <= code <= 0xFE0E or 0xE0100 <= code <= 0xE01EF:
        return False
    return char not in _BLANKS and unicodedata.category(char) not in _HIDDEN


def fenced(text: str, label: str = "") -> str:
    """The text in a code block whose fence is longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{label}\n{text.rstrip()}\n{fence}"
