"""The process that walks folders for `glob` and `search`. It can be killed at any moment, even inside a regex match.

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

from outlast.runtime.tools.files.gitignore import LARGEST, IgnoreFile, is_ignored
from outlast.runtime.tools.files.glob_pattern import anywhere, matcher

FILE_LIMIT = 8 * 1024 * 1024
LINE_SEARCHED = 64 * 1024
LINE_SHOWN = 300
PER_FILE = 50

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FolderWalk:
    """All files beneath `start` that are not ignored, each as folder descriptor, name, and path below `start`."""

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
        for folder, folders, names, here in os.fwalk(".", dir_fd=self.here, follow_symlinks=False):
            if time.monotonic() > self.until:
                self.in_time = False
                return
            below = "" if folder == "." else f"{folder[2:]}/"
            known = self._learned(here, self.base + below)
            folders[:] = sorted(n for n in folders if not is_ignored(f"{self.base}{below}{n}", True, known))
            for name in sorted(names):
                if not is_ignored(f"{self.base}{below}{name}", False, known):
                    yield here, name, below + name

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
    os.write(1, json.dumps(fields, separators=(",", ":")).encode() + b"\n")


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
    pattern = re.compile(asked["pattern"])
    wanted = anywhere(asked["glob"]) if asked["glob"] else None
    found = skipped = 0
    for here, name, path in walk.files():
        if (asked["only"] and path != asked["only"]) or (wanted is not None and wanted.match(path) is None):
            continue
        data = content(here, name, FILE_LIMIT)
        if data is None or b"\0" in data[:8192]:
            skipped += data is None
            continue
        found += _search_file(pattern, path, data, asked["most"] - found)
        if found >= asked["most"] or time.monotonic() > walk.until:
            break
    say(done=True, in_time=time.monotonic() <= walk.until, more=found >= asked["most"], skipped=skipped)


def _search_file(pattern: re.Pattern[str], path: str, data: bytes, room: int) -> int:
    found = 0
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if (hit := pattern.search(line[:LINE_SEARCHED].rstrip("\r"))) is not None:
            start = max(0, hit.start() - 100) if len(line) > LINE_SHOWN else 0
            say(file=path, line=number, text=line[start : start + LINE_SHOWN].rstrip("\r"))
            found += 1
            if found >= min(room, PER_FILE):
                break
    return found


def main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    signal.alarm(int(asked["seconds"]) + 2)  # ends this process even if its parent is gone
    walk = FolderWalk(int(asked["root"]), asked["start"], time.monotonic() + asked["seconds"])
    if asked["what"] == "glob":
        glob(walk, asked)
    else:
        search(walk, asked)


if __name__ == "__main__":
    main()
