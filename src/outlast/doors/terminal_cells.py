"""How much room a text takes in a terminal: Chinese, Japanese and Korean characters and most emoji take two columns.

The tables for that are loaded only when a text is not plain ASCII: a list of sessions should not wait for them.
"""

from __future__ import annotations


def cells(text: str) -> int:
    """How many columns it takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, most: int) -> str:
    """The text on at most so many columns; where something is left out, its last character says so."""
    if cells(text) <= most:
        return text
    return f"{_beginning(text, most - 1)}…" if most > 0 else ""


def padded(text: str, width: int) -> str:
    """With spaces up to that width; longer texts stay as they are."""
    return text + " " * (width - cells(text))


def pieces(text: str, width: int) -> list[str]:
    """All of it, in pieces that fit into so many columns each; at least one."""
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
    """As many characters as fit; what takes no room of its own stays with the one before it."""
    used = 0
    for at, char in enumerate(text):
        used += cells(char)
        if used > most:
            return text[:at]
    return text
