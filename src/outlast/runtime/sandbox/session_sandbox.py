"""The sandbox of one session, seen from the agent: starts the session's init, sends it commands, ends it.

Nothing here is bound to an event loop. The thread that starts bubblewrap lives as long as it does, because the kernel
ties `--die-with-parent` to that thread.
"""

from __future__ import annotations

import array
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from outlast.runtime.private_file import make_private_folder
from outlast.runtime.sandbox.bubblewrap import SessionPlaces

FOLDERS = (str(Path(__file__).parent),)
_PROGRAM = "import sys; sys.path += sys.argv[1].split(':'); import session_init; session_init.main()"
START_SECONDS = 20.0
_CREDENTIALS = struct.Struct("3i")


class SandboxFailure(Exception):
    """The sandbox could not be started, or it ended. The message is one sentence."""


class SessionSandbox:
    """Namespaces that the commands of a session share. `launch` starts a supervisor inside them."""

    def __init__(
        self, bubblewrap: Sequence[str], places: SessionPlaces, proxy_socket: Path | None = None, processes: int = 0
    ) -> None:
        self.places = places
        self.port = 0
        """The port of the relay to the network proxy on the session's loopback; 0 without a network."""
        self._number = 0
        self._lock = threading.Lock()
        self._started: Future[int] = Future()
        self._at_end: list[Callable[[], None]] = []
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        make_private_folder(places.temporary)
        words = [
            sys.executable,
            "-I",
            "-S",
            "-c",
            _PROGRAM,
            ":".join(FOLDERS),
            str(proxy_socket or ""),
            str(places.temporary),
            str(processes),
        ]
        self._thread = threading.Thread(
            target=self._attend, args=([*bubblewrap, *words], theirs), name="sandbox", daemon=True
        )
        self._thread.start()

    def wait_ready(self) -> None:
        """Wait until commands can run. Raises SandboxFailure with what bubblewrap said if it could not start."""
        try:
            self.port = self._started.result(START_SECONDS)
        except TimeoutError as error:
            self.close()
            raise SandboxFailure("the sandbox did not start within 20 s") from error

    def at_end(self, function: Callable[[], None]) -> None:
        """Call this when every process of the sandbox has ended."""
        self._at_end.append(function)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def launch(self, command: socket.socket, log: int) -> int:
        """Start a supervisor with this control socket and log; return the number under which `kill` knows it."""
        with self._lock:
            self._number += 1
            number = self._number
        descriptors = array.array("i", [command.fileno(), log])
        try:
            self._control.sendmsg(
                [f"run {number}".encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors.tobytes())]
            )
        except OSError as error:
            raise SandboxFailure(f"the sandbox of this session has ended ({error})") from error
        return number

    def kill(self, number: int) -> None:
        """Kill a supervisor and every process below it, even if the command stopped it."""
        try:
            self._control.sendall(f"kill {number}".encode())
        except OSError:
            return  # the sandbox has ended, and its processes with it

    def forward(self, port: int, token: str) -> None:
        """Lead this port of the session's loopback to the same port of this machine, for the command with the token."""
        try:
            self._control.sendall(f"forward {port} {token}".encode())
        except OSError as error:
            raise SandboxFailure(f"the sandbox of this session has ended ({error})") from error

    def end_forward(self, port: int) -> None:
        """Free a port that `forward` took."""
        try:
            self._control.sendall(f"unforward {port}".encode())
        except OSError:
            return  # the sandbox has ended, and its ports with it

    def close(self) -> None:
        """End every process of the sandbox. Returns at once; may be repeated."""
        try:
            self._control.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is closed already

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def _attend(self, argv: list[str], theirs: socket.socket) -> None:
        try:
            with theirs:
                process = subprocess.Popen(
                    argv, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                    env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            self._started.set_exception(SandboxFailure(f"the sandbox could not be started: {error}"))
            return
        try:
            said = self._control.recv(4096)
        except OSError:
            said = b""
        if said.startswith(b"ready "):
            self._started.set_result(int(said.split()[1]))
            process.wait()
        else:
            self.close()
            _, errors = process.communicate()
            line = errors.decode("utf-8", "replace").strip().splitlines()
            why = line[-1] if line else "bubblewrap ended without a word"
            self._started.set_exception(SandboxFailure(f"the sandbox could not be started: {why}"))
        if process.stderr is not None:
            process.stderr.close()
        self._control.close()
        for function in self._at_end:
            function()
        try:
            self.places.temporary.rmdir()
        except OSError:
            return  # it is gone already, or never came into being


def sender(control: socket.socket) -> int:
    """Receive the supervisor's first line; return its pid as this process sees it. Raises SandboxFailure if none came.

    The socket must have SO_PASSCRED set: the kernel then tells who sent the line, translated into our own PIDs."""
    size = socket.CMSG_SPACE(_CREDENTIALS.size)
    data, ancillary, _, _ = control.recvmsg(len(b"ready\n"), size)
    for level, kind, raw in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and data == b"ready\n":
            return _CREDENTIALS.unpack(raw[: _CREDENTIALS.size])[0]
    raise SandboxFailure("the sandbox of this session has ended, or its limit of processes is reached")
