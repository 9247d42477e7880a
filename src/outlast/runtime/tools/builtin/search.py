"""search: finds what matches a regular expression, with ripgrep if installed, otherwise with our own scan.

Both only find: paths, line numbers and counts. `files.match_lines` reads and formats what is shown, so the result is
the same. An expression that ripgrep does not know (look-around, back-references) is searched for by the scan.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.permissions.paths import is_secret_path
from outlast.runtime.tools.builtin.write import content_bytes
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.files.folder_scan import OUTPUT_LIMIT, scanned, shown_path
from outlast.runtime.tools.files.gitignore import ALWAYS
from outlast.runtime.tools.files.glob_pattern import PathFilter, plain_glob
from outlast.runtime.tools.files.language_types import patterns_of
from outlast.runtime.tools.files.match_lines import MatchedLine, listed
from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, locate, opened
from outlast.runtime.tools.output_limit import bounded_outcome, cut
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.process.helper_process import gather

SECONDS = 20
MOST = 300
MOST_ASKED = 5000
AROUND = 50

Count = Annotated[int, Meta(ge=0, le=AROUND)]


class SearchArguments(ToolArguments, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(description="A regular expression, matched line by line.", min_length=1)]
    path: Annotated[str, Meta(description="Folder or file to search; the project by default.")] | None = None
    glob: (
        Annotated[str, Meta(description="Only files whose path matches, such as *.py or src/**/*.ts; !*.py excludes.")]
        | None
    ) = None
    output: Annotated[
        Literal["lines", "files", "count"],
        Meta(description="lines: matching lines (default); files: only paths; count: matching lines per file."),
    ] = "lines"
    before: Annotated[Count, Meta(description="Lines to show before each match.")] | None = None
    after: Annotated[Count, Meta(description="Lines to show after each match.")] | None = None
    ignore_case: Annotated[bool, Meta(description="Match upper and lower case alike.")] = False
    type: Annotated[str, Meta(description="Only files of a language: py, js, ts, go, rust, java, ...")] | None = None
    limit: (
        Annotated[int, Meta(description=f"How many lines or files to show; {MOST} by default.", ge=1, le=MOST_ASKED)]
        | None
    ) = None


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, in path order, at most as much as is shown. `matches` and `files` count everything found."""

    rows: list[MatchedLine] = []
    counts: list[tuple[str, int]] = []
    matches: int
    files: int
    whole: bool
    by: str


async def search(arguments: SearchArguments, context: ToolContext) -> ToolOutcome:
    for name, text in (("pattern", arguments.pattern), ("glob", arguments.glob or "")):
        content_bytes(text, name)
    types = patterns_of(arguments.type)
    try:
        wanted = PathFilter(arguments.glob, types)
    except ValueError as error:
        raise ToolFault(str(error)) from error
    place = locate(arguments.path or ".", context)
    only = _single_file(place)
    start = ResolvedPath(asked=place.asked, root=place.root, parts=place.parts[:-1]) if only else place
    program = ripgrep(context)
    found = await _by_ripgrep(program, arguments, start, only, types, wanted) if program else None
    if found is None:
        found = await _by_scan(arguments, start, only, types)
    return await asyncio.to_thread(_told, arguments, start, found, context)


def _single_file(place: ResolvedPath) -> str | None:
    """Return the name of the file if the path is one. Raises ToolFault if it cannot be searched."""
    try:
        mode = place.path.stat(follow_symlinks=False).st_mode
    except OSError as error:
        raise ToolFault(f"{place.asked} does not exist; look for it with glob") from error
    if not stat.S_ISREG(mode) or not place.parts:
        return None
    with opened(place) as file:
        start = os.read(file, 8192)
    if b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ToolFault(f"{place.asked} is not text; search looks only into text")
    return place.parts[-1]


def ripgrep(context: ToolContext) -> str | None:
    """Return the path of ripgrep. A ripgrep inside the project is not trusted."""
    path = shutil.which("rg", path=context.environment.get("PATH"))
    inside = path and any(Path(path).resolve().is_relative_to(root.resolve()) for root in context.roots)
    return None if inside else path


