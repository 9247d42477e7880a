"""What a search leaves out: what `.gitignore` files say, and folders that are nobody's source."""

from __future__ import annotations

import re

from outlast.runtime.tools.files.glob_pattern import translated

ALWAYS = frozenset({".git", ".outlast", ".hg", ".svn", "node_modules", "__pycache__"})
LARGEST = 256 * 1024


class IgnoreRule:
    """One line of an ignore file that lies in `base` (a path with a slash at its end, or empty)."""

    def __init__(self, line: str, base: str) -> None:
        self.keeps = line.startswith("!")
        pattern = line[1:] if self.keeps else line
        self.folders_only = pattern.endswith("/")
        pattern = pattern.rstrip("/")
        anchored = "/" in pattern
        pattern = pattern.lstrip("/")
        self.base = base
        self.pattern = re.compile(translated(pattern if anchored else f"**/{pattern}"), re.DOTALL)

    def fits(self, path: str, is_folder: bool) -> bool:
        if (self.folders_only and not is_folder) or not path.startswith(self.base):
            return False
        return self.pattern.match(path[len(self.base) :]) is not None


def rules(text: str, base: str) -> list[IgnoreRule]:
    """The rules of an ignore file. A line that cannot be understood ignores nothing."""
    found: list[IgnoreRule] = []
    for line in text.splitlines():
        stripped = line.rstrip()
        if not stripped.strip("!/") or stripped.startswith("#"):
            continue
        try:
            found.append(IgnoreRule(stripped, base))
        except re.error:
            continue
    return found


def is_ignored(path: str, is_folder: bool, known: list[IgnoreRule]) -> bool:
    """Whether the last rule that fits says so."""
    if path.rpartition("/")[2] in ALWAYS and is_folder:
        return True
    return next((not rule.keeps for rule in reversed(known) if rule.fits(path, is_folder)), False)
