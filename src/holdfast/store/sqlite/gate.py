"""The gate: a file beside the database on which the writers of several processes queue.

SQLite's own busy waiting is a lottery; `flock` is a queue. The holder writes its pid into the file, so that whoever
waits in vain can say for whom. The lock goes with its process, also when that is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from pathlib import Path

from holdfast.core.errors import StoreUnavailable


class Gate:
    def __init__(self, path: Path, timeout: float) -> None:
        self.timeout = timeout
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot open {path}, on which writers queue: {error.strerror}; check its permissions and its folder's"
            ) from error
        self._pid = b"%-10d" % os.getpid()

    def enter(self) -> None:
        """Wait for our turn. `StoreUnavailable` names the process that did not let us in."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queue()
        except OSError as error:
            raise StoreUnavailable(f"cannot lock {self._path}: {error.strerror}; use a local disk") from error
        if os.pread(self._fd, 16, 0) != self._pid:  # writing it every time would cost more than the lock
            with contextlib.suppress(OSError):  # a full disk: the name is a courtesy, the lock is what counts
                os.pwrite(self._fd, self._pid, 0)

    def leave(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file. In a forked child this must happen, or the child would hold its parent's lock."""
        os.close(self._fd)

    def _queue(self) -> None:
        """A blocking `flock` cannot be given a time limit, so a thread waits in the line for us."""
        turn = _Turn(self._path)
        thread = threading.Thread(target=turn.wait, name="holdfast-gate", daemon=True)
        thread.start()
        if not turn.came.wait(self.timeout) and turn.abandon():
            raise StoreUnavailable(
                f"the store is being written by process {self.holder()} and it has not finished in {self.timeout:g} s; "
                "if that process is stopped, continue or end it"
            )
        previous, self._fd = self._fd, turn.fd
        os.close(previous)

    def holder(self) -> str:
        """The pid of the process that was let in last."""
        return os.pread(self._fd, 16, 0).decode("ascii", "replace").strip() or "?"


class _Turn:
    """One wait in the line. Its own descriptor, because the lock belongs to the open file."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        self.came = threading.Event()
        self._mutex = threading.Lock()
        self._abandoned = False

    def wait(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_EX)
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
