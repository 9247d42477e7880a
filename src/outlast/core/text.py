"""How many tokens a text is, before any provider has counted it.

Text from strangers, made safe to look at: what cannot be seen is shown, and a fence that nothing in it can close.
"""

from __future__ import annotations

import re
import unicodedata


def text_tokens(text: str) -> int:
    """Four bytes a token: right for English and code, and not far too little for other scripts."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) // 4


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
