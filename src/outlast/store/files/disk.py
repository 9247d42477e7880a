"""The few ways in which this store touches the disk, and what the disk's errors mean in words.

Everything durable goes through here, which is also where tests make a disk fail.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

from outlast.core.errors import OutlastError, StoreUnavailable
from outlast.store.process_identity import read_only_text

NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
APPEND = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
CHANGE = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
MODE = 0o600

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


if sys.platform == "darwin":
    import fcntl

    def sync(fd: int) -> None:
        """Return when the file's bytes are on the disk; plain `fsync` leaves them in the drive's cache here."""
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

else:

    def sync(fd: int) -> None:
        """Return when the file's bytes are on the disk."""
        os.fdatasync(fd)


def write(fd: int, data: bytes) -> None:
    """All of it; a full disk may take a part and refuse the rest."""
    done = os.write(fd, data)
    while done < len(data):
        done += os.write(fd, data[done:])


def write_at(fd: int, data: bytes, at: int) -> None:
    """All of it, from offset `at` on."""
    done = os.pwrite(fd, data, at)
    while done < len(data):
        done += os.pwrite(fd, data[done:], at + done)


def truncate(fd: int, size: int) -> None:
    os.ftruncate(fd, size)


def create(path: Path, data: bytes) -> None:
    """A new file with its bytes synced; nothing is left behind if that fails."""
    fd = os.open(path, NEW, MODE)
    try:
        write(fd, data)
        sync(fd)
    except BaseException:
        os.close(fd)
        os.unlink(path)
        raise
    os.close(fd)


def rename(source: Path, target: Path) -> None:
    os.rename(source, target)


def unlink(path: Path) -> None:
    """Missing is as good as removed."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def sync_folder(path: Path) -> None:
    """Make names durable: what was created, renamed or removed in this folder."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(path: Path) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    sync_folder(path.parent)


def read(path: Path, start: int = 0, size: int | None = None) -> bytes | None:
    """A whole file, or at most `size` bytes from `start`; None when there is none."""
    try:
        fd = os.open(path, READ)
    except FileNotFoundError:
        return None
    try:
        return pread(fd, os.fstat(fd).st_size if size is None else size, start)
    finally:
        os.close(fd)


def pread(fd: int, size: int, at: int) -> bytes:
    """Up to `size` bytes from `at`; fewer only at the end of the file."""
    data = os.pread(fd, size, at)
    while len(data) < size:
        more = os.pread(fd, size - len(data), at + len(data))
        if not more:
            break
        data += more
    return data


def look(path: Path) -> os.stat_result | None:
    """What is under this name, without following a link; None when nothing is."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.ELOOP, "not a regular file", str(path))
    return found


def translation(error: Exception, place: Path) -> OutlastError:
    """An error of the disk in our words."""
    if isinstance(error, OutlastError):
        return error
    if not isinstance(error, OSError):
        return StoreUnavailable(f"{place}: {error}")
    path = error.filename if isinstance(error.filename, str) else str(place)
    if error.errno in FULL:
        text = f"the disk that holds {place} is full; free some space, nothing that was acknowledged is lost"
    elif error.errno == errno.EROFS:
        text = read_only_text(place)
    elif error.errno in FORBIDDEN:
        text = f"no permission to read and write {path}; check its owner and mode"
    elif error.errno == errno.ELOOP:
        text = f"{path} is not a plain file (a symbolic link?); a store's files are never followed through links"
    elif error.errno == errno.EMFILE:
        text = "this process has too many files open; raise its limit (ulimit -n) or close some"
    else:
        text = f"reading or writing {path} failed ({error.strerror or error}); check the disk"
    return StoreUnavailable(text)
