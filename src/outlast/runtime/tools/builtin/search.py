"""search: finds lines that match a regular expression, with ripgrep if installed, otherwise with our own scan."""

from __future__ import annotations

import re
import shutil
import stat
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.builtin.glob import OUTPUT_LIMIT, scanned, shown_path
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.files.gitignore import ALWAYS
from outlast.runtime.tools.files.glob_pattern import anywhere
from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, locate
from outlast.runtime.tools.files.scan_process import LINE_SHOWN, PER_FILE
from outlast.runtime.tools.output_limit import bounded, cut
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.process.helper_process import HelperOutput, gather

SECONDS = 20
MOST = 300


class SearchArguments(ToolArguments, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(description="A regular expression, matched line by line.", min_length=1)]
    path: Annotated[str, Meta(description="The folder or file to search; the project unless told.")] | None = None
    glob: Annotated[str, Meta(description="Only files whose path matches, for example *.py.")] | None = None


class SearchMatches:
    """The result of a search: lines in order, and whether anything was left out."""

    def __init__(self, rows: list[tuple[str, int, str]], whole: bool, by: str) -> None:
        self.rows = rows[:MOST]
        self.whole = whole and len(rows) <= MOST
        self.by = by


async def search(arguments: SearchArguments, context: ToolContext) -> ToolOutcome:
    if arguments.glob:
        try:
            anywhere(arguments.glob)
        except ValueError as error:
            raise ToolFault(str(error)) from error
    place = locate(arguments.path or ".", context)
    only = _single_file(place)
    start = ResolvedPath(asked=place.asked, root=place.root, parts=place.parts[:-1]) if only else place
    program = ripgrep(context)
    if program:
        found = await _by_ripgrep(program, arguments, start, only)
    else:
        found = await _by_scan(arguments, start, only)
    return _told(arguments, start, found, context)


def _single_file(place: ResolvedPath) -> str | None:
    try:
        mode = place.path.stat(follow_symlinks=False).st_mode
    except OSError as error:
        raise ToolFault(f"{place.asked} does not exist; glob shows what there is") from error
    return place.parts[-1] if stat.S_ISREG(mode) and place.parts else None


def ripgrep(context: ToolContext) -> str | None:
    """Return the path of ripgrep. A ripgrep inside the project is not trusted."""
    path = shutil.which("rg", path=context.environment.get("PATH"))
    if path is None or not Path(path).is_absolute():
        return None
    inside = any(Path(path).resolve().is_relative_to(root.resolve()) for root in context.roots)
    return None if inside else path


async def _by_scan(arguments: SearchArguments, start: ResolvedPath, only: str | None) -> SearchMatches:
    try:
        re.compile(arguments.pattern)
    except re.error as error:
        raise ToolFault(f"'{cut(arguments.pattern, 200)}' is no valid regular expression: {error}") from error
    asked = {"what": "search", "pattern": arguments.pattern, "glob": arguments.glob, "only": only, "most": MOST + 1}
    rows, whole = await scanned(start, asked, SECONDS)
    end: dict[str, Any] = rows[-1] if rows and "done" in rows[-1] else {}
    lines = [(row["file"], row["line"], row["text"]) for row in rows if "file" in row]
    return SearchMatches(lines, whole and bool(end.get("in_time")), "scan")


async def _by_ripgrep(program: str, arguments: SearchArguments, start: ResolvedPath, only: str | None) -> SearchMatches:
    options = [
        "--no-config", "--no-follow", "--hidden", "--no-messages", "--color=never", "--no-heading", "--with-filename",
        "--line-number", "--null", "--no-require-git", f"--max-columns={LINE_SHOWN}", "--max-columns-preview",
        f"--max-count={PER_FILE}", "--max-filesize=8M", "--sort=path", "--no-ignore-dot", "--no-ignore-global",
    ]  # fmt: skip
    options += _only(arguments.glob) if arguments.glob else []
    options += [f"--glob=!{name}" for name in sorted(ALWAYS)]
    argv = [program, *options, f"--regexp={arguments.pattern}", "--", f"./{only}" if only else "."]
    gathered = await gather(argv, seconds=SECONDS, limit=OUTPUT_LIMIT, cwd=start.path)
    if gathered.code == 2 and not gathered.output:
        reason = gathered.errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ToolFault(f"'{cut(arguments.pattern, 200)}' could not be searched for: {reason}")
    return SearchMatches(list(_rows(gathered)), gathered.whole, "ripgrep")


def _only(glob: str) -> list[str]:
    """ripgrep's --glob also finds ignored files; a type does not, but it matches only file names."""
    return [f"--glob={glob}"] if "/" in glob else ["--type-clear=wanted", f"--type-add=wanted:{glob}", "--type=wanted"]


def _rows(gathered: HelperOutput) -> list[tuple[str, int, str]]:
    rows: list[tuple[str, int, str]] = []
    for line in gathered.output.split(b"\n")[:-1]:
        path, _, rest = line.decode("utf-8", "replace").partition("\0")
        number, _, text = rest.partition(":")
        if number.isdigit():
            rows.append((path.removeprefix("./"), int(number), text.rstrip("\r")))
    return rows


def _told(arguments: SearchArguments, start: ResolvedPath, found: SearchMatches, context: ToolContext) -> ToolOutcome:
    files = {path for path, _, _ in found.rows}
    facts = {"matches": len(found.rows), "files": len(files), "whole": found.whole, "by": found.by}
    note = "" if found.whole else "\n[... there is more, or the time was up; narrow the pattern, path or glob]"
    if not found.rows:
        return ToolOutcome(text=f"Nothing matches {cut(arguments.pattern, 200)}.{note}", facts=facts)
    lines = [f"{shown_path(start, path, context)}:{number}:{text}" for path, number, text in found.rows]
    return ToolOutcome(text=bounded("\n".join(lines)) + note, facts=facts)


SEARCH = BuiltinTool(
    "search",
    "Search files for a regular expression, line by line. What .gitignore ignores is left out, so are binary files.",
    SearchArguments,
    EffectClass.READ,
    search,
)
