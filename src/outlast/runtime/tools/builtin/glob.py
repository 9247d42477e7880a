"""glob: lists files by a path pattern, newest first."""

from __future__ import annotations

import os
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.files.glob_pattern import matcher
from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, directory, locate
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.process.helper_process import gather, scanner

SECONDS = 20
SHOWN = 500
LOOKED_AT = 20_000
OUTPUT_LIMIT = 16 * 1024 * 1024


class GlobArguments(ToolArguments, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(description="For example **/*.py or src/**/test_*.{ts,tsx}.", min_length=1)]
    path: Annotated[str, Meta(description="The folder to look in; the project unless told.")] | None = None


async def glob(arguments: GlobArguments, context: ToolContext) -> ToolOutcome:
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


async def scanned(place: ResolvedPath, asked: dict[str, Any], seconds: int) -> tuple[list[dict[str, Any]], bool]:
    """Return what the scanning process found beneath a folder, and whether it finished."""
    with directory(ResolvedPath(asked=place.asked, root=place.root, parts=())) as root, directory(place):
        order = {**asked, "root": root, "start": place.parts, "seconds": seconds}
        found = await gather(
            scanner(),
            given=msgspec.json.encode(order),
            seconds=seconds + 1,
            limit=OUTPUT_LIMIT,
            descriptors=(root,),
        )
    if found.code > 0:
        reason = found.errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ToolFault(f"the search failed: {reason}")
    lines = found.output.split(b"\n")[:-1]
    return [msgspec.json.decode(line) for line in lines], found.whole


def shown_path(place: ResolvedPath, below: str, context: ToolContext) -> str:
    """Return a found path in a form the model can use as an argument: relative if it is inside the project."""
    path = place.path / below
    home = os.path.realpath(context.project)
    return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)


GLOB = BuiltinTool(
    "glob",
    "List files by a pattern of their path, the newest first. What .gitignore ignores is left out.",
    GlobArguments,
    EffectClass.READ,
    glob,
)
