"""Shortens long text to its head and tail, states how much was left out, and names the reference to the whole.

`read output:CALL_ID` shows the whole output of a call if the outcome has it (`ToolOutcome.whole`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from outlast.runtime.permissions.call_paths import OUTPUT_REFERENCE
from outlast.runtime.tools.port import ToolOutcome

TEXT_LIMIT = 30_000
HEAD_SHARE = 2 / 3


def bounded(text: str, limit: int = TEXT_LIMIT, call_id: str | None = None) -> str:
    """Return `text`, or its head and tail with a line in between that says how much is missing and, with `call_id`,
    how to read it."""
    if len(text) <= limit:
        return text
    head = int(limit * HEAD_SHARE)
    tail = limit - head
    return joined(text[:head], text[len(text) - tail :], f"{len(text) - limit:,} characters", call_id)


def bounded_outcome(
    text: str, call_id: str, *, note: str = "", facts: dict[str, Any] | None = None, limit: int = TEXT_LIMIT
) -> ToolOutcome:
    """Return an outcome whose text is bounded. If it is cut, the whole is kept, and the text says how to read it."""
    whole = text.encode("utf-8", "replace") if len(text) > limit else None
    return ToolOutcome(text=bounded(text, limit, call_id) + note, facts=facts or {}, whole=whole)


def bounded_file(path: Path, total: int, limit: int = TEXT_LIMIT, call_id: str | None = None) -> tuple[str, bool]:
    """Return the text of an output log, and whether it is an excerpt. `total` counts all output, logged or not."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= limit and size >= total:
            return file.read().decode("utf-8", "replace"), False
        head = file.read(int(limit * HEAD_SHARE))
        file.seek(max(len(head), size - (limit - len(head))))
        tail = file.read()
    left_out = max(total, size) - len(head) - len(tail)
    return joined(
        head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), f"{left_out:,} bytes", call_id
    ), True


def joined(head: str, tail: str, missing: str, call_id: str | None = None) -> str:
    """Return head and tail with a line in between. With `call_id` it names the reference to the whole output."""
    remedy = f"; read {OUTPUT_REFERENCE}{call_id} shows them" if call_id else " here ..."
    return f"{head}\n[... {missing} left out{remedy}]\n{tail}"


def cut(line: str, limit: int) -> str:
    """Return the line, cut after `limit` characters with a note of how many more there were."""
    return line if len(line) <= limit else f"{line[:limit]}[... {len(line) - limit} more characters]"
