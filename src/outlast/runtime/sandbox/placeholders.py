"""Mount points for protected paths that do not exist, in place only while a command runs.

The kernel mounts only over a path that exists. A missing `.git/hooks` is therefore created, empty, before the command,
mounted read-only inside its sandbox, and removed after it. Each placeholder has a record in the Outlast home, which
commands cannot read; a running command holds a shared lock on it, so that the last of several commands removes the
placeholder. What a crash leaves behind is removed by the next start (`sweep_placeholders`).

Every placeholder means nothing to git: an empty folder, an empty file, or a `commondir` that names its own folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from outlast.runtime.safe_open import open_folder

RECORDS = "placeholders"
COMMONDIR = ".\n"
"""Git stops at an empty `commondir`; this one names the git directory itself."""


class Placeholder(msgspec.Struct, frozen=True, kw_only=True):
    """A path to keep from coming into being: a folder if `content` is None, else a file. `owner` is the git directory
    or root that becomes read-only if the placeholder cannot be created."""

    path: Path
    content: str | None
    owner: Path

    def is_in_place(self) -> bool:
        """Whether the path holds exactly what a placeholder holds."""
        try:
            if self.content is None:
                return not self.path.is_symlink() and self.path.is_dir() and not os.listdir(self.path)
            return (
                not self.path.is_symlink() and self.path.is_file() and self.path.read_bytes() == self.content.encode()
            )
        except OSError:
            return False

    def below(self, parent: int) -> Placeholder:
        """Return the placeholder with a path that starts at this descriptor of its folder, whatever the folder's name
        is now: a command may have moved it, or put a link to another folder in its place."""
        return msgspec.structs.replace(self, path=Path(f"/proc/self/fd/{parent}", self.path.name))

    def create(self) -> None:
        if self.content is None:
            self.path.mkdir(mode=0o755)
            return
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, self.content.encode())
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Remove the placeholder unless it has become something else, such as a folder that git has filled."""
        if not self.is_in_place():
            return
        try:
            self.path.rmdir() if self.content is None else self.path.unlink()
        except OSError as error:
            if os.path.lexists(self.path) and self.is_in_place():
                raise error


class PlaceholderLease:
    """Keeps placeholders in place until `release`. `failed` are those that could not be created."""

    def __init__(self, placeholders: Sequence[Placeholder], state_dir: Path) -> None:
        self._folder = state_dir / "sandbox" / RECORDS
        self._held: list[tuple[int, int, Placeholder]] = []
        self.failed: list[Placeholder] = []
        if placeholders:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for placeholder in placeholders:
            descriptor = _locked(self._folder, placeholder)
            parent = -1
            try:
                parent = open_folder(placeholder.path.parent)
                _ensure(descriptor, placeholder, parent)
            except OSError:
                self.failed.append(placeholder)
            self._held.append((descriptor, parent, placeholder))
            fcntl.flock(descriptor, fcntl.LOCK_SH)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths that now exist and are to be mounted read-only."""
        return tuple(placeholder.path for _, _, placeholder in self._held if placeholder not in self.failed)

    def release(self) -> None:
        """Remove the placeholders that no other command needs. May be repeated."""
        while self._held:
            descriptor, parent, placeholder = self._held.pop()
            try:
                if parent >= 0:  # the command may have moved the folder that holds the placeholder
                    _let_go(descriptor, placeholder.below(parent))
            finally:
                for open_file in (descriptor, parent):
                    if open_file >= 0:
                        os.close(open_file)

    def __enter__(self) -> PlaceholderLease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def sweep_placeholders(state_dir: Path) -> int:
    """Remove what ended processes left behind, and unused records; return how many placeholders were removed."""
    folder = state_dir / "sandbox" / RECORDS
    left: list[tuple[int, Placeholder]] = []
    descriptors: list[int] = []
    try:
        for name in os.listdir(folder) if folder.is_dir() else ():
            try:
                descriptor = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue
            descriptors.append(descriptor)
            if not _is_unused(descriptor):
                continue
            placeholder = _decoded(os.read(descriptor, 1 << 16))
            if placeholder is not None:
                left.append((descriptor, placeholder))
            (folder / name).unlink(missing_ok=True)
        left.sort(key=lambda one: len(one[1].path.parts), reverse=True)  # a folder goes after what is inside it
        return sum(_removed(descriptor, placeholder) for descriptor, placeholder in left)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _removed(descriptor: int, placeholder: Placeholder) -> bool:
    try:
        parent = open_folder(placeholder.path.parent)
    except OSError:
        return False  # its folder is gone, or a link leads to another one
    try:
        return _let_go(descriptor, placeholder.below(parent))
    finally:
        os.close(parent)


def _locked(folder: Path, placeholder: Placeholder) -> int:
    """Open and lock the record: exclusively if no command holds it, else shared."""
    record = folder / hashlib.sha256(os.fsencode(placeholder.path)).hexdigest()[:32]
    while True:
        descriptor = os.open(record, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # a sweep has just removed it


def _ensure(descriptor: int, placeholder: Placeholder, parent: int) -> None:
    """Create the placeholder, with its record first; without a record, an empty folder is the user's own."""
    at = placeholder.below(parent)
    if os.path.lexists(at.path):
        return
    os.pwrite(descriptor, _encoded(placeholder), 0)
    try:
        at.create()
    except FileExistsError:
        return  # another command created it at the same moment


def _encoded(placeholder: Placeholder) -> bytes:
    """Return a record: fields that each end with NUL, since a path may hold any other byte."""
    kind, content = ("folder", "") if placeholder.content is None else ("file", placeholder.content)
    return b"".join(os.fsencode(field) + b"\0" for field in (kind, content, placeholder.path, placeholder.owner))


def _decoded(data: bytes) -> Placeholder | None:
    fields = data.split(b"\0")
    if len(fields) != 5 or fields[4]:
        return None
    kind, content, path, owner = (os.fsdecode(field) for field in fields[:4])
    return Placeholder(path=Path(path), content=None if kind == "folder" else content, owner=Path(owner))


def _is_unused(descriptor: int) -> bool:
    """Lock the record exclusively; return False if a command holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _let_go(descriptor: int, placeholder: Placeholder) -> bool:
    """Remove the placeholder if we created it and no command holds it; return whether it was removed.

    Its record stays, empty: creating it anew for every command would take longer than the lock itself."""
    if not _is_unused(descriptor) or not os.fstat(descriptor).st_size:
        return False
    was_in_place = placeholder.is_in_place()
    placeholder.remove()
    os.ftruncate(descriptor, 0)
    return was_in_place
