"""Text from models, tools and files, made fit for a terminal: it can be read, and it cannot steer anything."""

from __future__ import annotations

import re

from outlast.app.terminal import show_invisible

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def readable(text: str) -> str:
    """For answers and outputs: control characters and changes of direction are spelled out, the rest is left alone.

    Joiners stay: emoji and several scripts are made with them. Carriage returns end a line, as they do in a terminal.
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
    """For what programs put out: their colours are left out, so nothing they would hide is hidden; the rest as ever."""
    return readable(_COLOURS.sub("", text)) if "\x1b" in text else readable(text)


def exact(text: str) -> str:
    """For what is to be approved: everything that cannot be seen is spelled out, tabs and ends of lines too where they
    could hide something."""
    lines = show_invisible(text).split("\n")
    return "\n".join(_ending_seen(line.replace("\t", "<TAB>")) for line in lines)


def _ending_seen(line: str) -> str:
    bare = line.rstrip(" ")
    return bare + "·" * (len(line) - len(bare))
