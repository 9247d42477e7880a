"""Path wildcards: `*`, `?`, `[a-z]`, `{a,b}` within one name, `**` across folders."""

from __future__ import annotations

import re
from collections.abc import Sequence

_DEPTH = 4


def matcher(pattern: str) -> re.Pattern[str]:
    """Compile a pattern into a regular expression for exactly its paths. Raises ValueError if it is malformed."""
    try:
        return re.compile(translated(pattern), re.DOTALL)
    except re.error as error:
        raise ValueError(f"'{pattern}' is no valid pattern: {error}") from error


def anywhere(pattern: str) -> re.Pattern[str]:
    """Like `matcher`, but a pattern without a slash matches in any folder."""
    return matcher(pattern if "/" in pattern else f"**/{pattern}")


class PathFilter:
    """Accepts the paths that fit a glob (a leading `!` excludes them instead) and the name of one of the file types."""

    def __init__(self, glob: str | None, types: Sequence[str] = ()) -> None:
        self._excludes = bool(glob) and str(glob).startswith("!")
        self._glob = anywhere(plain_glob(glob)) if glob else None
        self._types = [anywhere(pattern) for pattern in types]

    def accepts(self, path: str) -> bool:
        if self._glob is not None and (self._glob.match(path) is not None) is self._excludes:
            return False
        return not self._types or any(pattern.match(path) for pattern in self._types)


def plain_glob(glob: str) -> str:
    """Return a glob without a leading `!`, `./` or `/`."""
    return glob.removeprefix("!").removeprefix("./").removeprefix("/")


def translated(pattern: str, depth: int = 0) -> str:
    """Return the source of a regular expression for the whole path."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        source, at = _next(pattern, at, depth)
        parts.append(source)
    return "".join(parts) + (r"\Z" if depth == 0 else "")


def _next(pattern: str, at: int, depth: int) -> tuple[str, int]:
    if pattern.startswith("**/", at) and (at == 0 or pattern[at - 1] == "/"):
        return "(?:.*/)?", at + 3
    if pattern.startswith("**", at):
        return ".*", at + 2
    match pattern[at]:
        case "*":
            return "[^/]*", at + 1
        case "?":
            return "[^/]", at + 1
        case "[" if (end := pattern.find("]", at + 2)) > 0:
            inside = pattern[at + 1 : end].replace("\\", "\\\\")
            negated = inside[:1] in ("!", "^")
            return f"(?!/)[{'^' if negated else ''}{inside[negated:]}]", end + 1
        case "{" if (end := pattern.find("}", at)) > 0 and depth < _DEPTH:
            options = [translated(option, depth + 1) for option in pattern[at + 1 : end].split(",")]
            return f"(?:{'|'.join(options)})", end + 1
        case "\\" if at + 1 < len(pattern):
            return re.escape(pattern[at + 1]), at + 2
        case char:
            return re.escape(char), at + 1
