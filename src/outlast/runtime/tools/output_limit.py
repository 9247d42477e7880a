"""Shortens long text to its head and tail, and states how much was left out."""

from __future__ import annotations

import os
from pathlib import Path

TEXT_LIMIT = 30_000
HEAD_SHARE = 2 / 3


def bounded(text: str, limit: int = TEXT_LIMIT) -> str:
    """Return `text`, or its head and tail with a line in between that says how much is missing."""
    if len(text) <= limit:
        return text
    head = int(limit * HEAD_SHARE)
    tail = limit - head
    return joined(text[:head], text[len(text) - tail :], f"{len(text) - limit} characters")


def bounded_file(path: Path, total: int, limit: int = TEXT_LIMIT) -> tuple[str, bool]:
    """Return the text of an output log, and whether it is an excerpt. `total` counts all output, logged or not."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= limit and size >= total:
            return file.read().decode("utf-8", "replace"), False
        head = file.read(int(limit * HEAD_SHARE))
        file.seek(max(len(head), size - (limit - len(head))))
        tail = file.read()
    left_out = max(total, size) - len(head) - len(tail)
    return joined(head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), f"{left_out} bytes"), True


def joined(head: str, tail: str, missing: str) -> str:
    return f"{head}\n[... {missing} left out here ...]\n{tail}"


def cut(line: str, limit: int) -> str:
    """Return the line, cut after `limit` characters with a note of how many more there were."""
    return line if len(line) <= limit else f"{line[:limit]}[... {len(line) - limit} more characters]"
