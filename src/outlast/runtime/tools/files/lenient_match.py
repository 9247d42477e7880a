"""Finds whole lines in a text that differ from the wanted ones only in trailing spaces, or in these and in their common
indentation. `edit` and `apply_patch` use it when the exact text is not there.

Only one place may match: several places are never chosen from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

TRAILING = "trailing spaces"
INDENTATION = "indentation"


class LenientMatch(msgspec.Struct, frozen=True, kw_only=True):
    """Where lines match: index of the first and number of lines, and what was `ignored`. `wanted_indent` is the common
    indentation of the wanted lines, `found_indent` that of the text; they differ only if indentation was ignored."""

    first: int
    count: int
    ignored: str
    wanted_indent: str = ""
    found_indent: str = ""

    def reindented(self, lines: Sequence[str]) -> list[str] | None:
        """Return new lines with the indentation of the text; None if a line is indented less than the wanted ones, so
        that its place is not known."""
        if self.wanted_indent == self.found_indent:
            return list(lines)
        result: list[str] = []
        for line in lines:
            if not line.strip():
                result.append("")
            elif line.startswith(self.wanted_indent):
                result.append(self.found_indent + line[len(self.wanted_indent) :])
            else:
                return None
        return result


def lenient_matches(lines: Sequence[str], wanted: Sequence[str], start: int = 0) -> list[LenientMatch]:
    """Return every place that matches when trailing spaces are ignored; if there is none, every place that matches when
    the common indentation is ignored, too. Lines that hold nothing but spaces alone match nowhere."""
    plain = [line.rstrip() for line in wanted]
    if not any(plain):
        return []
    found = [LenientMatch(first=n, count=len(plain), ignored=TRAILING) for n in _places(lines, plain, start)]
    return found or list(_indented_places(lines, plain, start))


def _places(lines: Sequence[str], plain: list[str], start: int) -> Iterator[int]:
    for n in range(start, len(lines) - len(plain) + 1):
        if all(lines[n + m].rstrip() == line for m, line in enumerate(plain)):
            yield n


def _indented_places(lines: Sequence[str], plain: list[str], start: int) -> Iterator[LenientMatch]:
    indent = common_indent(plain)
    bare = [line[len(indent) :] for line in plain]
    at, anchor = next((m, line.lstrip()) for m, line in enumerate(plain) if line)
    for n in range(start, len(lines) - len(plain) + 1):
        if lines[n + at].strip() != anchor:
            continue
        there = [line.rstrip() for line in lines[n : n + len(plain)]]
        found = common_indent(there)
        if [line[len(found) :] for line in there] == bare:
            yield LenientMatch(first=n, count=len(plain), ignored=INDENTATION, wanted_indent=indent, found_indent=found)


def common_indent(lines: Sequence[str]) -> str:
    """Return the white space that every line begins with, of lines that hold more than white space."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    shortest, longest = min(indents, default=""), max(indents, default="")  # in the order of text, not of length
    same = next((n for n, (one, other) in enumerate(zip(shortest, longest, strict=False)) if one != other), None)
    return shortest[:same]
