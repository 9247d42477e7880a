"""Shows found lines with the lines around them, in the form that grep uses.

The lines are read again from their files, by descriptors as every file tool does, so that both ways to search show the
same text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, opened
from outlast.runtime.tools.files.scan_process import NAMED_FILE_LIMIT, decoded
from outlast.runtime.tools.port import ToolFault

LINE_SHOWN = 300
BEFORE_MATCH = 100
"""How much of a long line is shown, and how much of that before the match."""


class MatchedLine(NamedTuple):
    """A line that matches: path below the folder that was searched, line number, and byte offset of the match."""

    path: str
    line: int
    column: int


def listed(
    rows: Iterable[MatchedLine], start: ResolvedPath, shown: Callable[[str], str], before: int, after: int
) -> Iterator[str]:
    """Yield the lines of the result: `path:12:text` for matches, `path-11-text` for lines around them, and `--`
    between groups that are not adjacent. Rows of one file must be adjacent; a file that is gone is left out."""
    first = True
    for path, hits in groupby(rows, lambda row: row.path):
        matched = {hit.line: hit.column for hit in hits}
        lines, name = _lines_of(start, path), shown(path)
        for group in _groups(sorted(matched), before, after, len(lines)):
            if (before or after) and not first:
                yield "--"
            first = False
            for number in group:
                text = lines[number - 1].removesuffix("\r")
                if number in matched:
                    yield f"{name}:{number}:{around(text, matched[number])}"
                else:
                    yield f"{name}-{number}-{around(text, 0)}"


def _groups(matched: Sequence[int], before: int, after: int, last: int) -> Iterator[range]:
    """Yield the ranges of line numbers to show; ranges that touch are joined."""
    begin = end = 0
    for number in matched:
        if number > last:
            break  # the file has become shorter
        if end and number - before <= end + 1:
            end = min(last, number + after)
            continue
        if end:
            yield range(begin, end + 1)
        begin, end = max(1, number - before), min(last, number + after)
    if end:
        yield range(begin, end + 1)


def _lines_of(start: ResolvedPath, path: str) -> list[str]:
    place = ResolvedPath(asked=path, root=start.root, parts=(*start.parts, *path.split("/")))
    try:
        with opened(place) as file, os.fdopen(os.dup(file), "rb") as stream:
            text = decoded(stream.read(NAMED_FILE_LIMIT))
    except ToolFault:
        return []  # it was removed or replaced since it was searched
    lines = (text or "").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def around(text: str, column: int) -> str:
    """Return the line, or of a long line the part around byte `column`."""
    if len(text) <= LINE_SHOWN:
        return text
    at = len(text.encode("utf-8", "replace")[:column].decode("utf-8", "replace"))
    begin = max(0, min(at - BEFORE_MATCH, len(text) - LINE_SHOWN))
    end = begin + LINE_SHOWN
    left, right = begin, len(text) - end
    return (f"[{left} characters ...]" if left else "") + text[begin:end] + (f"[... {right} more]" if right else "")
