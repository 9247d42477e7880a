"""The process between the agent and a shell command. It ensures that no process of the command outlives the command.

The agent starts it, records it, and only then sends it the command over a socket (its standard input). It is the
command's subreaper: every process the command forks, daemonises or moves to another session stays below it. It kills
them all when the command ends, is told to stop or times out, or when the agent dies, even by SIGKILL (the socket
closes). It also writes the output: a head and a tail of at most `limit` bytes in total, which bounds memory and disk.

It runs as `python -I -S` and imports little, since every command waits for it. On systems without subreaper and /proc
(macOS) it kills the command's process group, which a daemon can leave.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` would take longer than all other imports
    from collections.abc import Callable

    Confine = Callable[[list[str], list[str], list[str]], None]

LINUX = sys.platform == "linux"
CONTROL = 0
LOG = 1
CHUNK = 1 << 18
PATIENCE = 5.0
"""Seconds after which it stops killing: a process still left then is blocked in the kernel and dies when it returns."""

_SUBREAPER = 36


class SupervisorSettings:
    """What to run: fields separated by NUL, which neither a path nor an argument can contain."""

    def __init__(self, fields: list[bytes]) -> None:
        self.seconds = float(fields[0])
        self.grace = float(fields[1])
        self.limit = int(fields[2])
        self.tail = int(fields[3])
        self.cwd = fields[4]
        self.confined = fields[5] == b"1"
        rest = iter(fields[6:])
        self.writable, self.hidden, self.shown = [[next(rest) for _ in range(int(next(rest)))] for _ in range(3)]
        pairs = [next(rest).split(b"=", 1) for _ in range(int(next(rest)))]
        self.environment = dict(pairs)
        self.argv = list(rest)


def received() -> SupervisorSettings | None:
    """Return the settings once they arrive; None if the agent exited or closed the socket first."""
    data = b""
    while b"\n" not in data:
        more = os.read(CONTROL, CHUNK)
        if not more:
            return None
        data += more
    size, data = data.split(b"\n", 1)
    while len(data) < int(size):
        more = os.read(CONTROL, CHUNK)
        if not more:
            return None
        data += more
    return SupervisorSettings(data[: int(size)].split(b"\0"))


class Sink:
    """Writes output to the log file: the first bytes as they come, the last ones at the end, the rest only counted."""

    def __init__(self, limit: int, tail: int) -> None:
        self.room = limit - tail
        self.keep = tail
        self.total = 0
        self.stored = 0
        self.last = b""

    def put(self, data: bytes) -> None:
        self.total += len(data)
        head = data[: self.room - self.stored] if self.stored < self.room else b""
        if head and not self._write(head):
            self.room = self.stored  # the disk is full: from now on only count, and try to write the tail
        self.last = (self.last + data[len(head) :])[-self.keep :]

    def finish(self) -> None:
        self._write(self.last)

    def _write(self, data: bytes) -> bool:
        try:
            while data:
                done = os.write(LOG, data)
                self.stored += done
                data = data[done:]
        except OSError:
            return False
        return True


def become_subreaper() -> None:
    if LINUX:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)


def become_command(settings: SupervisorSettings, output: int, confine: Confine) -> None:
    """In the child: drop the control socket, the log and the terminal, then apply the restrictions, then exec."""
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(settings.cwd)
        if settings.confined:
            lists = (settings.writable, settings.hidden, settings.shown)
            confine(*([os.fsdecode(path) for path in paths] for paths in lists))
        os.execvpe(settings.argv[0], settings.argv, settings.environment)  # noqa: S606
    except OSError as error:
        os.write(2, f"the command could not be started: {error}\n".encode(errors="backslashreplace"))
    finally:
        os._exit(127)


def descendants() -> dict[int, int]:
    """Return every process below this one, with its process group. Orphans are included: a subreaper adopts them."""
    below: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                below.setdefault(int(fields[1]), []).append((int(name), int(fields[2])))
            except (OSError, IndexError):
                continue  # the process has ended
    found: dict[int, int] = {}
    waiting = [os.getpid()]
    while waiting:
        children = [child for child in below.get(waiting.pop(), []) if child[0] not in found]
        found.update(children)
        waiting.extend(pid for pid, _ in children)
    return found


def send(number: int, group: int) -> int:
    """Signal every process below this one; return how many there were.

    Groups first: a process that keeps forking and exiting has another pid by the time it is signalled, but the kernel
    signals a whole group at once. Never this process's own group, which a process below may have joined.
    """
    if not LINUX:
        _signal(-group, number)
        return 1
    found = descendants()
    for pgid in set(found.values()) - {os.getpgrp(), 0}:
        _signal(-pgid, number)
    for pid in found:
        _signal(pid, number)
    return len(found)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it is gone, or a set-uid program made it another user's: we may not signal it


def _woken(*_: object) -> None:
    """Handler that lets the signal interrupt the wait; the caller then checks what happened."""


class Supervision:
    """Runs one command, from its start to the end of every process below it."""

    def __init__(self, settings: SupervisorSettings, confine: Confine) -> None:
        self.settings = settings
        self.sink = Sink(settings.limit, settings.tail)
        self.status: int | None = None
        self.reason = "exited"
        self.parent = os.getppid()
        self.woken, wake = os.pipe()
        for end in (self.woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.told_to_stop = False
        self.flowing = True
        self.left = 0
        signal.signal(signal.SIGCHLD, _woken)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        self.output, ours = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            become_command(settings, ours, confine)
        os.close(ours)
        os.set_blocking(self.output, False)
        self.poll = select.poll()
        for end in (CONTROL, self.woken, self.output):
            self.poll.register(end, select.POLLIN)

    def _stop(self, *_: object) -> None:
        self.told_to_stop = True

    def run(self) -> None:
        deadline = time.monotonic() + self.settings.seconds if self.settings.seconds else float("inf")
        while self.status is None and not self.told_to_stop and time.monotonic() < deadline:
            self.attend(min(0.5, max(0.0, deadline - time.monotonic())))
            self.reap()
        if self.status is None:
            self.reason = "stopped" if self.told_to_stop else "timeout"
        if self.reap():
            self.end_gently()
            self.end_all()
        self.drain()
        self.sink.finish()
        self.report()

    def attend(self, seconds: float) -> None:
        """Wait for output, an ended child or a stop request, and handle it."""
        for end, _ in self.poll.poll(seconds * 1000):
            if end == self.woken:
                os.read(self.woken, 512)
            elif end == self.output:
                self.pump()
            else:
                self.told_to_stop = True  # a stop request or a closed socket: both mean stop
                self.poll.unregister(CONTROL)
        if os.getppid() != self.parent:
            self.told_to_stop = True

    def pump(self) -> bool:
        try:
            data = os.read(self.output, CHUNK)
        except BlockingIOError:
            return False
        if data:
            self.sink.put(data)
        else:
            self.flowing = False
            self.poll.unregister(self.output)
        return bool(data)

    def drain(self) -> None:
        """Read what is still in the pipe. No process should be left to fill it."""
        until = time.monotonic() + PATIENCE
        while self.flowing and self.pump() and time.monotonic() < until:
            continue

    def reap(self) -> bool:
        """Collect ended children; return whether any child is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.pid:
                    self.status = status
        except ChildProcessError:
            return False

    def end_gently(self) -> None:
        """Send SIGTERM and allow a grace period for cleanup."""
        self.left = send(signal.SIGTERM, self.pid) - (self.status is None)
        send(signal.SIGCONT, self.pid)
        until = time.monotonic() + self.settings.grace
        while time.monotonic() < until and self.reap():
            self.attend(min(0.05, self.settings.grace))

    def end_all(self) -> None:
        """Send SIGKILL until no child is left; without children there are no descendants either."""
        until = time.monotonic() + PATIENCE
        while self.reap() and time.monotonic() < until:
            send(signal.SIGKILL, self.pid)
            self.attend(0.002)

    def report(self) -> None:
        status = self.status if self.status is not None else signal.SIGKILL
        code = os.waitstatus_to_exitcode(status)
        fields = (self.reason, code, self.sink.total, self.sink.stored, len(self.sink.last), max(0, self.left))
        try:
            os.write(CONTROL, "ended {} {} {} {} {} {}\n".format(*fields).encode())
        except OSError:
            return  # the agent is gone


def main(confine: Confine) -> None:
    """`confine` is `landlock.confine`, passed in because importing the package by name would take too long here."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    settings = received()
    if settings is not None:
        become_subreaper()
        Supervision(settings, confine).run()
