"""Keeps file tools beneath the roots, whatever the names on the way turn into.

A path is resolved first and compared with the roots component by component. Then its components are opened one by one,
starting from a descriptor of the root, and none may be a link: if a folder was swapped for a link after the check, the
kernel refuses to open it. So a link that leads inside the roots works, a link that leads outside does not, and a
process that swaps a path in between cannot win the race.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.tools.port import ToolContext, ToolFault

ANYWHERE = frozenset({PermissionMode.DANGER_FULL_ACCESS, PermissionMode.ALLOW})
LONGEST = 4096

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class ResolvedPath(msgspec.Struct, frozen=True, kw_only=True):
    """A resolved path beneath a root. `asked` is the path as the model wrote it, for messages to the model."""

    asked: str
    root: Path
    parts: tuple[str, ...]

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    def recorded(self, project: Path) -> str:
        """The path stored in the log: relative if inside the project, so that it stays valid when the project moves."""
        home = Path(os.path.realpath(project))
        return str(self.path.relative_to(home)) if self.path.is_relative_to(home) else str(self.path)


def locate(path: str, context: ToolContext) -> ResolvedPath:
    """Resolve a path. Raises ToolFault if it is outside the roots or not a usable path."""
    _check(path)
    try:
        target = Path(os.path.realpath(context.project / path))
    except OSError as error:  # a link was replaced by something else during resolution
        raise ToolFault(f"{path} changed while it was looked at; try again") from error
    roots = (Path("/"),) if context.mode in ANYWHERE else context.roots
    for root in roots:
        resolved = Path(os.path.realpath(root))
        if target.is_relative_to(resolved):
            return ResolvedPath(asked=path, root=resolved, parts=target.relative_to(resolved).parts)
    listed = ", ".join(str(root) for root in context.roots)
    raise ToolFault(
        f"{path} is outside the project ({listed}); use a path inside it, or ask the user to add that folder"
    )


def _check(path: str) -> None:
    if not path.strip():
        raise ToolFault("the path is empty; name a file")
    if any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) <= 0xDFFF for c in path):
        raise ToolFault(f"{path!r} is no usable path: it holds a control character or a broken one")
    if path == "~" or path.startswith("~/"):
        raise ToolFault(f"{path} is not expanded; write the whole path or one relative to the project")
    if len(os.fsencode(path)) > LONGEST or any(len(os.fsencode(part)) > 255 for part in path.split("/")):
        raise ToolFault(f"the path beginning with {path[:60]} is too long")


@contextmanager
def folder(place: ResolvedPath, *, create: bool = False) -> Generator[tuple[int, str]]:
    """Yield a descriptor of the folder that contains the path, and the last name. `create` makes missing folders."""
    if not place.parts:
        raise ToolFault(f"{place.asked} is a folder; name a file in it")
    with _descended(place, place.parts[:-1], create) as here:
        yield here, place.parts[-1]


@contextmanager
def directory(place: ResolvedPath) -> Generator[int]:
    """Yield a descriptor of the path itself, which must be a folder."""
    with _descended(place, place.parts, create=False) as here:
        yield here


@contextmanager
def _descended(place: ResolvedPath, parts: tuple[str, ...], create: bool) -> Generator[int]:
    with _refusing(place):
        here = os.open(place.root, _FOLDER)
        try:
            for name in parts:
                below = _below(here, name, create)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)


def _below(here: int, name: str, create: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=here)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):  # another process just created it; the open below checks what it is
        os.mkdir(name, dir_fd=here)
    os.fsync(here)
    return os.open(name, _FOLDER, dir_fd=here)


@contextmanager
def opened(place: ResolvedPath) -> Generator[int]:
    """Yield a descriptor of a regular file, for reading."""
    with folder(place) as (here, name):
        file = open_in(here, name, place.asked)
        try:
            yield file
        finally:
            os.close(file)


def open_in(here: int, name: str, asked: str) -> int:
    """Open a regular file in a folder for reading. Nothing else is opened, since opening can itself have an effect."""
    _want_regular(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode, asked)
    file = os.open(name, _FILE, dir_fd=here)
    try:
        _want_regular(os.fstat(file).st_mode, asked)
    except ToolFault:
        os.close(file)
        raise
    return file


def _want_regular(mode: int, asked: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        raise ToolFault(f"{asked} is a link that leads in a circle or changed meanwhile")
    kind = "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
    raise ToolFault(
        f"{asked} is {kind}, not a file; " + ("read lists what is in it" if kind == "a folder" else "it is left alone")
    )


@contextmanager
def _refusing(place: ResolvedPath) -> Generator[None]:
    """Convert OS errors into ToolFaults for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolFault(f"{place.asked} does not exist; look for it with glob") from error
    except PermissionError as error:
        raise ToolFault(f"{place.asked} may not be used: permission denied") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise ToolFault(
                f"{place.asked} leads through a link that changed meanwhile or leads in a circle"
            ) from error
        if error.errno == errno.ENOTDIR:
            raise ToolFault(f"{place.asked} leads through something that is not a folder") from error
        raise ToolFault(f"{place.asked} could not be used: {error.strerror or error}") from error
