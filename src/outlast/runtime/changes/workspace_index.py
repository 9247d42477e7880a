"""The files of one root as the last look saw them; the next look returns those that differ.

A look compares sizes, times and inodes of the known files, and lists only folders whose own time changed; it reads only
files that are new or differ. It runs no program, unless git's index changed. A content that git holds is remembered by
its blob id, any other is copied (`kept_copies`). Ignored files are not looked at, except those that git tracks, that
were known before, or that other programs obey. Folders are opened component by component without following links, so
nothing outside is read.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from outlast.runtime.changes.change_set import ABSENT, LARGE, LINK, NO_FILE, ChangedFile, FileState
from outlast.runtime.changes.git_objects import BLOB_LIMIT, GitObjects
from outlast.runtime.changes.ignore_rules import IgnoreRules
from outlast.runtime.changes.kept_copies import KeptCopies
from outlast.runtime.changes.obeyed_files import is_obeyed_though_ignored

FILES_LIMIT = 20_000
"""Maximum number of files that git does not track."""
NEVER = frozenset({".git", ".outlast", ".hg", ".svn"})
_TICK = 20_000_000
"""A file may change twice within one tick of the file system's clock (in ns); one changed so recently is read again."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Stamp = tuple[int, int, int, int]


class KnownFolder(msgspec.Struct, kw_only=True):
    """A folder: its own inode and time, the stamps of its files (None: read again), and the names that were skipped."""

    inode: int = 0
    changed: int = 0
    files: dict[str, Stamp | None] = {}
    skipped: set[str] = set()


class IndexState(msgspec.Struct, kw_only=True):
    """What is stored of an index. Keys of `folders` are empty or end with a slash; paths are relative to the root."""

    folders: dict[str, KnownFolder] = {}
    states: dict[str, FileState] = {}
    looked_at: int = 0
    tracked_stamp: tuple[int, int, int] | None = None
    rules_stamp: tuple[int, ...] = ()
    over_limit: bool = False


class RootChanges(msgspec.Struct, frozen=True, kw_only=True):
    files: tuple[ChangedFile, ...] = ()
    folders: tuple[str, ...] = ()


