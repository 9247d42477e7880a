"""The process that walks folders for `glob`, `search` and `read`. It can be killed at any moment, even inside a regex
match.

It receives a descriptor of the root and walks by descriptors from there, following no link. It writes each match at
once as one line of JSON to standard output, so that matches found before a timeout are not lost.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Iterator
from typing import Any

from outlast.runtime.permissions.paths import is_secret_path
from outlast.runtime.tools.files.gitignore import LARGEST, IgnoreFile, is_ignored
from outlast.runtime.tools.files.glob_pattern import PathFilter, matcher

FILE_LIMIT = 8 * 1024 * 1024
NAMED_FILE_LIMIT = 64 * 1024 * 1024
"""Searching skips larger files; a file that the caller names may be larger."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FolderWalk:
    """All files beneath `start` that are not ignored, each as folder descriptor, name, and path below `start`.
    The order is ripgrep's: names sorted, files and folders together."""

    def __init__(self, root: int, start: list[str], until: float) -> None:
        self._on_the_way: list[tuple[str, list[IgnoreFile]]] = []
        self.until = until
        self.in_time = True
        here, base = root, ""
        for name in start:
            self._learned(here, base)
            here = os.open(name, _FOLDER, dir_fd=here)
            base += f"{name}/"
        self.here = here
        self.base = base

    def files(self) -> Iterator[tuple[int, str, str]]:
        return self._files(self.here, "")

    def _files(self, here: int, below: str) -> Iterator[tuple[int, str, str]]:
        for name, is_folder in self.entries(here, below):
            if time.monotonic() > self.until:
                self.in_time = False
                return
            if not is_folder:
                yield here, name, below + name
                continue
            folder = open_folder(here, name)
            if folder is None:
                continue
            try:
                yield from self._files(folder, f"{below}{name}/")
            finally:
                os.close(folder)

    def entries(self, here: int, below: str) -> list[tuple[str, bool]]:
        """Return the names in a folder that are not ignored, each with whether it is a folder, sorted by name."""
        known = self._learned(here, self.base + below)
        try:
            with os.scandir(here) as found:
                named = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        except OSError:
            return []  # it became unreadable in the meantime
        return sorted(one for one in named if not is_ignored(f"{self.base}{below}{one[0]}", one[1], known))

    def _learned(self, here: int, base: str) -> list[IgnoreFile]:
        """Return the ignore files that apply in this folder, the nearest last: its parent's and its own. A nested
        repository uses only its own."""
        while self._on_the_way and not base.startswith(self._on_the_way[-1][0]):
            self._on_the_way.pop()
        is_repository = _is_there(here, ".git")
        inherited = self._on_the_way[-1][1] if self._on_the_way and not is_repository else []
        texts = [_excluded(here) if is_repository else None, content(here, ".gitignore", LARGEST)]
        known = [*inherited, *(IgnoreFile(text.decode("utf-8", "replace"), base) for text in texts if text)]
        self._on_the_way.append((base, known))
        return known


def open_folder(here: int, name: str) -> int | None:
    try:
        return os.open(name, _FOLDER, dir_fd=here)
    except OSError:
        return None  # removed, replaced by a link, or not readable


def _is_there(here: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=here, follow_symlinks=False)
    except OSError:
        return False
    return True


def _excluded(here: int) -> bytes | None:
    """Return the content of `.git/info/exclude`; None if it, or a folder on the way, is missing or a link."""
    opened: list[int] = []
    try:
        for name in (".git", "info"):
            here = os.open(name, _FOLDER, dir_fd=here)
            opened.append(here)
        return content(here, "exclude", LARGEST)
    except OSError:
        return None
    finally:
        for folder in opened:
            os.close(folder)


def content(here: int, name: str, limit: int) -> bytes | None:
    """Return the bytes of a regular file of at most `limit` bytes; None for everything else."""
    try:
        file = os.open(name, _FILE, dir_fd=here)
    except OSError:
        return None
    with os.fdopen(file, "rb") as stream:
        found = os.fstat(file)
        return stream.read() if stat.S_ISREG(found.st_mode) and found.st_size <= limit else None


