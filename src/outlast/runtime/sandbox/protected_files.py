"""Puts back what git and this program obey, where the sandbox cannot keep a command from changing it.

With mounts these files cannot be changed at all (`git_protection`). Landlock grants whole folders, so there the agent
takes a snapshot before a command and restores it afterwards: `.outlast/` of every root, and of every git directory
`config`, `config.worktree`, `hooks/`, `info/attributes`, `commondir`, `gitdir`, also of submodules and worktrees. This
is weaker: while the command runs, a program outside may obey the changed file.

No link is followed on the way to a file, neither by the look nor by the restore, so a command cannot make the restore
write elsewhere. A git directory that the command removed is not made again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from outlast.runtime.sandbox.git_layout import GitDirectory, git_directory

FILE_LIMIT = 4 << 20
"""Bytes of a file that are kept. A larger one that a command changed is removed."""
SIZE_LIMIT = 32 << 20
ENTRY_LIMIT = 4096
_MAIN = ("config", "config.worktree", "hooks", "info/attributes", "commondir", "gitdir")
_LINKED = ("config.worktree", "commondir", "gitdir")
_DEPTH = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class KeptEntry(msgspec.Struct, frozen=True):
    """What a path was: a folder, a file with its bytes (None if it was too large), or a link with its target. `stamp`
    tells whether a file that was too large has changed."""

    kind: int
    mode: int = 0
    data: bytes | None = None
    stamp: tuple[int, ...] = ()


class _ProtectedPath(msgspec.Struct, frozen=True):
    """A protected path below a folder that is trusted: a root, or a git directory outside the roots."""

    anchor: Path
    name: str


class _Room:
    """What a snapshot may still hold."""

    def __init__(self) -> None:
        self.entries = ENTRY_LIMIT
        self.size = SIZE_LIMIT


class ProtectedFiles:
    """Protected files as they were before a command. `unprotected` names what could not be kept: too much of it, or
    behind a link."""

    def __init__(self, places: Sequence[_ProtectedPath]) -> None:
        self._entries: dict[_ProtectedPath, dict[str, KeptEntry]] = {}
        unprotected: list[str] = []
        room = _Room()
        for place in places:
            try:
                self._entries[place] = dict(_look(place, room))
            except OSError:
                unprotected.append(str(place.anchor / place.name))
        self.unprotected = tuple(unprotected)

    def restore(self, but: Iterable[Path] = ()) -> list[str]:
        """Put back what differs, except the paths in `but` and beneath them; return the paths that were put back or
        removed. Raises OSError if a path cannot be put back."""
        allowed = tuple(Path(path) for path in but)
        names: list[str] = []
        for place, before in self._entries.items():
            if not any((place.anchor / place.name).is_relative_to(path) for path in allowed):
                names += _restore(place, before)
        return names


def protected_snapshot(
    roots: Sequence[Path],
    *,
    nested: Iterable[Path] = (),
    but: Iterable[Path] = (),
    known: frozenset[Path] = frozenset(),
) -> ProtectedFiles:
    """Take a snapshot of the protected files of the roots. `nested` are further git directories inside the roots, as
    `find_git_directories` returns them; `known` as for `git_directory`. What lies beneath `but` is left out, such as
    the home of the agent, which changes while a command runs and which commands cannot write."""
    tops = [Path(os.path.realpath(root)) for root in roots]
    left_out = tuple(Path(os.path.realpath(path)) for path in but)
    places: dict[_ProtectedPath, None] = {}
    for root in tops:
        places[_ProtectedPath(root, ".outlast")] = None
        places.update(dict.fromkeys(_git_places(git_directory(root, tops, known), tops)))
    for folder in nested:
        found = git_directory(folder.parent, tops) if folder.name == ".git" else git_directory(folder)
        places.update(dict.fromkeys(_git_places(found, tops)))
    wanted = [one for one in places if not any((one.anchor / one.name).is_relative_to(path) for path in left_out)]
    return ProtectedFiles(wanted)


def _git_places(directory: GitDirectory | str | None, roots: Sequence[Path]) -> Iterator[_ProtectedPath]:
    if not isinstance(directory, GitDirectory):
        return
    if directory.pointer is not None:
        yield _place(directory.pointer, roots)
    for folder in dict.fromkeys((directory.common, directory.folder)):
        yield from _main_places(folder, roots)


def _main_places(folder: Path, roots: Sequence[Path]) -> Iterator[_ProtectedPath]:
    for name in _MAIN:
        yield _place(folder / name, roots)
    hooks = Path(os.path.realpath(folder / "hooks"))
    if (folder / "hooks").is_symlink() and any(hooks.is_relative_to(root) and hooks != root for root in roots):
        yield _place(hooks, roots)
    for linked in _folders(folder / "worktrees"):
        for name in _LINKED:
            yield _place(linked / name, roots)
    for module in _modules(folder / "modules"):
        yield from _main_places(module, roots)


def _modules(folder: Path, depth: int = 0) -> Iterator[Path]:
    """Yield the git directories of submodules; a name with a slash lies deeper."""
    for child in _folders(folder):
        if (child / "HEAD").is_file():
            yield child
        elif depth < 8:
            yield from _modules(child, depth + 1)


def _folders(folder: Path) -> list[Path]:
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)][:ENTRY_LIMIT]


def _place(path: Path, roots: Sequence[Path]) -> _ProtectedPath:
    anchors = [root for root in roots if path.is_relative_to(root) and path != root]
    anchor = min(anchors, key=lambda root: len(root.parts)) if anchors else path.parent
    return _ProtectedPath(anchor, str(path.relative_to(anchor)))


@contextlib.contextmanager
def _parent(place: _ProtectedPath) -> Generator[int | None]:
    """Open the folder that holds a place, component by component; None if there is none. A link raises OSError."""
    folder = -1
    try:
        folder = os.open(place.anchor, _FOLDER)
        for part in place.name.split("/")[:-1]:
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
    except FileNotFoundError:
        if folder >= 0:
            os.close(folder)
        yield None
        return
    except OSError:
        if folder >= 0:
            os.close(folder)
        raise
    try:
        yield folder
    finally:
        os.close(folder)


def _look(place: _ProtectedPath, room: _Room) -> Iterator[tuple[str, KeptEntry]]:
    """Yield what lies at a place and beneath it, each with its path relative to the anchor."""
    with _parent(place) as folder:
        if folder is not None:
            yield from _look_at(folder, place.name.rpartition("/")[2], place.name, room, _DEPTH)


def _look_at(folder: int, leaf: str, name: str, room: _Room, depth: int) -> Iterator[tuple[str, KeptEntry]]:
    try:
        status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    room.entries -= 1
    if room.entries < 0 or depth < 0:
        raise OSError(errno.EFBIG, f"{name} holds too many files to be kept")
    mode = stat.S_IMODE(status.st_mode)
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        yield name, KeptEntry(kind, data=os.fsencode(os.readlink(leaf, dir_fd=folder)))
    elif kind == stat.S_IFREG:
        stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        data = _content(folder, leaf, room) if status.st_size <= min(FILE_LIMIT, room.size) else None
        yield name, KeptEntry(kind, mode, data, () if data is not None else stamp)
    else:
        yield name, KeptEntry(kind, mode)
    if kind == stat.S_IFDIR:
        inner = _opened(folder, leaf)
        try:
            for child in sorted(os.listdir(inner)):
                yield from _look_at(inner, child, f"{name}/{child}", room, depth - 1)
        finally:
            os.close(inner)


def _opened(folder: int, leaf: str) -> int:
    try:
        return os.open(leaf, _FOLDER, dir_fd=folder)
    except PermissionError:
        os.chmod(leaf, 0o700, dir_fd=folder)  # a command may close a folder that it changed
        return os.open(leaf, _FOLDER, dir_fd=folder)


def _content(folder: int, leaf: str, room: _Room) -> bytes | None:
    """Return the bytes of a file; None if there are too many, or if this user may not read it."""
    try:
        file = os.open(leaf, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:
        return None
    with os.fdopen(file, "rb") as opened:
        data = opened.read(FILE_LIMIT + 1)
    room.size -= len(data)
    return data if len(data) <= FILE_LIMIT else None


def _restore(place: _ProtectedPath, before: dict[str, KeptEntry]) -> list[str]:
    names = _unlink_ways(place)
    try:
        now = dict(_look(place, _Room()))
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        _remove(place)  # a command filled it: nothing of it can be told apart
        names.append(place.name)
        now = {}
    for name in sorted(now, reverse=True):
        if name not in before or now[name].kind != before[name].kind or _is_lost(now[name], before[name]):
            _remove(_ProtectedPath(place.anchor, name))
            names.append(name)
    for name in sorted(before):
        if now.get(name) != before[name] and _put_back(_ProtectedPath(place.anchor, name), before[name]):
            names.append(name)
    return [str(place.anchor / name) for name in dict.fromkeys(names)]


def _is_lost(now: KeptEntry, before: KeptEntry) -> bool:
    """Whether a file has changed whose bytes were not kept."""
    return before.kind == stat.S_IFREG and before.data is None and now != before


def _unlink_ways(place: _ProtectedPath) -> list[str]:
    """Remove a link or file that stands where a folder on the way to the place was; return its name."""
    parts = place.name.split("/")[:-1]
    for depth in range(len(parts)):
        way = _ProtectedPath(place.anchor, "/".join(parts[: depth + 1]))
        with _parent(way) as folder:
            if folder is None:
                return []
            try:
                status = os.stat(parts[depth], dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return []
            if not stat.S_ISDIR(status.st_mode):
                os.unlink(parts[depth], dir_fd=folder)
                return [way.name]
    return []


def _remove(place: _ProtectedPath) -> None:
    leaf = place.name.rpartition("/")[2]
    with _parent(place) as folder:
        if folder is None:
            return
        try:
            status = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(leaf, dir_fd=folder)
        else:
            os.unlink(leaf, dir_fd=folder)


def _put_back(place: _ProtectedPath, entry: KeptEntry) -> bool:
    """Make a path what it was; return False if the folder that held it is gone, or if its bytes were not kept."""
    leaf = place.name.rpartition("/")[2]
    with _parent(place) as folder:
        if folder is None or (entry.kind == stat.S_IFREG and entry.data is None):
            return False
        if entry.kind == stat.S_IFDIR:
            with contextlib.suppress(FileExistsError):
                os.mkdir(leaf, dir_fd=folder)
            os.chmod(leaf, entry.mode, dir_fd=folder)
        elif entry.kind in (stat.S_IFREG, stat.S_IFLNK):
            _replace(folder, leaf, entry)
        return True


def _replace(folder: int, leaf: str, entry: KeptEntry) -> None:
    temporary = f".outlast-{secrets.token_hex(8)}"
    try:
        if entry.kind == stat.S_IFLNK:
            os.symlink(entry.data or b"", temporary, dir_fd=folder)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as file:
                file.write(entry.data or b"")
                os.fchmod(file.fileno(), entry.mode)
        os.rename(temporary, leaf, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
