"""Tracks the folders a command line may run in, and checks what it touches from there.

After `cd x` a later command runs in `x`, or in the previous folder if `cd` failed, so a path must be harmless from
every possible folder.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from outlast.runtime.permissions.paths import inside, reading_fault, writing_fault
from outlast.runtime.permissions.shell.tokenizer import NotUnderstood, Word

MOST_MATCHES = 2_000
MOST_FOLDERS = 4


class CommandScope:
    """`writes`: a command of the line is known to write."""

    def __init__(self, project: Path, roots: Sequence[Path], search_path: str = "") -> None:
        self.roots = tuple(roots)
        self.search_path = search_path
        self.writes = False
        self.folders = [os.path.realpath(project)]

    @contextlib.contextmanager
    def standing_in(self, folders: list[str]) -> Generator[None]:
        """Judge as if the command ran in these folders, until the block ends."""
        before, self.folders = self.folders, folders
        try:
            yield
        finally:
            self.folders = before

    def reads(self, word: Word) -> None:
        """Raises NotUnderstood if reading this operand, or anything it may expand to, needs a question."""
        if word.text == "-":
            return
        for folder in self.folders:
            for name in _matches(word, folder) if word.glob else [word.text]:
                if word.glob and name.startswith("-"):
                    raise NotUnderstood("has a pattern that fits a name which is an option; write ./ before it")
                self._refuse(reading_fault(name, folder, self.roots))

    def is_folder(self, word: Word) -> bool:
        """Whether this operand may name a folder."""
        return any(os.path.isdir(os.path.join(folder, word.text)) for folder in self.folders)

    def writes_to(self, word: Word) -> None:
        """Raises NotUnderstood if writing to this path needs a question, whatever writes there."""
        if word.glob:
            raise NotUnderstood("writes to a pattern")
        for folder in self.folders:
            self._refuse(writing_fault(word.text, folder, self.roots))

    def goes_to(self, word: Word) -> None:
        """`cd`: later commands may also run in this folder."""
        found: list[str] = []
        for folder in self.folders:
            there = os.path.normpath(os.path.join(folder, word.text))
            if os.path.realpath(there) != there:
                raise NotUnderstood("changes into a folder through a link")
            if not inside(there, self.roots):
                raise NotUnderstood("changes into a folder outside the project")
            found.append(there)
        self.folders = list(dict.fromkeys([*self.folders, *found]))
        if len(self.folders) > MOST_FOLDERS:
            raise NotUnderstood("changes folders too often to be followed")

    def _refuse(self, fault: str | None) -> None:
        if fault is not None:
            raise NotUnderstood(fault)


def _matches(word: Word, folder: str) -> Iterator[str]:
    """Yield every name a pattern may expand to, and possibly more: only the text before its first wildcard and after
    its last one is compared."""
    found = ["/" if word.text.startswith("/") else ""]
    for part in word.text.split("/"):
        if part and not set(part) & set("*?[]"):
            found = [os.path.join(stem, part) for stem in found]
        elif part:
            found = [name for stem in found for name in _entries(stem, part, folder)]
        if len(found) > MOST_MATCHES:
            raise NotUnderstood("has a pattern that fits too many names")
    yield from found
    yield word.text  # bash passes the pattern itself if nothing matches


def _entries(stem: str, part: str, folder: str) -> list[str]:
    signs = [at for at, char in enumerate(part) if char in "*?[]"]
    prefix, suffix = part[: signs[0]], part[signs[-1] + 1 :]
    try:
        names = os.listdir(os.path.join(folder, stem))
    except OSError:
        return []
    return [
        os.path.join(stem, name)
        for name in names
        if name.startswith(prefix) and name.endswith(suffix) and (prefix.startswith(".") or not name.startswith("."))
    ]
