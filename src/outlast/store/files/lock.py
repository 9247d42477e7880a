"""The store's lock: `flock` on `store.lock`, a file that is never renamed and never removed.

One process at a time writes to the directory; readers hold the lock shared while they look at a session that another
process may have changed. The kernel releases the lock when its process ends, also when that is killed.

The first line of the file is the mark of the last writer: its pid, a random name of that process, the commit over
several files that it has begun (`redo_record`), how many commits were made here, and how many of those over several
files. A process that finds its own mark knows that no other process has written since. Followers poll the mark.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from outlast.core.errors import StoreUnavailable
from outlast.store.files import disk

NAME = "store.lock"
NO_REDO = "-" * 32
MARK_SIZE = 95
LOCK_SECONDS = 30.0
YIELDS = 20
PATIENCE = (0.0002, 0.001)
"""A process gives way to others so often, and then sleeps so many seconds between attempts, before it joins the queue:
most holders are done by then."""
OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_HEX = frozenset("0123456789abcdef")


class LockOwner:
    """This process as it signs the lock. After a fork the child is another owner."""

    _signature = b""

    @classmethod
    def mark(cls, commits: int, several: int, redo: str = NO_REDO) -> bytes:
        if not cls._signature:
            cls._signature = b"%-10d %s" % (os.getpid(), secrets.token_hex(8).encode())
        return b"%b %b %016x %016x\n" % (cls._signature, redo.encode(), commits, several)

    @classmethod
    def forked(cls) -> None:
        cls._signature = b""


os.register_at_fork(after_in_child=LockOwner.forked)


def unfinished(mark: bytes) -> str | None:
    """The commit over several files that the last writer had begun, if it did not finish it."""
    redo = mark[28:60].decode("ascii", "replace")
    return redo if len(redo) == 32 and set(redo) <= _HEX else None


def counts(mark: bytes) -> tuple[int, int]:
    """How many commits were made here, and how many of them over several files; 0 where the mark does not tell."""
    try:
        return int(mark[61:77], 16), int(mark[78:94], 16)
    except ValueError:
        return 0, 0


def held_by(path: Path) -> str | None:
    """The pid of the process that holds the lock for writing; None if it is free."""
    try:
        fd = os.open(path, disk.READ)
    except OSError:
        return None  # missing, or this process may not open it
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _pid_in(os.pread(fd, 10, 0))
    finally:
        os.close(fd)


def _pid_in(mark: bytes) -> str:
    return mark[:10].decode("ascii", "replace").strip() or "?"


class DirectoryLock:
    """Exclusive use by one thread at a time (the one that commits); `shared` by any."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        self.timeout = timeout
        self._fd = -1
        self._queued = -1  # the descriptor that holds the lock, if this process had to queue for it

    def open(self) -> None:
        self._fd = os.open(self.path, OPEN | os.O_CREAT, disk.MODE)

    def enter(self) -> bytes:
        """Take the lock and return the last writer's mark. `StoreUnavailable` names the holder after the timeout."""
        if not self._try_enter() and not self._try_again():
            self._queued = self._wait(fcntl.LOCK_EX)
        return self.peek()

    def _try_enter(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _try_again(self) -> bool:
        for _ in range(YIELDS):
            os.sched_yield()
            if self._try_enter():
                return True
        for pause in PATIENCE:
            time.sleep(pause)
            if self._try_enter():
                return True
        return False

    def leave(self) -> None:
        if self._queued >= 0:
            os.close(self._queued)
            self._queued = -1
        else:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def peek(self) -> bytes:
        """The last writer's mark. It changes with every commit of any process."""
        return os.pread(self._fd, MARK_SIZE, 0)

    def sign(self, mark: bytes) -> None:
        os.pwrite(self._fd, mark, 0)

    @contextmanager
    def shared(self) -> Generator[bytes]:
        """No process writes meanwhile. Yields the last writer's mark."""
        fd = os.open(self.path, disk.READ)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                fd = -1
                fd = self._wait(fcntl.LOCK_SH)
            yield os.pread(fd, MARK_SIZE, 0)
        finally:
            if fd >= 0:
                os.close(fd)

    @contextmanager
    def shared_if_there(self) -> Generator[None]:
        """`shared` for a process that may not create the lock; where there is none, no process has written."""
        with ExitStack() as stack:
            with suppress(FileNotFoundError):
                stack.enter_context(self.shared())
            yield

    def close(self) -> None:
        for fd in (self._fd, self._queued):
            if fd >= 0:
                os.close(fd)
        self._fd = self._queued = -1

    def _wait(self, kind: int) -> int:
        """Queue for the lock in a thread, because a blocking `flock` has no timeout."""
        turn = _LockTurn(self.path, kind)
        threading.Thread(target=turn.wait, name="outlast-lock", daemon=True).start()
        try:
            came = turn.came.wait(self.timeout)
        except BaseException:  # interrupted: the lock must not stay with a caller that has left
            if not turn.abandon():
                os.close(turn.fd)
            raise
        if not came and turn.abandon():
            raise StoreUnavailable(
                f"{self.path} is held by process {_pid_in(disk.read(self.path) or b'')} and it has not finished in "
                f"{self.timeout:g} s; if that process is stopped, continue or end it"
            )
        return turn.fd


class _LockTurn:
    """One place in the queue. It has its own descriptor, because the lock belongs to the open file."""

    def __init__(self, path: Path, kind: int) -> None:
        self.fd = os.open(path, disk.READ if kind == fcntl.LOCK_SH else OPEN)
        self.came = threading.Event()
        self._kind = kind
        self._mutex = threading.Lock()
        self._abandoned = False

    def wait(self) -> None:
        fcntl.flock(self.fd, self._kind)
        with self._mutex:
            if self._abandoned:
                os.close(self.fd)
            else:
                self.came.set()

    def abandon(self) -> bool:
        """Give up, unless the lock has just been taken."""
        with self._mutex:
            self._abandoned = not self.came.is_set()
            return self._abandoned
