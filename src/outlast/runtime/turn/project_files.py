"""Access to the project's files for a rewind: as the file tools have it, and with links and permissions.

A path is opened component by component from its root, and no folder on the way may be a link: what a command put in the
place of a folder leads nowhere else. Every refusal is an `OSError` with the reason.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from outlast.runtime.changes.file_change import Content, Link
from outlast.runtime.tools.files.atomic_write import now, replace
from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, folder, locate
from outlast.runtime.tools.port import ToolFault
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.tool_context import tool_context

_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK})
TOO_LARGE = "it is too large to be brought back"


class ProjectFiles:
    """Reads, writes and removes files and links inside the roots."""

    def __init__(self, context: TurnContext, session_id: str) -> None:
        self._context = tool_context(context, session_id, "rewind")

    def read(self, path: str) -> Content:
        """Return the content of a file or link; None if there is neither, also where there is a folder, or where no
        folder leads to it."""
        with _refusals():
            place = self._place(path)
            kind = _kind(place)
            if kind is None or stat.S_ISDIR(kind):
                return None
            if stat.S_ISLNK(kind):
                with folder(place) as (here, name):
                    return Link(os.readlink(name, dir_fd=here))
            found = now(place)
        if found.data is None and found.digest != "absent":
            raise OSError(TOO_LARGE)
        return found.data

    def write(self, path: str, content: bytes | Link) -> None:
        """Write a file or make a link. A link, or an empty folder, in its place is removed first."""
        with _refusals():
            place = self._place(path)
            self._make_room(place)
            if isinstance(content, Link):
                _make_link(place, content)
            else:
                replace(place, content, now(place).digest, self._context, threading.Event())

    def remove(self, path: str) -> None:
        with _refusals(), folder(self._place(path)) as (here, name):
            os.unlink(name, dir_fd=here)
            os.fsync(here)

    def mode(self, path: str) -> int | None:
        """Return the permissions of a file; None for a link, or if there is no file."""
        with suppress(OSError, ToolFault), folder(self._place(path)) as (here, name):
            found = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
            return stat.S_IMODE(found) if stat.S_ISREG(found) else None
        return None

    def set_mode(self, path: str, mode: int) -> None:
        with _refusals(), folder(self._place(path)) as (here, name):
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
            try:
                os.fchmod(file, mode & 0o777)
            finally:
                os.close(file)

    def remove_empty(self, folders: Iterable[str]) -> None:
        """Remove those of these folders that are empty, the deepest first."""
        for path in sorted(folders, key=lambda one: one.count("/"), reverse=True):
            with suppress(OSError, ToolFault), folder(self._place(path)) as (here, name):
                os.rmdir(name, dir_fd=here)

    def _make_room(self, place: ResolvedPath) -> None:
        kind = _kind(place)
        if kind is None or stat.S_ISREG(kind):
            return
        with folder(place) as (here, name):
            if stat.S_ISLNK(kind):
                os.unlink(name, dir_fd=here)
            elif stat.S_ISDIR(kind):
                os.rmdir(name, dir_fd=here)

    def _place(self, path: str) -> ResolvedPath:
        """Return the place of a path as it was recorded, with no link in it resolved."""
        root = locate(os.path.dirname(path) or ".", self._context).root  # refuses a path outside the roots
        whole = Path(os.path.normpath(os.path.join(os.path.realpath(self._context.project), path)))
        if not whole.is_relative_to(root):
            raise ToolFault(f"{path} leads through a link to another folder")
        return ResolvedPath(asked=path, root=root, parts=whole.relative_to(root).parts)


def _kind(place: ResolvedPath) -> int | None:
    """Return the type of what is at a place; None if there is nothing, or no chain of folders leads there."""
    try:
        with folder(place) as (here, name):
            return os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
    except ToolFault as fault:
        cause = fault.__cause__
        if isinstance(cause, OSError) and cause.errno in _NOTHING:
            return None
        raise


def _make_link(place: ResolvedPath, link: Link) -> None:
    temporary = f".outlast-{secrets.token_hex(8)}.tmp"
    with folder(place, create=True) as (here, name):
        os.symlink(link.target, temporary, dir_fd=here)
        os.rename(temporary, name, src_dir_fd=here, dst_dir_fd=here)
        os.fsync(here)


@contextmanager
def _refusals() -> Generator[None]:
    try:
        yield
    except ToolFault as fault:
        raise OSError(str(fault)) from fault
