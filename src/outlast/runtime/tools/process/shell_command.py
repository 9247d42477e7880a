"""A shell command under its supervisor: start, record, run, end.

Nothing here is bound to an event loop, so a background job can outlive the turn and the loop that started it. A thread
waits for the supervisor; callers wait on the future `ended`.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

import msgspec

from outlast.runtime.private_file import make_private_folder
from outlast.runtime.sandbox.session_sandbox import FOLDERS, SandboxFailure, SessionSandbox, sender
from outlast.runtime.tools.port import Spawned, ToolFault
from outlast.runtime.tools.process import orphans

LOG_LIMIT = 64 * 1024 * 1024
LOG_TAIL = 64 * 1024
GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""

_PROGRAM = (
    "import sys; sys.path += sys.argv[1].split(':'); import landlock, supervisor; supervisor.main(landlock.confine)"
)
PAUSE, GO_ON = b"p", b"g"
"""What the supervisor is told about its clock; see `supervisor.Supervision.attend`."""
KILLED_AFTER = 15.0
"""Seconds after which a supervisor in a sandbox that should have ended its command is killed: a command may stop it."""


_OURS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables the supervisor itself may need to start. The rest of the environment is only for the command."""


class CommandSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and its limits. `seconds` 0 means no time limit; `writable` None means no confinement by Landlock. A
    confined command cannot read the files in `hidden`, except those in `shown`; without `network` it has no sockets but
    Unix ones. The supervisor creates the folders `made` before the command and removes them after it. The command joins
    the control groups with the process lists `joined`. `file_size` and `processes` 0 mean the user's own limits."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    log: Path
    seconds: float = 0
    grace: float = GRACE
    writable: tuple[Path, ...] | None = None
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    network: bool = True
    made: tuple[Path, ...] = ()
    joined: tuple[Path, ...] = ()
    file_size: int = 0
    processes: int = 0
    limit: int = LOG_LIMIT
    tail: int = LOG_TAIL

    def told(self) -> bytes:
        """The message that the supervisor reads."""
        bounds = (f"{self.seconds}", f"{self.grace}", f"{self.limit}", f"{self.tail}", str(self.cwd))
        paths = (self.writable, self.hidden, self.shown, self.made, self.joined)
        lists = [[str(path) for path in chosen or ()] for chosen in paths]
        counted = [field for chosen in lists for field in (str(len(chosen)), *chosen)]
        pairs = [f"{name}={value}" for name, value in self.environment.items()]
        confined = "0" if self.writable is None else "1" if self.network else "2"
        limits = f"{self.file_size} {self.processes}"
        fields = (*bounds, confined, limits, *counted, str(len(pairs)), *pairs, *self.argv)
        if any("\0" in field for field in fields):
            raise ToolFault("a command cannot hold a NUL character; write it as an escape of the program that reads it")
        payload = b"\0".join(os.fsencode(field) for field in fields)
        return str(len(payload)).encode() + b"\n" + payload


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. `reason`: exited, timeout, stopped, or lost (its supervisor was killed).

    `code` is the exit code, None if `signal` ended it. The log holds `stored` of `total` bytes of output; missing bytes
    are missing before the last `tail` ones. `left` processes had to be killed.
    """

    reason: str
    code: int | None = None
    signal: str | None = None
    total: int = 0
    stored: int = 0
    tail: int = 0
    left: int = 0


class Supervisor(Protocol):
    """The process that watches over a command."""

    pid: int

    def overdue(self) -> None:
        """The supervisor should have ended by now: end it by force, if a command can have stopped it."""
        ...

    def ended(self, mark: str, *, lost: bool) -> int:
        """Collect the supervisor, whose socket has closed; return how many processes a lost one had left behind."""
        ...


class OwnSupervisor:
    """A supervisor that this process started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def overdue(self) -> None:
        return  # outside a sandbox there is no time limit on what the user's own processes may do

    def ended(self, mark: str, *, lost: bool) -> int:
        # Before `wait`: until then its pid, which is also the session id, cannot be reused by another process.
        left = orphans.sweep(self.pid, mark) if lost else 0
        self._process.wait()
        return left


class SandboxedSupervisor:
    """A supervisor that the init of a session's sandbox started. If it is lost, the init kills what it left."""

    def __init__(self, sandbox: SessionSandbox, number: int, pid: int) -> None:
        self._sandbox = sandbox
        self._number = number
        self.pid = pid

    def overdue(self) -> None:
        self._sandbox.kill(self._number)

    def ended(self, mark: str, *, lost: bool) -> int:
        del mark
        return 1 if lost else 0


