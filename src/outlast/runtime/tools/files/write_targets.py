"""The files that one write call changes, as its `ToolCallStarted` records them, and their state now.

A call that changes one file records its path, pre-image and digests. A patch changes several: `facts["targets"]` lists
them, with all pre-images in one byte string (`facts["contents"]`, a blob if long), and the digests of the event are
digests over the whole list. So recovery compares one value: all files before, all after, or neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, cast

from outlast.core.events import ToolCallStarted
from outlast.runtime.tools.files.atomic_write import now
from outlast.runtime.tools.files.sandboxed_path import locate
from outlast.runtime.tools.port import Target, ToolContext, ToolFault


def joint_target(files: Sequence[Target]) -> Target:
    """Return one target for several files."""
    return Target(
        path="",
        digest_before=_joint((file.path, file.digest_before) for file in files),
        digest_after=_joint((file.path, file.digest_after) for file in files),
        files=tuple(files),
    )


def _joint(digests: Iterable[tuple[str, str]]) -> str:
    listed = "\n".join(f"{digest} {path}" for path, digest in sorted(digests))
    return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()


def target_facts(target: Target | None) -> dict[str, Any]:
    """Return the facts of `ToolCallStarted` that say what the call will change, and how to undo it."""
    if target is None:
        return {}
    if not target.files:
        return {"path": target.path, "before": target.before}
    contents = bytearray()
    rows: list[dict[str, Any]] = []
    for file in target.files:
        place = None if file.before is None else [len(contents), len(file.before)]
        contents += file.before or b""
        digests = {"digest_before": file.digest_before, "digest_after": file.digest_after}
        rows.append({"path": file.path, **digests, "before": place})
    return {"targets": rows, "contents": bytes(contents)}


def recorded_targets(event: ToolCallStarted) -> list[Target]:
    """Return the files that a started call records; none if it records no file."""
    facts = event.facts
    if isinstance(path := facts.get("path"), str):
        before = facts.get("before")
        return [
            Target(
                path=path,
                digest_before=event.target_digest_before or "",
                digest_after=event.target_digest_after or "",
                before=before if isinstance(before, bytes) else None,
            )
        ]
    contents = facts.get("contents", b"")
    rows = cast("list[dict[str, Any]]", facts.get("targets") or [])
    return [
        Target(
            path=row["path"],
            digest_before=row["digest_before"],
            digest_after=row["digest_after"],
            before=None if row["before"] is None else contents[row["before"][0] : sum(row["before"])],
        )
        for row in rows
    ]


def digest_now(event: ToolCallStarted, context: ToolContext) -> str | None:
    """Return the digest of the recorded files as they are now; None if it cannot be determined."""
    files = recorded_targets(event)
    try:
        found = [(file.path, now(locate(file.path, context)).digest) for file in files]
    except (ToolFault, OSError):
        return None
    if not found:
        return None
    return found[0][1] if "path" in event.facts else _joint(found)


def partial_outcome(event: ToolCallStarted, context: ToolContext) -> str | None:
    """Return which files of an interrupted patch were changed and which were not; None for a call with one file."""
    files = recorded_targets(event)
    if "path" in event.facts or not files:
        return None
    sorted_files: dict[str, list[str]] = {}
    for file in files:
        sorted_files.setdefault(_state(file, context), []).append(file.path)
    told = "; ".join(f"{state}: {', '.join(paths)}" for state, paths in sorted_files.items())
    return f"Interrupted: this patch was started and carried out in part. {told}. Check before doing it again."


def _state(file: Target, context: ToolContext) -> str:
    try:
        digest = now(locate(file.path, context)).digest
    except (ToolFault, OSError):
        return "Cannot be read"
    if digest == file.digest_after:
        return "Changed as asked"
    return "Not changed" if digest == file.digest_before else "Neither as before nor as asked"
