"""The process between the agent and a shell command. It ensures that no process of the command outlives the command.

The agent starts it, records it, and only then sends it the command over a socket (its standard input). It is the
command's subreaper: every process the command forks, daemonises or moves to another session stays below it. It kills
them all when the command ends, is told to stop or times out, or when the agent dies, even by SIGKILL (the socket
closes). It also writes the output: a head and a tail of at most `limit` bytes in total, which bounds memory and disk.

It runs as `python -I -S` and imports little, since every command waits for it; inside a session's sandbox
`session_init` forks it. On systems without subreaper and /proc (macOS) it kills the command's process group, which a
daemon can leave.
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

    Confine = Callable[[list[str], list[str], list[str], bool], None]

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
        self.confined, self.network = fields[5] != b"0", fields[5] == b"1"
        self.file_size, self.processes = (int(number) for number in fields[6].split())
        rest = iter(fields[7:])
        lists = [[next(rest) for _ in range(int(next(rest)))] for _ in range(5)]
        self.writable, self.hidden, self.shown, self.made, self.joined = lists
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


SECCOMP = b"@seccomp@"
"""The word of a bubblewrap command that stands for the descriptor of the system call filter."""


def become_command(settings: SupervisorSettings, output: int, confine: Confine | None, program: bytes) -> None:
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
        for path in settings.joined:
            join_group(path)
        limit_resources(settings)
        if settings.confined and confine is not None:
            lists = (settings.writable, settings.hidden, settings.shown)
            writable, hidden, shown = ([os.fsdecode(path) for path in paths] for paths in lists)
            confine(writable, hidden, shown, settings.network)
        argv = [filter_descriptor(program) if word == SECCOMP else word for word in settings.argv]
        os.execvpe(argv[0], argv, settings.environment)  # noqa: S606
    except OSError as error:
        os.write(2, f"the command could not be started: {error}\n".encode(errors="backslashreplace"))
    finally:
        os._exit(127)


def join_group(path: bytes) -> None:
    """Move this process into a control group, by the file that lists the processes of the group."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.write(file, b"0")
    os.close(file)


def limit_resources(settings: SupervisorSettings) -> None:
    """Lower the limits of this process; the user's own limits stay where they are lower."""
    import resource

    wanted = ((resource.RLIMIT_FSIZE, settings.file_size), (resource.RLIMIT_NPROC, settings.processes))
    for kind, most in (*wanted, (resource.RLIMIT_CORE, 0)):
        if most or kind == resource.RLIMIT_CORE:
            _, hard = resource.getrlimit(kind)
            bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (bound, bound))


def filter_descriptor(program: bytes) -> bytes:
    """Return the number of a new descriptor from which bubblewrap reads the filter."""
    file = os.memfd_create("seccomp", 0)
    os.write(file, program)
    os.lseek(file, 0, os.SEEK_SET)
    return str(file).encode()


def remove_tree(folder: bytes) -> None:
    """Remove a throw-away folder. What cannot be removed stays until the session's sandbox ends."""
    for path, folders, files in os.walk(folder, topdown=False):
        for name in files:
            _remove(os.unlink, os.path.join(path, name))
        for name in folders:
            whole = os.path.join(path, name)
            _remove(os.unlink if os.path.islink(whole) else os.rmdir, whole)
    _remove(os.rmdir, folder)


def _remove(remove: Callable[[bytes], None], path: bytes) -> None:
    try:
        remove(path)
    except OSError:
        return


def processes() -> dict[int, tuple[int, int]]:
    """Return every process that /proc shows, with its parent and its process group."""
    found: dict[int, tuple[int, int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                found[int(name)] = (int(fields[1]), int(fields[2]))
            except (OSError, IndexError):
                continue  # the process has ended
    return found


def descendants(ancestor: int, but: tuple[int, ...] = ()) -> dict[int, int]:
    """Return every process below this one, with its process group, except those in `but` and all below them. Orphans
    are included: a subreaper adopts them."""
    below: dict[int, list[tuple[int, int]]] = {}
    for pid, (parent, group) in processes().items():
        below.setdefault(parent, []).append((pid, group))
    found: dict[int, int] = {}
    waiting = [ancestor]
    while waiting:
        children = [child for child in below.get(waiting.pop(), []) if child[0] not in found and child[0] not in but]
        found.update(children)
        waiting.extend(pid for pid, _ in children)
    return found


def send(number: int, group: int) -> int:
    """Signal every process below this one; return how many there were.

    Groups first: a process that keeps forking and exiting has another pid by the time it is signalled, but the kernel
    signals a whole group at once. Never this process's own group, which a process below may have joined.
    """
    if not LINUX:
        send_signal(-group, number)
        return 1
    found = descendants(os.getpid())
    for pgid in set(found.values()) - {os.getpgrp(), 0}:
        send_signal(-pgid, number)
    for pid in found:
        send_signal(pid, number)
    return len(found)


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it is gone, or a set-uid program made it another user's: we may not signal it


def ignore(*_: object) -> None:
    """Handler that lets the signal interrupt the wait; the caller then checks what happened."""


class Supervision:
    """Runs one command, from its start to the end of every process below it."""

    def __init__(self, settings: SupervisorSettings, confine: Confine | None, program: bytes) -> None:
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
        self.deadline = float("inf")
        self.paused_at = 0.0
        self.flowing = True
        self.left = 0
        signal.signal(signal.SIGCHLD, ignore)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop)
        for folder in settings.made:
            os.makedirs(folder, 0o700)
        self.output, ours = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            become_command(settings, ours, confine, program)
        os.close(ours)
        os.set_blocking(self.output, False)
        self.poll = select.poll()
        for end in (CONTROL, self.woken, self.output):
            self.poll.register(end, select.POLLIN)

    def _stop(self, *_: object) -> None:
        self.told_to_stop = True

    def run(self) -> None:
        self.deadline = time.monotonic() + self.settings.seconds if self.settings.seconds else float("inf")
        while self.status is None and not self.told_to_stop and (self.paused_at or time.monotonic() < self.deadline):
            left = 0.5 if self.paused_at else self.deadline - time.monotonic()
            self.attend(min(0.5, max(0.0, left)))
            self.reap()
        if self.status is None:
            self.reason = "stopped" if self.told_to_stop else "timeout"
        if self.reap():
            self.end_gently()
            self.end_all()
        self.drain()
        self.sink.finish()
        for folder in self.settings.made:
            remove_tree(folder)
        self.report()

    def attend(self, seconds: float) -> None:
        """Wait for output, an ended child or a stop request, and handle it."""
        for end, _ in self.poll.poll(seconds * 1000):
            if end == self.woken:
                os.read(self.woken, 512)
            elif end == self.output:
                self.pump()
            else:
                self.hear()
        if os.getppid() != self.parent:
            self.told_to_stop = True

    def hear(self) -> None:
        """Read what the agent says: `p` stops the clock of the time limit, `g` lets it go on, the end means stop."""
        try:
            words = os.read(CONTROL, 64)
        except OSError:
            words = b""
        if not words:
            self.told_to_stop = True
            self.poll.unregister(CONTROL)
        elif words.endswith(b"p"):
            self.paused_at = self.paused_at or time.monotonic()
        elif self.paused_at:
            self.deadline += time.monotonic() - self.paused_at
            self.paused_at = 0.0

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


def main(confine: Confine | None, program: bytes = b"") -> None:
    """`confine` is `landlock.confine`, passed in because importing the package by name would take too long here.
    `program` is the filter of system calls that bubblewrap installs."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    settings = received()
    if settings is not None:
        become_subreaper()
        Supervision(settings, confine, program).run()
