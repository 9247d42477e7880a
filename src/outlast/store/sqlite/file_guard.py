"""Notices that a database file or its write-ahead log (WAL) was removed, replaced or cut short under this process.

SQLite goes on writing to files that have lost their names, and acknowledges what the next process will not see. So the
writer compares the files at their paths with those that it opened, before each transaction and once more before it
acknowledges. While the folder does not change, in bursts of at most `BURST_SECONDS`, a look at the folder is enough: no
file in it was removed or replaced. Only `stat` is used: closing any descriptor of these files would drop the process's
locks.

What a removed WAL held is not lost yet: SQLite still has it open, so the guard has it copied into the database.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import cast

import apsw

from outlast.core.errors import DamagedSession, StoreUnavailable

FRAME_HEADER, LOG_HEADER = 24, 32
RESCUE_WAIT_MS = 500
BURST_SECONDS = 0.01
SETTLED_NS = 50_000_000
"""Minimum age of a folder's times before they can reveal a later change: file system clocks are coarse."""

Inode = tuple[int, int]


class FileGuard:
    """The files of one database. Used only by the writing thread, under the writers' lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        self._log_name = f"{path}-wal"
        self.inode = _inode(self._name)
        self._log: Inode | None = None
        self._folder = _opened_folder(path.parent)
        self._folder_times: tuple[int, int] | None = None
        """Modification and change time of the folder when the files were last compared, if those are settled."""
        self._compared = 0.0
        self._page_size = 0
        self._end: str | None = None
        """Why this process may not write any more."""

    def opened(self) -> None:
        """Remember the files that a new connection has opened. A WAL that lies elsewhere is not watched."""
        self.inode, self._log = _inode(self._name), _inode(self._log_name)
        self._folder_times = None

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def check(self) -> None:
        """Raise if the file at the database's path is not the one that is open, or the WAL was lost."""
        if self._end is not None:
            raise StoreUnavailable(self._end)
        if not self._is_unchanged() and _inode(self._name) != self.inode:
            raise StoreUnavailable(
                f"{self.path} was moved, deleted or replaced while it was open; end this process and start again"
            )

    def check_log(self, writer: apsw.Connection) -> None:
        """Raise if the WAL at its path is not the one that the writer has open, or was cut short."""
        if time.monotonic() - self._compared < BURST_SECONDS and self._is_unchanged():
            return
        times = self._settled_times()
        if self._log is not None and not self._log_is_whole(writer):
            self._end = self._words(saved=self._save_log(writer))
            raise StoreUnavailable(self._end)
        self._compared, self._folder_times = time.monotonic(), times

    def check_written(self, writer: apsw.Connection) -> None:
        """Raise if a transaction that has just committed may not survive this process."""
        if self._log is None or self._is_unchanged() or _inode(self._log_name) == self._log:
            return
        if not self._save_log(writer):
            self._end = self._words(saved=False)
            raise StoreUnavailable(self._end)
        self._end = self._words(saved=True)  # this transaction is in the database; it is the last one

    def _is_unchanged(self) -> bool:
        """Whether no file of the folder was removed or replaced since the files were compared."""
        if self._folder_times is None:
            return False
        found = os.fstat(self._folder)
        return (found.st_mtime_ns, found.st_ctime_ns) == self._folder_times

    def _settled_times(self) -> tuple[int, int] | None:
        if self._folder < 0:
            return None
        found = os.fstat(self._folder)
        age = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns)
        return (found.st_mtime_ns, found.st_ctime_ns) if age > SETTLED_NS else None

    def _log_is_whole(self, writer: apsw.Connection) -> bool:
        try:
            found = os.stat(self._log_name)
        except OSError:
            return False
        if (found.st_dev, found.st_ino) != self._log:
            return False
        frames, copied = writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        if frames <= copied:  # the database has them all
            return True
        if not self._page_size:
            self._page_size = cast("int", writer.pragma("page_size"))
        return LOG_HEADER + frames * (FRAME_HEADER + self._page_size) <= found.st_size

    def _save_log(self, writer: apsw.Connection) -> bool:
        """Copy the removed WAL, which SQLite still has open, into the database. Not if there is another WAL with
        content: it belongs to the database as another process sees it."""
        try:
            if os.stat(self._log_name).st_size:
                return False
        except FileNotFoundError:
            pass
        except OSError:
            return False
        if writer.in_transaction or _inode(self._name) != self.inode:
            return False
        writer.set_busy_timeout(RESCUE_WAIT_MS)
        try:
            frames, copied = writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        except apsw.Error:
            return False
        return frames == copied

    def _words(self, *, saved: bool) -> str:
        remedy = (
            f"all that it held was saved into {self.path.name}: end this process and start again"
            if saved
            else "what was written since the last checkpoint may be missing: end every process that uses the store, "
            "run `outlast verify`, and restore a backup if events are missing"
        )
        return f"{self._log_name} was removed, replaced or cut short while it was open; {remedy}"


def lost_log(error: apsw.Error, path: Path) -> str | None:
    """What to say of a read error that comes from a WAL whose content is gone, while another process still uses the
    one that was removed; None for any other error."""
    if getattr(error, "extendedresult", None) != apsw.SQLITE_IOERR_SHORT_READ:
        return None
    log = f"{path}-wal"
    try:
        if os.stat(log).st_size:
            return None
    except OSError:
        pass
    return (
        f"{log} was removed or emptied while another process has {path.name} open; let that process write once more or "
        "end, then try again: it saves what the removed file held"
    )


def _opened_folder(folder: Path) -> int:
    """A descriptor of the folder; -1 if there is none, then the files are compared each time."""
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return -1


def _inode(name: str) -> Inode | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def acknowledged_is_gone(session_id: str, seq: int) -> DamagedSession:
    return DamagedSession(
        session_id,
        seq,
        "this process had acknowledged this event, and the file does not have it any more, as after an older copy was "
        "put in its place; this process writes no more to the session: bring back the file that has the event, or "
        "restart to go on from what is there",
    )
