"""A lock that outlives nobody: `flock` on a file that is never renamed and never removed.

Its first bytes are the mark of whoever held it exclusively last: pid, a random name of that process, and the commit it
had begun but not finished. A process that finds its own mark knows that nobody else has written since, and need not
look again; one that finds an unfinished commit finishes it first. The lock goes with its process, also a killed one.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from outlast.core.errors import StoreUnavailable
from outlast.store.files import disk

NO_TXN = "-" * 32
MARK_SIZE = 61
LOCK_SECONDS = 30.0
OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
_HEX = frozenset("0123456789abcdef")


class LockOwner:
    """This process, as it signs locks. Another one after a fork."""

    _name = secrets.token_hex(8)
    _mark = b""

    @classmethod
    def mark(cls) -> bytes:
        return cls._mark or cls.marked(NO_TXN)

    @classmethod
    def marked(cls, redo: str) -> bytes:
        """The mark of one who has begun this commit."""
        mark = b"%-10d %s %s\n" % (os.getpid(), cls._name.encode(), redo.encode())
        if redo == NO_TXN:
            cls._mark = mark
        return mark

    @classmethod
    def forked(cls) -> None:
        cls._name, cls._mark = secrets.token_hex(8), b""


os.register_at_fork(after_in_child=LockOwner.forked)


def unfinished(mark: bytes) -> str | None:
    """The commit that the last holder had begun, if it did not finish it."""
    redo = mark[28:60].decode("ascii", "replace")
    return redo if len(redo) == 32 and set(redo) <= _HEX else None


def held_by(path: Path) -> str | None:
    """The pid of the process that holds a lock for writing; None when nobody does."""
    try:
        fd = os.open(path, disk.READ)
    except OSError:
        return None  # gone, or not ours to open
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return os.pread(fd, 10, 0).decode("ascii", "replace").strip() or "?"
    finally:
        os.close(fd)


class SessionLock:
    """Exclusive use by one thread at a time (the one that commits); `shared` by any."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        self.timeout = timeout
        self._fd = -1
        self._queued = -1  # the descriptor that holds the lock, if we had to wait for it

    def open(self, *, create: bool) -> bool:
        """False when there is no such file and none is to be made."""
        if self._fd >= 0:
            return True
        try:
            self._fd = os.open(self.path, OPEN | (os.O_CREAT if create else 0), disk.MODE)
        except FileNotFoundError:
            return False
        return True

    def enter(self) -> bytes:
        """Wait for our turn; the mark that was found. `StoreUnavailable` names who did not let us in."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queued = self._wait(fcntl.LOCK_EX)
        return self.peek()

    def try_enter(self) -> bool:
        """Our turn, if nobody else is there."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def leave(self) -> None:
        if self._queued >= 0:
            os.close(self._queued)
            self._queued = -1
        else:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def peek(self) -> bytes:
        return os.pread(self._fd, MARK_SIZE, 0)

    def sign(self, mark: bytes) -> None:
        os.pwrite(self._fd, mark, 0)

    @contextmanager
    def shared(self) -> Generator[bytes]:
        """Nobody writes meanwhile. Yields the last writer's mark."""
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
        """The same for those who may not even make the lock; where there is none, nobody has written here."""
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
        """A blocking `flock` cannot be given a time limit, so a thread waits in the line for us."""
        turn = _LockTurn(self.path, kind)
        threading.Thread(target=turn.wait, name="outlast-lock", daemon=True).start()
        if not turn.came.wait(self.timeout) and turn.abandon():
            raise StoreUnavailable(
                f"{self.path.name} is held by process {self._holder()} and it has not finished in {self.timeout:g} s; "
                "if that process is stopped, continue or end it"
            )
        return turn.fd

    def _holder(self) -> str:
        data = disk.read(self.path) or b""
        return data[:10].decode("ascii", "replace").strip() or "?"


class _LockTurn:
    """One wait in the line. Its own descriptor, because the lock belongs to the open file."""

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
        """Give up, unless the turn has just come."""
        with self._mutex:
            self._abandoned = not self.came.is_set()
            return self._abandoned
