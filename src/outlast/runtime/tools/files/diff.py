"""Describes a change to a file for people: line counts and a unified diff of limited length."""

from __future__ import annotations

import difflib
from typing import Any

from outlast.runtime.tools.output_limit import bounded

DIFF_LIMIT = 16_000
COMPARABLE = 512 * 1024
"""Comparing takes time quadratic in the size; above this size only sizes are reported."""


def difference(path: str, before: bytes | None, after: bytes, *, created: bool) -> dict[str, Any]:
    """Return the facts of a change: added and removed lines and the diff, or only the size if it cannot be compared."""
    facts: dict[str, Any] = {"path": path, "created": created, "bytes": len(after)}
    old, new = before or b"", after
    if (
        (before is None and not created)
        or max(len(old), len(new)) > COMPARABLE
        or b"\0" in old[:8192]
        or b"\0" in new[:8192]
    ):
        return facts
    lines = list(_unified(path, old.decode("utf-8", "replace"), new.decode("utf-8", "replace")))
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    return {**facts, "added": added, "removed": removed, "diff": bounded("\n".join(lines), DIFF_LIMIT)}


def _unified(path: str, old: str, new: str) -> list[str]:
    return list(difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm=""))