async def _by_scan(
    arguments: SearchArguments, start: ResolvedPath, only: str | None, types: tuple[str, ...]
) -> SearchResult:
    try:
        re.compile(arguments.pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolFault(f"'{cut(arguments.pattern, 200)}' is no valid regular expression: {error}") from error
    asked = {
        "what": "search", "pattern": arguments.pattern, "glob": arguments.glob, "types": types, "only": only,
        "output": arguments.output, "ignore_case": arguments.ignore_case, "most": arguments.limit or MOST,
    }  # fmt: skip
    rows, whole = await scanned(start, asked, SECONDS)
    end: dict[str, Any] = rows.pop() if rows and "done" in rows[-1] else {}
    lines = [MatchedLine(row["file"], row["line"], row["column"]) for row in rows if "line" in row]
    counts = [(row["file"], row["count"]) for row in rows if "count" in row]
    return SearchResult(
        rows=lines,
        counts=counts,
        matches=end.get("matches", len(lines) + sum(count for _, count in counts)),
        files=end.get("files", len({row["file"] for row in rows})),
        whole=whole and bool(end.get("in_time")),
        by="scan",
    )


async def _by_ripgrep(
    program: str,
    arguments: SearchArguments,
    start: ResolvedPath,
    only: str | None,
    types: tuple[str, ...],
    wanted: PathFilter,
) -> SearchResult | None:
    """Search with ripgrep. None if ripgrep cannot: then the scan does it, or says why not."""
    options = [
        "--no-config", "--no-follow", "--hidden", "--no-messages", "--color=never", "--no-heading", "--with-filename",
        "--null", "--no-require-git", f"--max-filesize={64 if only else 8}M", "--sort=path", "--no-ignore-dot",
        "--no-ignore-global", "--crlf",
    ]  # fmt: skip
    match arguments.output:
        case "lines":
            options += ["--line-number", "--column", "--max-columns=1"]
        case "files":
            options.append("--files-with-matches")
        case "count":
            options.append("--count")
    options += ["--ignore-case"] if arguments.ignore_case else []
    options += _restricted(arguments.glob, types)
    options += [f"--glob=!{name}" for name in sorted(ALWAYS)]
    argv = [program, *options, f"--regexp={arguments.pattern}", "--", f"./{only}" if only else "."]
    gathered = await gather(argv, seconds=SECONDS, limit=OUTPUT_LIMIT, cwd=start.path)
    if gathered.code == 2 and not gathered.output:
        return None
    limit = arguments.limit or MOST
    if arguments.output == "lines":
        found = [row for row in _rows(gathered.output) if only or _is_searched(row.path, wanted)]
        files = len({row.path for row in found})
        return SearchResult(
            rows=sorted(found, key=_order)[:limit], matches=len(found), files=files, whole=gathered.whole, by="ripgrep"
        )
    found = [pair for pair in _pairs(gathered.output, arguments.output) if only or _is_searched(pair[0], wanted)]
    return SearchResult(
        counts=sorted(found, key=_order)[:limit],
        matches=sum(count for _, count in found),
        files=len(found),
        whole=gathered.whole,
        by="ripgrep",
    )


def _is_searched(path: str, wanted: PathFilter) -> bool:
    """Whether a file counts. One that may hold secrets does only if the call names it, which the user is asked about;
    not even a count may tell whether a guess at a secret is right."""
    return wanted.accepts(path) and not is_secret_path(path)


def _restricted(glob: str | None, types: tuple[str, ...]) -> list[str]:
    """Return options with which ripgrep reads fewer files; `PathFilter` judges what it finds. A type is used because
    ripgrep's --glob also finds ignored files."""
    patterns = types
    if not patterns and glob and not glob.startswith("!"):
        name = plain_glob(glob).rpartition("/")[2]
        patterns = (name,) if name and "**" not in name and not set("{}") & set(glob[: -len(name)]) else ()
    return (
        ["--type-clear=wanted", *(f"--type-add=wanted:{name}" for name in patterns), "--type=wanted"]
        if patterns
        else []
    )


def _rows(output: bytes) -> Iterable[MatchedLine]:
    for line in output.split(b"\n")[:-1]:
        path, _, rest = line.decode("utf-8", "replace").partition("\0")
        number, _, rest = rest.partition(":")
        column, _, _ = rest.partition(":")
        if number.isdigit() and column.isdigit():
            yield MatchedLine(path.removeprefix("./"), int(number), int(column) - 1)


def _pairs(output: bytes, kind: str) -> Iterable[tuple[str, int]]:
    if kind == "files":
        yield from ((path.removeprefix("./"), 1) for path in output.decode("utf-8", "replace").split("\0")[:-1])
        return
    for line in output.split(b"\n")[:-1]:
        path, _, count = line.decode("utf-8", "replace").partition("\0")
        if count.strip().isdigit():  # --crlf ends these lines with \r, too
            yield path.removeprefix("./"), int(count)


def _order(row: MatchedLine | tuple[str, int]) -> tuple[list[str], int]:
    """The order of the walk: by the names in the path, then by line."""
    return row[0].split("/"), row[1]


def _told(arguments: SearchArguments, start: ResolvedPath, found: SearchResult, context: ToolContext) -> ToolOutcome:
    facts = {"files": found.files, "whole": found.whole, "by": found.by}
    if arguments.output != "files":
        facts["matches"] = found.matches
    if not found.files:
        note = _left_out(arguments, found, 0)
        return ToolOutcome(text=f"Nothing matches {cut(arguments.pattern, 200)}.{note}", facts=facts)

    def shown(path: str) -> str:
        return shown_path(start, path, context)

    match arguments.output:
        case "lines":
            lines = list(listed(found.rows, start, shown, arguments.before or 0, arguments.after or 0))
        case "files":
            lines = [shown(path) for path, _ in found.counts]
        case "count":
            lines = [f"{shown(path)}:{count}" for path, count in found.counts]
            lines.append(f"{found.matches} matching lines in {found.files} files")
    note = _left_out(arguments, found, len(found.rows or found.counts))
    return bounded_outcome("\n".join(lines), context.call_id, note=note, facts=facts)


def _left_out(arguments: SearchArguments, found: SearchResult, shown: int) -> str:
    """Return a note of how much more there is, or that the search did not finish."""
    if arguments.output == "lines":
        left, things = found.matches - shown, "matching lines"
    else:
        left, things = found.files - shown, "files"
    if not found.whole:
        least = f"at least {left} more {things}" if left > 0 else "there may be more"
        return f"\n[... the time was up or there was too much: {least}; narrow pattern, path, glob or type]"
    return f"\n[... {left} more {things}; raise limit, or narrow pattern, path, glob or type]" if left > 0 else ""


SEARCH = BuiltinTool(
    "search",
    "Search text files for a regular expression, line by line. Files that .gitignore names, files that may hold "
    "secrets (.env, keys), binary files and files over 8 MiB are skipped.",
    SearchArguments,
    EffectClass.READ,
    search,
)