class WorkspaceIndex:
    """The index of one root. Not thread-safe. `left_out` are folders beneath the root that are never looked at."""

    def __init__(
        self,
        root: Path,
        copies: KeptCopies,
        *,
        git: GitObjects | None = None,
        left_out: tuple[Path, ...] = (),
        state: IndexState | None = None,
        files_limit: int = FILES_LIMIT,
    ) -> None:
        self.root = os.path.realpath(root)
        self.state = state or IndexState()
        self.unnamed = 0
        self.is_saved = state is not None
        self._copies, self._git, self._files_limit = copies, git, files_limit
        self._left_out = frozenset(os.path.relpath(place, self.root) + "/" for place in left_out)
        self._rules = IgnoreRules(Path(self.root), git.repository if git is not None else None)
        self._tracked: dict[str, str] | None = None
        self._tracked_folders: frozenset[str] = frozenset()
        self._untracked = 0
        self._before: dict[str, FileState] = {}
        self._made: list[str] = []
        self._skipped: set[str] = set()

    def look(self) -> RootChanges:
        """Bring the index up to date and return what changed since the last look; nothing at the first one."""
        began, first = time.time_ns(), not self.state.folders
        self._before, self._made, self._skipped = {}, [], set()
        is_reset = self._is_reset()
        if first or is_reset:
            self._read_tracked()
            self._rules.forget()
            self._list_all(began)
        else:
            stale = self._stale_folders()
            if self._list(stale, began):
                self._rules.forget()
                self._list_all(began)
        self.state.looked_at = began
        if first:
            return RootChanges()
        files = [
            ChangedFile(path=path, before=before, after=after)
            for path, before in sorted(self._before.items())
            if not before.is_same(after := self.state.states.get(path, NO_FILE))
        ]
        return RootChanges(files=tuple(files), folders=tuple(sorted(self._made)))

    def with_digest(self, path: str, state: FileState) -> FileState:
        """Return the state of a file that was too large to be kept with the digest of its bytes, if it can be read."""
        key, _, name = path.rpartition("/")
        if not state.digest.startswith(LARGE) or state.size > BLOB_LIMIT:
            return state
        try:
            with self._opened(f"{key}/" if key else "") as here:
                return msgspec.structs.replace(state, digest=hashlib.sha256(_bytes(name, here)).hexdigest())
        except OSError:
            return state

    # --- what may differ

    def _is_reset(self) -> bool:
        """Whether git's index or an ignore file outside the root changed, so that other files may be looked at."""
        stamp = self._git.index_stamp() if self._git is not None else None
        rules = self._rules.outer_stamp()
        is_same = (stamp, rules) == (self.state.tracked_stamp, self.state.rules_stamp)
        self.state.tracked_stamp, self.state.rules_stamp = stamp, rules
        return not is_same

    def _stale_folders(self) -> list[str]:
        """Return the folders to list again, because an entry was added or removed or a file differs. Folders that are
        gone are dropped."""
        stale: list[str] = []
        gone: list[str] = []
        for key, folder in self.state.folders.items():
            place = f"{self.root}/{key}"[:-1]
            try:
                here = os.open(place, _PLACE)
            except OSError:  # removed, replaced by a link or a file, or closed to this user
                (stale if os.path.isdir(place) and not os.path.islink(place) else gone).append(key)
                continue
            try:
                if _differs(folder, here):
                    stale.append(key)
            finally:
                os.close(here)
        self.is_saved = self.is_saved and not gone
        for key in gone:
            self._drop(key)
        return [key for key in stale if key in self.state.folders]

    def _drop(self, key: str) -> None:
        """Forget a folder that is gone, with all below it."""
        for below in [one for one in self.state.folders if one.startswith(key)]:
            for name in self.state.folders.pop(below).files:
                self._now(below + name, NO_FILE)

    def _now(self, path: str, state: FileState) -> None:
        """Note the current state of a file, and its state at the last look."""
        self._before.setdefault(path, self.state.states.get(path, NO_FILE))
        if state.digest == ABSENT:
            self.state.states.pop(path, None)
        else:
            self.state.states[path] = state

    # --- listing

    def _list_all(self, began: int) -> None:
        if not self.state.folders:
            self.state.folders[""] = KnownFolder()
        self._list(list(self.state.folders), began, everything=True)

    def _list(self, stale: list[str], began: int, *, everything: bool = False) -> bool:
        """List these folders and those below that are new. Returns whether an ignore file among them changed."""
        rules_changed = False
        self.is_saved = self.is_saved and not stale
        if stale and self._tracked is None:
            self._read_tracked()
        tracked = self._tracked or {}
        self._untracked = sum(path not in tracked for path in self.state.states) if stale else 0
        while stale:
            key = stale.pop()
            try:
                with self._opened(key) as here:
                    below, changed = self._list_one(key, here, began)
            except OSError:
                if key:
                    self._drop(key)
                continue
            rules_changed |= changed
            for name in below:
                if name not in self.state.folders:
                    self._made += [] if name[:-1] in self._skipped else [name[:-1]]
                    self.state.folders[name] = KnownFolder()
                    stale.append(name)
        return rules_changed and not everything

    def _list_one(self, key: str, here: int, began: int) -> tuple[list[str], bool]:
        itself = os.fstat(here)
        known = self.state.folders[key]
        folder = KnownFolder(inode=itself.st_ino, changed=itself.st_mtime_ns)
        if itself.st_mtime_ns >= began - _TICK:
            folder.changed = -1
        self._skipped.update(key + name for name in known.skipped)
        rules = self.state.states.get(f"{key}.gitignore")
        below: list[str] = []
        with os.scandir(here) as entries:
            for entry in entries:
                if not _is_text(entry.name):
                    self.unnamed += 1
                elif entry.is_dir(follow_symlinks=False):
                    below += self._subfolder(key, entry.name, folder)
                elif entry.name in NEVER:
                    continue  # the `.git` file of a worktree or submodule, which the sandbox judges (`git_guard`)
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    self._file(key, entry, here, known, folder, began)
        for name in known.files.keys() - folder.files.keys():
            self._now(key + name, NO_FILE)
        self.state.folders[key] = folder
        return below, rules != self.state.states.get(f"{key}.gitignore")

    def _subfolder(self, key: str, name: str, folder: KnownFolder) -> list[str]:
        path = f"{key}{name}/"
        if name in NEVER or path in self._left_out:
            return []
        if path in self.state.folders or path in self._tracked_folders or not self._rules.is_ignored(key + name, True):
            return [path]
        if is_obeyed_though_ignored(
            key + name, is_folder=True
        ):  # an ignore file, which a command may write, must not hide these
            return [path]
        folder.skipped.add(name)
        return []

    def _file(
        self, key: str, entry: os.DirEntry[str], here: int, known: KnownFolder, folder: KnownFolder, began: int
    ) -> None:
        name, path = entry.name, key + entry.name
        is_known = name in known.files
        if not is_known and not self._is_watched(path):
            folder.skipped.add(name)
            return
        try:
            found = entry.stat(follow_symlinks=False)
            stamp = (found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)
            if is_known and known.files[name] == stamp:
                folder.files[name] = stamp
                return
            state = self._read(path, name, here, found)
        except FileNotFoundError:  # removed meanwhile; the next look notices
            folder.changed = -1
            return
        if not is_known and self._was_there(path, found):
            self.state.states[path] = state
        else:
            self._now(path, state)
        folder.files[name] = stamp if max(found.st_mtime_ns, found.st_ctime_ns) < began - _TICK else None

    def _is_watched(self, path: str) -> bool:
        if self._tracked is not None and path in self._tracked:
            return True
        if self._rules.is_ignored(path, False) and not is_obeyed_though_ignored(path):
            return False
        self._untracked += 1
        if self._untracked > self._files_limit:
            self.state.over_limit = True
            return False
        return True

    def _was_there(self, path: str, found: os.stat_result) -> bool:
        """Whether a file that is looked at for the first time was there at the last look, and skipped then."""
        if not self._skipped or found.st_ctime_ns >= self.state.looked_at - _TICK:
            return False
        parts = path.split("/")
        return any("/".join(parts[: n + 1]) in self._skipped for n in range(len(parts)))

    # --- contents

    def _read(self, path: str, name: str, here: int, found: os.stat_result) -> FileState:
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(name, dir_fd=here)
            return FileState(digest=LINK + target if _is_text(target) else f"{LARGE}{found.st_ino}:{found.st_mtime_ns}")
        mode = stat.S_IMODE(found.st_mode)
        large = FileState(digest=f"{LARGE}{found.st_size}:{found.st_mtime_ns}", mode=mode, size=found.st_size)
        blob = (self._tracked or {}).get(path, "")
        if found.st_size > (BLOB_LIMIT if blob else self._copies.file_limit):
            return large
        try:
            data = _bytes(name, here)
        except PermissionError:
            return large
        digest = hashlib.sha256(data).hexdigest()
        old = self.state.states.get(path, NO_FILE)
        if old.digest == digest:
            return msgspec.structs.replace(old, mode=mode)
        if not blob or blob_id(data) != blob:
            blob = ""
            self._copies.keep(digest, data)
        return FileState(digest=digest, mode=mode, size=len(data), blob=blob)

    def _read_tracked(self) -> None:
        if self._git is None:
            return
        top = os.path.realpath(self._git.repository.top)
        prefix = "" if top == self.root else os.path.relpath(self.root, top) + "/"
        rows = self._git.tracked() or []
        self._tracked = {row.path[len(prefix) :]: row.blob for row in rows if row.path.startswith(prefix)}
        folders: set[str] = set()
        for path in self._tracked:
            while "/" in path and (path := path.rpartition("/")[0]) + "/" not in folders:
                folders.add(path + "/")
        self._tracked_folders = frozenset(folders)
        self.state.tracked_stamp = self._git.index_stamp()

    @contextmanager
    def _opened(self, key: str) -> Generator[int]:
        """Open a folder from the root down. No part may be a link."""
        here = os.open(self.root, _FOLDER)
        try:
            for part in key.split("/")[:-1]:
                below = os.open(part, _FOLDER, dir_fd=here)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)


def _differs(folder: KnownFolder, here: int) -> bool:
    """Whether an entry of an open folder was added or removed, or a known file differs. This is most of a look."""
    found = os.fstat(here)
    if found.st_mtime_ns != folder.changed or found.st_ino != folder.inode:
        return True
    look = os.stat  # relative to the open folder: the kernel walks a short path
    try:
        for name, stamp in folder.files.items():
            now = look(name, dir_fd=here, follow_symlinks=False)
            if (now.st_size, now.st_mtime_ns, now.st_ino, now.st_ctime_ns) != stamp:
                return True
    except OSError:  # it was removed just now, which listing the folder shows
        return True
    return False


def blob_id(data: bytes) -> str:
    """Return the id that git gives to a file with these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _bytes(name: str, here: int) -> bytes:
    file = os.open(name, _FILE, dir_fd=here)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(name)
        data = os.read(file, found.st_size + 1)
        while len(data) <= BLOB_LIMIT and (more := os.read(file, 65536)):
            data += more
        return data
    finally:
        os.close(file)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
