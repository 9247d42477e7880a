"""The files of the developer: what a command changed, in words that equal runs share, and putting it back.

Compared are kind, mode and content of every path, git's own files included. Left out is what differs between any two
runs: times, and files that hold times (`TIMED`). The index of git counts by its entries.
"""

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.sandbox.arena import WORLD
from tests.sandbox.friction.developer_home import ENVIRONMENT
from tests.sandbox.friction.everyday import HOME, OUTSIDE, REMOTES

ROOTS = (HOME, OUTSIDE, REMOTES)
CACHES = frozenset(str(HOME / name) for name in (".cache", ".npm", "go/pkg", ".outlast"))
"""What a command downloads goes to an area of the project: it is neither compared nor put back. Nor is our own home."""
TEMPLATE = WORLD.parent / "friction-template"
TIMED_FOLDER = "/.ruff_cache/"
TIMED = (".pyc", ".tar", ".tgz", ".gz", ".zip", ".whl", ".sqlite", ".db", ".o", ".a")
"""Of these, only kind and mode are compared."""

Stamp = tuple[int, int, int, int]


class TreeState:
    """Knows the state of the files as they were created. `changes` compares with it, `restore` goes back to it."""

    def __init__(self) -> None:
        for root in ROOTS:
            shutil.copytree(root, TEMPLATE / root.name, symlinks=True)
        self._stamps = _stamps()

    def changes(self) -> dict[str, str]:
        """Return every path that differs from the template, with what is there now."""
        now = _stamps()
        paths = sorted(path for path in {*now, *self._stamps} if now.get(path) != self._stamps.get(path))
        found = {path: _described(path) for path in paths}
        return {path: text for path, text in found.items() if text != _described(_original(path))}

    def restore(self) -> None:
        now = _stamps()
        for path in sorted(now.keys() - self._stamps.keys(), reverse=True):
            _remove(path)
        for path in sorted(path for path, stamp in self._stamps.items() if now.get(path) != stamp):
            _put_back(path)
        self._stamps = _stamps()


def _original(path: str) -> str:
    return str(TEMPLATE / Path(path).relative_to(WORLD))


def _walk(root: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.path in CACHES:
                continue
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path)


def _stamps() -> dict[str, Stamp]:
    found: dict[str, Stamp] = {}
    for root in ROOTS:
        for entry in _walk(str(root)):
            facts = entry.stat(follow_symlinks=False)
            changed, size = (0, 0) if stat.S_ISDIR(facts.st_mode) else (facts.st_ctime_ns, facts.st_size)
            found[entry.path] = (facts.st_mode, facts.st_ino, changed, size)
    return found


def _described(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return "missing"
    kind = f"{stat.filemode(mode)} "
    if stat.S_ISLNK(mode):
        return kind + os.readlink(path)
    if not stat.S_ISREG(mode) or path.endswith(TIMED) or TIMED_FOLDER in path:
        return kind
    if os.path.basename(path) == "index" and os.path.exists(os.path.join(os.path.dirname(path), "HEAD")):
        return kind + _entries(path)
    data = Path(path).read_bytes()
    return kind + (repr(data) if len(data) < 400 else hashlib.sha256(data).hexdigest())


def _entries(index: str) -> str:
    argv = ["git", f"--git-dir={os.path.dirname(index)}", "ls-files", "--stage"]
    names = {**ENVIRONMENT, "GIT_INDEX_FILE": index}
    done = subprocess.run(argv, capture_output=True, check=True, env=names)
    return hashlib.sha256(done.stdout).hexdigest()


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def _put_back(path: str) -> None:
    original = _original(path)
    if os.path.isdir(original) and not os.path.islink(original):
        if os.path.islink(path) or not os.path.isdir(path):
            _remove(path)
            os.mkdir(path)
        shutil.copystat(original, path)
        return
    _remove(path)
    shutil.copy2(original, path, follow_symlinks=False)
