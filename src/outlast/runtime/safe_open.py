"""Reads files below a folder, and never a file outside it; opens folders without following links.

A symbolic link is followed only to a target inside the folder. The target is then opened component by component from
the folder's descriptor without following links, so no file outside is read even if another process swaps path parts.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_ABSENT = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.EACCES,
    errno.EPERM,
    errno.ENXIO,
    errno.ENAMETOOLONG,
    errno.EINVAL,
}
"""EINVAL: a link became a folder while its target was read."""
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_inside(root: Path, relative: str, limit: int) -> bytes | None:
    """Return the first `limit` bytes of a regular file; None if it is absent, unreadable, or a link to outside."""
    try:
        home = os.path.realpath(root)
        target = os.path.realpath(os.path.join(home, relative))
        parts = os.path.relpath(target, home).split(os.sep)
        if parts[0] in (os.pardir, os.curdir) or os.path.isabs(relative):
            return None
        return _read(home, parts, limit)
    except ValueError:  # a null byte in the name
        return None
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


def open_folder(path: Path) -> int:
    """Open a folder by its real path, part by part, as a place for the `dir_fd` of other functions. Raises OSError if a
    part is a link, even one that has just been put there."""
    folder = os.open("/", _PLACE)
    try:
        for part in path.parts[1:]:
            inner = os.open(part, _PLACE, dir_fd=folder)
            os.close(folder)
            folder = inner
    except OSError:
        os.close(folder)
        raise
    return folder


def _read(home: str, parts: list[str], limit: int) -> bytes | None:
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        # Non-blocking, so that opening a pipe without a writer cannot hang before the check for a regular file.
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        return _bytes(file, limit) if stat.S_ISREG(os.fstat(file).st_mode) else None
    finally:
        os.close(file)


def _bytes(file: int, limit: int) -> bytes:
    read = b""
    while len(read) < limit and (more := os.read(file, limit - len(read))):
        read += more
    return read
