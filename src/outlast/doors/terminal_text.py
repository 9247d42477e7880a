"""Text for a terminal: readable, unable to control the terminal, and of a known width.

Text from models, tools, files and the store is escaped. Chinese, Japanese and Korean characters and most emoji take two
columns; the tables for that load only if a text is not plain ASCII, so that listing sessions does not wait for them.
"""

from __future__ import annotations

import re

from outlast.core.text import one_line, show_invisible

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def readable(text: str) -> str:
    """For answers and outputs: escapes control characters and changes of text direction, and leaves the rest alone.

    Joiners stay: emoji and several scripts need them. Carriage returns end a line, as they do in a terminal.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if _is_harmless(char) else f"<U+{ord(char):04X}>" for char in text)


def _is_harmless(char: str) -> bool:
    if char in "\n\t":
        return True
    code = ord(char)
    return code >= 0x20 and not 0x7F <= code < 0xA0 and not 0xD800 <= code < 0xE000 and char not in _BIDI


_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


def output(text: str) -> str:
    """For program output: colours are removed, so that they cannot hide anything; the rest as in `readable`."""
    return readable(_COLOURS.sub("", text)) if "\x1b" in text else readable(text)


def exact(text: str) -> str:
    """For a text to be approved: everything invisible is spelled out, including tabs and trailing spaces, which could
    hide something.
    """
    lines = show_invisible(text).split("\n")
    return "\n".join(_ending_seen(line.replace("\t", "<TAB>")) for line in lines)


def _ending_seen(line: str) -> str:
    bare = line.rstrip(" ")
    return bare + "·" * (len(line) - len(bare))


def spelled(text: str, *, keep: str = "") -> str:
    """Replace every unprintable character with its escape; those in `keep` stay."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text
    )


def plain(text: str) -> str:
    """One line of printable characters only."""
    return spelled(one_line(text))


def cells(text: str) -> int:
    """Width of the text in columns."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, most: int) -> str:
    """Shorten the text to at most that many columns; if something is left out, it ends with an ellipsis."""
    if cells(text) <= most:
        return text
    return f"{_beginning(text, most - 1)}…" if most > 0 else ""


def padded(text: str, width: int) -> str:
    """Pad with spaces to that width; longer texts stay as they are."""
    return text + " " * (width - cells(text))


def pieces(text: str, width: int) -> list[str]:
    """The whole text in pieces of at most `width` columns each; at least one piece."""
    width = max(2, width)
    if text.isascii():
        return [text[at : at + width] for at in range(0, len(text), width)] or [""]
    found, begin, used = list[str](), 0, 0
    for at, char in enumerate(text):
        room = cells(char)
        if used + room > width:
            found.append(text[begin:at])
            begin, used = at, 0
        used += room
    return [*found, text[begin:]]


def _beginning(text: str, most: int) -> str:
    """As many characters as fit; zero-width characters stay with the character before them."""
    used = 0
    for at, char in enumerate(text):
        used += cells(char)
        if used > most:
            return text[:at]
    return text
