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
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

import msgspec

from outlast.runtime.tools.port import Spawned, ToolFault
from outlast.runtime.tools.process import orphans

LOG_LIMIT = 64 * 1024 * 1024
LOG_TAIL = 64 * 1024
GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL."""

_FOLDER = str(Path(__file__).parent)
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); import landlock, supervisor; supervisor.main(landlock.confine)"


_OURS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables the supervisor itself may need to start. The rest of the environment is only for the command."""


class CommandSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to run and its limits. `seconds` 0 means no time limit; `writable` None means no confinement. A confined
    command cannot read the files in `hidden`, except those in `shown`."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    log: Path
    seconds: float = 0
    grace: float = GRACE
    writable: tuple[Path, ...] | None = None
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    limit: int = LOG_LIMIT
    tail: int = LOG_TAIL

    def told(self) -> bytes:
        """The message that the supervisor reads."""
        bounds = (f"{self.seconds}", f"{self.grace}", f"{self.limit}", f"{self.tail}", str(self.cwd))
        lists = [[str(path) for path in paths or ()] for paths in (self.writable, self.hidden, self.shown)]
        counted = [field for paths in lists for field in (str(len(paths)), *paths)]
        pairs = [f"{name}={value}" for name, value in self.environment.items()]
        confined = str(int(self.writable is not None))
        fields = (*bounds, confined, *counted, str(len(pairs)), *pairs, *self.argv)
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


class ShellCommand:
    """A supervisor that waits for its command, then the running command. Created by `begin`."""

    def __init__(self, order: CommandSpec, process: subprocess.Popen[bytes], control: socket.socket, mark: str) -> None:
        self.order = order
        self.ended: Future[CommandResult] = Future()
        self.spawned = Spawned(pid=process.pid, started=started(process.pid), host=socket.gethostname())
        self._process = process
        self._control = control
        self._mark = mark
        self.ended.set_running_or_notify_cancel()  # from now on no waiting caller can cancel it
        threading.Thread(target=self._attend, name=f"command-{process.pid}", daemon=True).start()

    def go(self) -> None:
        """Run the command now. The caller must have recorded its start."""
        try:
            self._control.sendall(self.order.told())
        except OSError as error:
            raise ToolFault(f"the command was not started: its supervisor is gone ({error})") from error

    def stop(self) -> None:
        """End the command and every process below it. Returns at once, may be repeated; `ended` says when done."""
        try:
            self._control.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it has ended already

    def _attend(self) -> None:
        ended = _ended(self._heard())
        if ended is None:
            # Before `wait`: until then its pid, which is also the session id, cannot be reused by another process.
            left = orphans.sweep(self._process.pid, self._mark)
            size = self.order.log.stat().st_size if self.order.log.exists() else 0
            ended = CommandResult(reason="lost", signal="SIGKILL", total=size, stored=size, left=left)
        self._process.wait()
        self._control.close()
        self.ended.set_result(ended)

    def _heard(self) -> bytes:
        """Return what the supervisor sent before its end of the socket closed, that is, before it exited."""
        said = b""
        try:
            while more := self._control.recv(4096):
                said += more
        except OSError:
            return b""
        return said


def begin(order: CommandSpec) -> ShellCommand:
    """Start the supervisor. The command itself waits for `go`; before `go`, `stop` only ends the supervisor."""
    mark = secrets.token_hex(12)
    order = msgspec.structs.replace(order, environment={**order.environment, orphans.MARK: mark})
    order.told()  # raises a fault before anything is started
    order.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = os.open(order.log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND, 0o600)
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, _FOLDER],
            stdin=theirs.fileno(),
            stdout=log,
            stderr=log,
            env={name: order.environment[name] for name in _OURS if name in order.environment},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        ours.close()
        raise ToolFault(f"the command was not started: {error}") from error
    finally:
        theirs.close()
        os.close(log)
    return ShellCommand(order, process, ours, mark)


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