def say(**fields: Any) -> None:
    """Write a line. A byte of a name that is no UTF-8 becomes `?`: no reader of JSON takes half of a character."""
    os.write(1, json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace") + b"\n")


def glob(walk: FolderWalk, asked: dict[str, Any]) -> None:
    fits = matcher(asked["pattern"])
    found = 0
    for here, name, path in walk.files():
        if fits.match(path) is None:
            continue
        try:
            when = os.stat(name, dir_fd=here, follow_symlinks=False).st_mtime_ns
        except OSError:
            continue  # deleted in the meantime
        say(file=path, when=when)
        found += 1
        if found >= asked["most"]:
            break
    say(done=True, in_time=walk.in_time, more=found >= asked["most"])


def search(walk: FolderWalk, asked: dict[str, Any]) -> None:
    """Report the matching lines (`lines`), the number of them per file (`count`), or only the files (`files`). Only the
    first `most` rows are written; the rest is counted."""
    pattern = re.compile(asked["pattern"], re.IGNORECASE if asked["ignore_case"] else 0)
    rows = matches = files = 0
    for here, name, path in _searched_files(walk, asked):
        data = content(here, name, NAMED_FILE_LIMIT if asked["only"] else FILE_LIMIT)
        if data is None or (text := decoded(data)) is None:
            continue
        found = 0
        for number, line in enumerate(text.split("\n"), 1):
            hit = pattern.search(line.removesuffix("\r"))
            if hit is None:
                continue
            found += 1
            if asked["output"] == "lines" and rows < asked["most"]:
                rows += 1
                say(file=path, line=number, column=len(line[: hit.start()].encode("utf-8", "replace")))
            if asked["output"] == "files":
                break
        matches += found
        files += found > 0
        if found and asked["output"] != "lines" and rows < asked["most"]:
            rows += 1
            say(file=path, count=found)
        if time.monotonic() > walk.until:
            walk.in_time = False
            break
    say(done=True, in_time=walk.in_time, matches=matches, files=files)


def _searched_files(walk: FolderWalk, asked: dict[str, Any]) -> Iterator[tuple[int, str, str]]:
    if asked["only"]:
        yield walk.here, asked["only"], asked["only"]
        return
    wanted = PathFilter(asked["glob"], asked["types"])
    yield from (found for found in walk.files() if wanted.accepts(found[2]) and not is_secret_path(found[2]))


def decoded(data: bytes) -> str | None:
    """Return the text of a file as ripgrep sees it: a byte order mark decides the encoding; None if it is binary."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return None if b"\0" in data[:8192] else data.decode("utf-8-sig", "replace")


def listing(walk: FolderWalk, asked: dict[str, Any]) -> None:
    """List a folder and the folders in it. Rows are files with their size, folders, and other things (links)."""
    room = asked["most"]
    for name, is_folder in walk.entries(walk.here, ""):
        room = _listed(walk.here, name, name, is_folder, room)
        folder = open_folder(walk.here, name) if is_folder else None
        if folder is not None:
            for inner, inner_folder in walk.entries(folder, f"{name}/"):
                room = _listed(folder, inner, f"{name}/{inner}", inner_folder, room)
            os.close(folder)
        if time.monotonic() > walk.until:
            walk.in_time = False
            break
    say(done=True, in_time=walk.in_time, left_out=max(0, -room))


def _listed(here: int, name: str, path: str, is_folder: bool, room: int) -> int:
    """Report one entry if there is room. Return the room left, which is negative by the number of entries left out."""
    if room > 0:
        try:
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
        except OSError:
            return room  # deleted in the meantime
        kind = "folder" if is_folder else "file" if stat.S_ISREG(found.st_mode) else "other"
        if stat.S_ISLNK(found.st_mode):
            kind = "link"
        say(path=path, kind=kind, size=found.st_size)
    return room - 1


def main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    signal.alarm(int(asked["seconds"]) + 2)  # ends this process even if its parent is gone
    walk = FolderWalk(int(asked["root"]), asked["start"], time.monotonic() + asked["seconds"])
    {"glob": glob, "search": search, "list": listing}[asked["what"]](walk, asked)


if __name__ == "__main__":
    main()