class ShellCommand:
    """A supervisor that waits for its command, then the running command. Created by `begin`."""

    def __init__(self, order: CommandSpec, supervisor: Supervisor, control: socket.socket, mark: str) -> None:
        self.order = order
        self.ended: Future[CommandResult] = Future()
        self.spawned = Spawned(pid=supervisor.pid, started=started(supervisor.pid), host=socket.gethostname())
        self._supervisor = supervisor
        self._control = control
        self._mark = mark
        self._overdue_at = float("inf")
        self._paused_at = 0.0
        self.ended.set_running_or_notify_cancel()  # from now on no waiting caller can cancel it
        threading.Thread(target=self._attend, name=f"command-{supervisor.pid}", daemon=True).start()

    def go(self) -> None:
        """Run the command now. The caller must have recorded its start."""
        if self.order.seconds:
            self._expect_end(self.order.seconds)
        try:
            self._control.sendall(self.order.told())
        except OSError as error:
            raise ToolFault(f"the command was not started: its supervisor is gone ({error})") from error

    def stop(self) -> None:
        """End the command and every process below it. Returns at once, may be repeated; `ended` says when done."""
        self._expect_end(0)
        try:
            self._control.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it has ended already

    def pause(self) -> None:
        """Stop the clock of the time limit: the command waits for a person."""
        self._paused_at = time.monotonic()
        self._say(PAUSE)

    def go_on(self) -> None:
        """Let the clock of the time limit go on."""
        self._overdue_at += time.monotonic() - self._paused_at
        self._say(GO_ON)

    def _say(self, word: bytes) -> None:
        try:
            self._control.sendall(word)
        except OSError:
            return  # it has ended already

    def _expect_end(self, seconds: float) -> None:
        self._overdue_at = min(self._overdue_at, time.monotonic() + seconds + self.order.grace + KILLED_AFTER)

    def _attend(self) -> None:
        ended = _ended(self._heard())
        left = self._supervisor.ended(self._mark, lost=ended is None)
        if ended is None:
            size = self.order.log.stat().st_size if self.order.log.exists() else 0
            ended = CommandResult(reason="lost", signal="SIGKILL", total=size, stored=size, left=left)
        self._control.close()
        self.ended.set_result(ended)

    def _heard(self) -> bytes:
        """Return what the supervisor sent before its end of the socket closed, that is, before it exited."""
        said = b""
        self._control.settimeout(1.0)
        while True:
            try:
                more = self._control.recv(4096)
            except TimeoutError:
                if time.monotonic() > self._overdue_at:
                    self._supervisor.overdue()
                continue
            except OSError:
                return b""
            if not more:
                return said
            said += more


def begin(order: CommandSpec, sandbox: SessionSandbox | None = None) -> ShellCommand:
    """Start the supervisor, inside the sandbox if one is given. The command itself waits for `go`; before `go`, `stop`
    only ends the supervisor."""
    mark = secrets.token_hex(12)
    order = msgspec.structs.replace(order, environment={**order.environment, orphans.MARK: mark})
    order.told()  # raises a fault before anything is started
    make_private_folder(order.log.parent)
    log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND, 0o600)
    ours, theirs = socket.socketpair()
    try:
        supervisor = _start(order, theirs, log) if sandbox is None else _launch(sandbox, ours, theirs, log)
    except (OSError, ValueError, SandboxFailure) as error:
        ours.close()
        raise ToolFault(f"the command was not started: {error}") from error
    finally:
        theirs.close()
        os.close(log)
    return ShellCommand(order, supervisor, ours, mark)


def _start(order: CommandSpec, control: socket.socket, log: int) -> Supervisor:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, ":".join(FOLDERS)],
        stdin=control.fileno(),
        stdout=log,
        stderr=log,
        env={name: order.environment[name] for name in _OURS if name in order.environment},
        start_new_session=True,
    )
    return OwnSupervisor(process)


def _launch(sandbox: SessionSandbox, ours: socket.socket, theirs: socket.socket, log: int) -> Supervisor:
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    number = sandbox.launch(theirs, log)
    theirs.close()  # so that the end of the sandbox is seen as the end of the supervisor
    return SandboxedSupervisor(sandbox, number, sender(ours))


def started(pid: int) -> str:
    """Return the start time of a process as the kernel counts it; tells it from a later process with the same pid."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def _ended(said: bytes) -> CommandResult | None:
    words = said.decode("ascii", "replace").split()
    if len(words) != 7 or words[0] != "ended":
        return None
    code, total, stored, tail, left = map(int, words[2:])
    names = {number.value: number.name for number in signal.Signals}
    return CommandResult(
        reason=words[1],
        code=code if code >= 0 else None,
        signal=names.get(-code, f"signal {-code}") if code < 0 else None,
        total=total,
        stored=stored,
        tail=tail,
        left=left,
    )
