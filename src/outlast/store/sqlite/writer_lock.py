"""Writer lock: a file next to the database (`.gate`) on which the writers of several processes queue.

SQLite's own busy waiting picks a random winner; `flock` is a queue. The holder writes its pid into the file, so that a
waiter that times out can name the process. The kernel releases the lock when the process ends, also when it is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from outlast.core.errors import StoreUnavailable

PATIENCE = (0.001, 0.016)
"""Seconds between a writer's first attempts, before it joins the queue. Meanwhile the holder can make several commits
in a row: if processes alternated at every commit, each would find its page cache invalid every time."""


class WriterLock:
    def __init__(self, path: Path, timeout: float) -> None:
        self.timeout = timeout
        self._path = path
        self._fd = self._open()
        self._pid = b"%-10d" % os.getpid()
        self._line: _WaitingLine | None = None

    def pass_through(self, work: Callable[[], None]) -> None:
        """Run `work` under the lock. Raises `StoreUnavailable` with the holder's pid after the timeout."""
        if not self.enter():
            self.stand_in_line(work)
            return
        try:
            work()
        finally:
            self.leave()

    def enter(self) -> bool:
        """Take the lock until `leave`; False if it is still held and the caller should use `stand_in_line`."""
        if not self._enter() and not any(self._enter_after(pause) for pause in PATIENCE):
            return False
        if os.pread(self._fd, 16, 0) != self._pid:  # writing it every time costs more than the lock
            self._sign(self._fd)
        return True

    def leave(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _enter_after(self, pause: float) -> bool:
        time.sleep(pause)
        return self._enter()

    def _enter(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise StoreUnavailable(f"cannot lock {self._path}: {error.strerror}; use a local disk") from error
        return True

    def close(self) -> None:
        os.close(self._fd)
        if self._line is not None:
            self._line.close()

    def close_in_child(self) -> None:
        """Close the files after a fork: while the child has them open, it would hold the parent's lock."""
        os.close(self._fd)
        if self._line is not None:
            os.close(self._line.fd)

    def holder(self) -> str:
        """Return the pid of the process that took the lock last; '?' if unknown."""
        return os.pread(self._fd, 16, 0).decode("ascii", "replace").strip() or "?"

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot open {self._path}, on which writers queue: {error.strerror}; check its folder's permissions"
            ) from error

    def _sign(self, fd: int) -> None:
        with contextlib.suppress(OSError):  # full disk: the pid is optional, the lock is not
            os.pwrite(fd, self._pid, 0)

    def stand_in_line(self, work: Callable[[], None]) -> None:
        """Queue for the lock and run `work` under it. Raises `StoreUnavailable` with the holder's pid on timeout."""
        if self._line is None:
            self._line = _WaitingLine(self._open(), self._sign)
        turn = _WriterTurn(work)
        self._line.join(turn)
        if not turn.wait(self.timeout):
            raise StoreUnavailable(
                f"the store is being written by process {self.holder()} and it has not finished in {self.timeout:g} s; "
                "if that process is stopped, continue or end it"
            )


class _WriterTurn:
    """Work that waits for the lock. It can be abandoned after a timeout, but not once it has begun."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._mutex = threading.Lock()
        self._over = threading.Lock()
        self._over.acquire()
        self._begun = self._abandoned = False
        self._error: BaseException | None = None

    def wait(self, timeout: float) -> bool:
        """Wait until the work is done; False if it was abandoned before it began."""
        try:
            over = self._over.acquire(timeout=timeout)
        except BaseException:  # interrupted: the work must not run on after the caller has left
            if not self._give_up():
                self._over.acquire()
            raise
        if not over:
            if self._give_up():
                return False
            self._over.acquire()
        if self._error is not None:
            raise self._error
        return True

    def _give_up(self) -> bool:
        with self._mutex:
            self._abandoned = not self._begun
            return self._abandoned

    def take(self) -> None:
        """Run the work under the lock, unless the waiter has abandoned it."""
        with self._mutex:
            if self._abandoned:
                return
            self._begun = True
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 `wait` raises it
            self._error = error
        finally:
            self._over.release()


class _WaitingLine:
    """Thread that waits for the lock on behalf of writers, because a blocking `flock` has no timeout.

    It runs the work itself, so that the lock is not held while one thread wakes another. It has its own descriptor,
    because a `flock` belongs to the open file.
    """

    def __init__(self, fd: int, sign: Callable[[int], None]) -> None:
        self.fd, self._sign = fd, sign
        self._turns: queue.SimpleQueue[_WriterTurn | None] = queue.SimpleQueue()
        threading.Thread(target=self._wait, name="outlast-gate", daemon=True).start()

    def join(self, turn: _WriterTurn) -> None:
        self._turns.put(turn)

    def close(self) -> None:
        self._turns.put(None)

    def _wait(self) -> None:
        while (turn := self._turns.get()) is not None:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
            try:
                self._sign(self.fd)
                turn.take()
            finally:
                fcntl.flock(self.fd, fcntl.LOCK_UN)
        os.close(self.fd)
