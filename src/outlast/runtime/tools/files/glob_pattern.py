"""Path wildcards: `*`, `?`, `[a-z]`, `{a,b}` within one name, `**` across folders."""

from __future__ import annotations

import re

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
