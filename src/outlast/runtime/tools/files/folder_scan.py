"""Runs the process that walks folders (`scan_process`) beneath a resolved path, shows the paths that it found, and
lists a folder with the folders in it."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, directory
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.process.helper_process import gather, scanner

OUTPUT_LIMIT = 16 * 1024 * 1024
SECONDS = 10
MOST = 500
"""Limits of a listing: time and entries."""


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


async def folder_listing(place: ResolvedPath, context: ToolContext) -> ToolOutcome:
    """Return the entries of a folder, two levels deep: folders end with a slash, files have their size."""
    rows, whole = await scanned(place, {"what": "list", "most": MOST}, SECONDS)
    end: dict[str, Any] = rows.pop() if rows and "done" in rows[-1] else {}
    left_out = end.get("left_out", 0)
    facts = {"entries": len(rows), "whole": bool(whole and end.get("in_time") and not left_out)}
    name = shown_path(place, "", context)
    if not rows:
        return ToolOutcome(text=f"{name}/ has no files, or all of them are ignored.", facts=facts)
    lines = [f"{name}/ (two levels; ignored files are left out)", *(_line(row) for row in rows)]
    if left_out:
        lines.append(f"[... {left_out} more; read a folder below, or use glob]")
    elif not facts["whole"]:
        lines.append("[... the time was up; read a folder below, or use glob]")
    return ToolOutcome(text="\n".join(lines), facts=facts)


def _line(row: dict[str, Any]) -> str:
    indent = "  " * (row["path"].count("/") + 1)
    name = row["path"].rpartition("/")[2]
    match row["kind"]:
        case "folder":
            return f"{indent}{name}/"
        case "file":
            return f"{indent}{name}  {size_of(row['size'])}"
        case kind:
            return f"{indent}{name}  ({'link' if kind == 'link' else 'neither file nor folder'})"


def size_of(count: int) -> str:
    """Return a size in the unit that reads best."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
