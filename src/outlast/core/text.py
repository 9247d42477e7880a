"""Helpers for plain text: token estimate, one line, shortening, valid Unicode, safe display.

Untrusted text is shown with every invisible character spelled out, in a fence that the text cannot close.
"""

from __future__ import annotations

import re
import unicodedata


def text_tokens(text: str) -> int:
    """Estimate tokens at four bytes each: accurate for English and code, not far too low for other scripts."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) // 4


def one_line(text: str) -> str:
    """Join the words of a text with single spaces."""
    return " ".join(text.split())


def shortened(text: str, longest: int) -> str:
    """Cut a text to `longest` characters; a cut text ends with an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def visible_line(text: str, longest: int) -> str:
    """Return the text on one line, with every character visible, cut to `longest` characters."""
    return shortened(show_invisible(one_line(text)), longest)


def valid_text(text: str) -> str:
    """Replace each lone surrogate by U+FFFD: no provider accepts surrogates."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180e\u2800\u3164\uffa0")
_HIDDEN = frozenset({"Cf", "Cc", "Cs", "Co", "Cn", "Zl", "Zp"})


def show_invisible(text: str) -> str:
    """Spell out every invisible, direction-changing or private-use character, as in `<U+200B>`."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    spelled = {ord(char): f"<U+{ord(char):04X}>" for char in set(text) if not _is_visible(char)}
    return text.translate(spelled) if spelled else text


def _is_visible(char: str) -> bool:
    if char in "\n\t":
        return True
    code = ord(char)
    # Variation selectors can carry hidden data; the one for emoji presentation (U+FE0F) cannot.
    if 0xFE00 <= code <= 0xFE0E or 0xE0100 <= code <= 0xE01EF:
        return False
    return char not in _BLANKS and unicodedata.category(char) not in _HIDDEN


def fenced(text: str, label: str = "") -> str:
    """Put the text into a code block whose fence is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{label}\n{text.rstrip()}\n{fence}"


def duration_text(seconds: float) -> str:
    """Return a duration for a sentence: `8 s`, `9 min`, `1.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
