"""glob: lists files by a path pattern, newest first."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.builtin.write import content_bytes
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.files.folder_scan import scanned, shown_path
from outlast.runtime.tools.files.glob_pattern import matcher
from outlast.runtime.tools.files.sandboxed_path import locate
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome

SECONDS = 20
SHOWN = 500
LOOKED_AT = 20_000


class GlobArguments(ToolArguments, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(description="For example **/*.py or src/**/test_*.{ts,tsx}.", min_length=1)]
    path: Annotated[str, Meta(description="Folder to look in; the project by default.")] | None = None


async def glob(arguments: GlobArguments, context: ToolContext) -> ToolOutcome:
    content_bytes(arguments.pattern, "pattern")
    pattern = _checked(arguments.pattern)
    place = locate(arguments.path or ".", context)
    rows, whole = await scanned(place, {"what": "glob", "pattern": pattern, "most": LOOKED_AT}, SECONDS)
    files = sorted((row for row in rows if "file" in row), key=lambda row: -row["when"])
    end = rows[-1] if rows and "done" in rows[-1] else {}
    facts = {"files": len(files), "whole": bool(whole and end.get("in_time") and not end.get("more"))}
    if not files:
        return ToolOutcome(text=f"No file matches {arguments.pattern}.{_unfinished(facts)}", facts=facts)
    names = [shown_path(place, row["file"], context) for row in files[:SHOWN]]
    more = f"\n[... {len(files) - SHOWN} more; narrow the pattern]" if len(files) > SHOWN else ""
    return ToolOutcome(text="\n".join(names) + more + _unfinished(facts), facts=facts)


def _checked(pattern: str) -> str:
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ToolFault("a pattern is relative and has no ..; name the folder to look in with path")
    try:
        matcher(pattern.removeprefix("./"))
    except ValueError as error:
        raise ToolFault(str(error)) from error
    return pattern.removeprefix("./")


def _unfinished(facts: dict[str, Any]) -> str:
    return "" if facts["whole"] else "\n[... not all folders were looked at; narrow the path or the pattern]"


GLOB = BuiltinTool(
    "glob",
    "List files whose path matches a pattern, the newest first. Files that .gitignore names are skipped.",
    GlobArguments,
    EffectClass.READ,
    glob,
)
