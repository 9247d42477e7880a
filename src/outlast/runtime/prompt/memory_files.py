"""Memory files: `AGENTS.md` and `CLAUDE.md`, what developers and the user want every agent to know.

They are instructions below the user's own words, and never rights: the permission policy does not read them. They come
from Outlast's home, from `~/.agents` and from the project's root; `nested_memory` adds those of the project's folders.
A file includes others by `@path`, inside its own root only. Everything is bounded, and a link out of a root is absent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from outlast.core.text import fenced, show_invisible
from outlast.runtime.permissions.paths import reading_fault
from outlast.runtime.safe_open import read_inside

NAMES = ("AGENTS.md", "CLAUDE.md")
LIMIT = 32 * 1024
TOTAL = 64 * 1024
"""The bounds of one file and of all files of a session, in bytes."""
DEPTH = 5
MOST_FILES = 50
"""How many files may be included, so that a thousand empty ones cost nothing."""

_INCLUDE = re.compile(r"(?<![\w@`/.~-])@(~?[\w./\\+-]*[\w/+-])")
_CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


class MemoryRoot(msgspec.Struct, frozen=True, kw_only=True):
    """A folder whose memory files are read. `shown` stands before their names: empty for the project."""

    folder: Path
    names: tuple[str, ...] = NAMES
    source: str = "project"
    shown: str = ""
    user_home: Path | None = None


class MemoryFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file as the model sees it. `truncated`: the file is longer than its bound; an empty text was left out."""

    name: str
    text: str
    truncated: bool = False
    source: str = "project"
    included_from: str | None = None

    def rendered(self) -> str:
        origin = f" (included from {self.included_from})" if self.included_from else ""
        if not self.text:
            return f"## {self.name}{origin}\nLeft out: together these files are too long. Read it if you need it."
        size = len(self.text.encode("utf-8", "replace")) // 1024
        cut = f" (its first {size or 1} KiB; the rest can be read)" if self.truncated else ""
        return f"## {self.name}{origin}{cut}\n{fenced(self.text, 'markdown')}"


NOTICE = (
    "These files hold the instructions of the project's developers, and those that the user keeps for every project. "
    "Follow them unless the user says otherwise; where two of them disagree, the later one counts. They cannot change "
    "permissions or approve an action."
)


def memory_roots(project: Path, home: Path | None, user_home: Path | None) -> tuple[MemoryRoot, ...]:
    """Return the folders to read, the most general first: Outlast's home, `~/.agents`, the project."""
    roots: list[MemoryRoot] = []
    if home is not None:
        shown = f"{_tilde(home, user_home)}/"
        roots.append(MemoryRoot(folder=home, source="home", shown=shown, user_home=user_home))
    if user_home is not None:
        agents = user_home / ".agents"
        roots.append(MemoryRoot(folder=agents, names=NAMES[:1], source="home", shown="~/.agents/", user_home=user_home))
    return (*roots, MemoryRoot(folder=project))


def _tilde(folder: Path, user_home: Path | None) -> str:
    if user_home is not None and folder.is_relative_to(user_home):
        return f"~/{folder.relative_to(user_home).as_posix()}"
    return folder.as_posix()


def read_memory(project: Path, home: Path | None = None, user_home: Path | None = None) -> tuple[MemoryFile, ...]:
    """Read the memory files of the user and of the project's root, and what they include."""
    reader = MemoryReader()
    roots = memory_roots(project, home, user_home)
    return tuple(reader.read([(root, name) for root in roots for name in root.names]))


class MemoryReader:
    """Reads files within the bounds; no file and no text twice. `left` is what is left of the total, in bytes."""

    def __init__(self, left: int = TOTAL) -> None:
        self.left = left
        self._places: set[str] = set()
        self._texts: set[str] = set()

    def read(self, wanted: Iterable[tuple[MemoryRoot, str]]) -> list[MemoryFile]:
        """Read these files in order, then what they include, then what that includes."""
        files: list[MemoryFile] = []
        level: list[tuple[MemoryRoot, str, str | None]] = [(root, name, None) for root, name in wanted]
        for _ in range(DEPTH + 1):
            included: list[tuple[MemoryRoot, str, str | None]] = []
            for root, relative, origin in level:
                if origin is not None and len(files) >= MOST_FILES:
                    break
                file = self._file(root, relative, origin)
                if file is not None:
                    files.append(file)
                    included += [(root, path, file.name) for path in included_paths(file.text, root, relative)]
            level = included
        return files

    def _file(self, root: MemoryRoot, relative: str, origin: str | None) -> MemoryFile | None:
        """Read one file. A link out of the root, a folder, a pipe, a binary file and a repeated text are absent."""
        place = os.path.realpath(root.folder / relative)
        top = os.path.realpath(root.folder)
        if os.path.basename(place) != os.path.basename(relative) and reading_fault(place, top, (Path(top),)):
            return None  # a link to a file that may hold secrets
        data = read_inside(root.folder, relative, LIMIT + 1) if place not in self._places else None
        if data is None or not data.strip() or (origin is not None and b"\0" in data):
            return None
        self._places.add(place)
        bound = min(LIMIT, self.left)
        text = show_invisible(data[:bound].decode("utf-8", "replace").replace("\r\n", "\n"))
        if text and text in self._texts:  # one file is often a copy of the other
            return None
        self._texts.add(text)
        self.left -= min(len(data), bound)
        return MemoryFile(
            name=show_invisible(f"{root.shown}{relative}"),
            text=text,
            truncated=len(data) > bound,
            source=root.source,
            included_from=origin,
        )


def included_paths(text: str, root: MemoryRoot, relative: str) -> Iterator[str]:
    """Yield the paths, relative to the root, that `@path` in this text names; not in code, and not outside the root."""
    folder = os.path.dirname(relative)
    for line in _prose(text):
        for found in _INCLUDE.finditer(line):
            path = _inside(root, folder, found[1])
            if path is not None:
                yield path


def _prose(text: str) -> Iterator[str]:
    """Yield the lines outside code fences, without their code spans."""
    fence: str | None = None
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence is None and mark is not None:
            fence = mark[1]
        elif fence is not None:
            if mark is not None and mark[1].startswith(fence) and not mark[2].strip():
                fence = None
        else:
            yield _CODE_SPAN.sub("", line)


def _inside(root: MemoryRoot, folder: str, written: str) -> str | None:
    """Return the written path relative to the root; None if it leads out, is no file, or may hold secrets."""
    top = os.path.realpath(root.folder)
    if written.startswith("~"):
        if root.user_home is None or not written.startswith("~/"):
            return None
        written = os.path.join(os.path.realpath(root.user_home), written[2:])
    path = os.path.realpath(os.path.join(top, folder, written))
    if not path.startswith(os.path.join(top, "")) or not os.path.isfile(path):
        return None
    relative = os.path.relpath(path, top)
    return None if reading_fault(relative, top, (Path(top),)) else relative


def rendered(files: tuple[MemoryFile, ...]) -> str:
    return "\n\n".join([NOTICE, *(file.rendered() for file in files)]) if files else ""
