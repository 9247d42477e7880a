"""The process that walks folders for `glob` and `search`. It can be killed at any moment, its expression too.

It gets a descriptor of the root and walks from there by descriptors, following no link. Every find is one line of JSON
on its standard output at once, so that what was found before the time was up is not lost.
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

from outlast.runtime.tools.files.gitignore import LARGEST, IgnoreRule, is_ignored, rules
from outlast.runtime.tools.files.glob_pattern import anywhere, matcher

FILE_LIMIT = 8 * 1024 * 1024
LINE_SEARCHED = 64 * 1024
LINE_SHOWN = 300
PER_FILE = 50

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FolderWalk:
    """Every file beneath `start` that is not ignored: its folder's descriptor, its name, its path below `start`."""

    def __init__(self, root: int, start: list[str], until: float) -> None:
        self.known: list[IgnoreRule] = []
        self.until = until
        self.in_time = True
        here, base = root, ""
        for name in start:
            self._learn(here, base)
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
            self._learn(here, self.base + below)
            folders[:] = sorted(n for n in folders if not is_ignored(f"{self.base}{below}{n}", True, self.known))
            for name in sorted(names):
                if not is_ignored(f"{self.base}{below}{name}", False, self.known):
                    yield here, name, below + name

    def _learn(self, here: int, base: str) -> None:
        # Rules of folders that were left behind fit nothing more; keeping them would make every look slower.
        self.known = [rule for rule in self.known if base.startswith(rule.base)]
        text = content(here, ".gitignore", LARGEST)
        if text:
            self.known.extend(rules(text.decode("utf-8", "replace"), base))


def content(here: int, name: str, limit: int) -> bytes | None:
    """The bytes of a regular file that is not larger than `limit`; None for everything else."""
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
            continue  # gone meanwhile
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
    signal.alarm(int(asked["seconds"]) + 2)  # nobody needs to be left to kill us
    walk = FolderWalk(int(asked["root"]), asked["start"], time.monotonic() + asked["seconds"])
    if asked["what"] == "glob":
        glob(walk, asked)
    else:
        search(walk, asked)


if __name__ == "__main__":
    main()
