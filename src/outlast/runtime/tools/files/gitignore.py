"""Decides which paths a search skips: those that git's ignore files name, and folders without source code.

pathspec parses the patterns. It is imported when the first ignore file is read, so only in the scanning process.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

ALWAYS = frozenset({".git", ".outlast", ".hg", ".svn", "node_modules", "__pycache__"})
LARGEST = 256 * 1024


class IgnoreFile:
    """The patterns of one ignore file, which apply below `base` (a path ending with a slash, or empty)."""

    def __init__(self, text: str, base: str) -> None:
        from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

        self.base = base
        self._patterns: list[tuple[re.Pattern[str], bool]] = []
        for line in text.removeprefix("\ufeff").split("\n"):
            try:
                pattern = GitIgnoreSpecPattern(line.removesuffix("\r"))
            except (ValueError, re.error):
                continue  # a line that cannot be parsed ignores nothing
            regex = cast("re.Pattern[str] | None", pattern.regex)  # pyright: ignore[reportUnknownMemberType]
            if regex is not None and pattern.include is not None:
                self._patterns.append((regex, pattern.include))

    def verdict(self, path: str) -> bool | None:
        """Whether the last pattern that matches this path itself ignores it; None if no pattern matches. The path of a
        folder must end with a slash."""
        below = path[len(self.base) :]
        return next((ignores for pattern, ignores in reversed(self._patterns) if _fits(pattern, below)), None)


def _fits(pattern: re.Pattern[str], path: str) -> bool:
    """pathspec also matches paths inside a matching folder, and marks those matches with its only group. They are
    excluded here: the walk has already judged that folder, which is not ignored, or the caller named it."""
    found = pattern.match(path)
    return found is not None and (found.lastindex is None or found.end() == len(path))


def is_ignored(path: str, is_folder: bool, known: Sequence[IgnoreFile]) -> bool:
    """Whether the nearest ignore file with a matching pattern ignores the path; `known` has the nearest file last."""
    if is_folder and path.rpartition("/")[2] in ALWAYS:
        return True
    path = f"{path}/" if is_folder else path
    verdicts = (file.verdict(path) for file in reversed(known) if path.startswith(file.base))
    return next((verdict for verdict in verdicts if verdict is not None), False)
