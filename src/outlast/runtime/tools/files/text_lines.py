"""Shows text as numbered lines, page by page: lines of a file as they are, lines of a stored output in whole."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import msgspec

from outlast.runtime.tools.output_limit import cut

LINES = 2000
LINE_LIMIT = 2000
PAGE_LIMIT = 60_000
SCANNED = 64 * 1024 * 1024
"""How many bytes of a text are read to count lines."""


class TextPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some lines of a text. `last` is the number of the last line that was looked at; `more`: the text goes on."""

    lines: list[str]
    last: int
    more: bool


def page_of(numbered: Iterable[tuple[int, str]], offset: int | None, limit: int | None) -> TextPage:
    """Return the lines from `offset` on, at most `limit` lines and about `PAGE_LIMIT` characters."""
    first, most = offset or 1, limit or LINES
    shown: list[str] = []
    used = number = 0
    for number, line in numbered:
        if number < first:
            continue
        if len(shown) >= most or used > PAGE_LIMIT:
            return TextPage(lines=shown, last=number - 1, more=True)
        shown.append(f"{number:6d}\t{line}")
        used += len(shown[-1]) + 1
    return TextPage(lines=shown, last=number, more=False)


def cut_lines(stream: io.BufferedIOBase) -> Iterator[tuple[int, str]]:
    """Yield numbered lines, each cut. Only the beginning of a very long line is held in memory."""
    number = scanned = 0
    while scanned < SCANNED and (line := stream.readline(LINE_LIMIT * 4)):
        number += 1
        length = len(line)
        while not line.endswith(b"\n") and length < SCANNED and (more := stream.readline(1 << 16)):
            length += len(more)
            if more.endswith(b"\n"):
                break
        scanned += length
        text = cut(line.rstrip(b"\r\n").decode("utf-8", "replace"), LINE_LIMIT)
        yield number, text if length <= len(line) else f"{text[:LINE_LIMIT]}[... a line of {length} bytes]"


def whole_lines(text: io.TextIOBase) -> Iterator[tuple[int, str]]:
    """Yield numbered lines of which nothing is left out: a line over the limit continues on the next number."""
    number = scanned = 0
    while scanned < SCANNED and (line := text.readline(LINE_LIMIT)):
        number += 1
        scanned += len(line)
        yield number, line.rstrip("\r\n")
