"""The head and the tail of what is too long, with a count of what was left out."""

from __future__ import annotations

import os
from pathlib import Path

TEXT_LIMIT = 30_000
HEAD_SHARE = 2 / 3


def bounded(text: str, limit: int = TEXT_LIMIT) -> str:
    """`text`, or its head and tail with a line between them that says how much is missing."""
    if len(text) <= limit:
        return text
    head = int(limit * HEAD_SHARE)
    tail = limit - head
    return joined(text[:head], text[len(text) - tail :], f"{len(text) - limit} characters")


def bounded_file(path: Path, total: int, limit: int = TEXT_LIMIT) -> tuple[str, bool]:
    """The text of an output log and whether it is only an excerpt. `total` is how much was put out, logged or not."""
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
    """A line that is not longer than `limit`, and says so when it was."""
    return line if len(line) <= limit else f"{line[:limit]}[... {len(line) - limit} more characters]"
