"""The first process of a session's sandbox: it owns the namespaces that the commands of a session share.

bubblewrap starts it as PID 1 of new user, PID, network, IPC and UTS namespaces. The agent sends it one message per
command with two descriptors: the command's control socket and its log. For each command it forks a supervisor, which
runs a nested bubblewrap with the mounts of that command. When the agent exits, even by SIGKILL, the control socket
closes, this process exits, and the kernel kills every process of the session.

A command can kill its supervisor, but not PID 1. The processes of a killed supervisor become children of this
process, which kills them all. It runs as `python -I -S` and imports only the standard library and its own folder.
"""

from __future__ import annotations

import array
import os
import select
import signal
import socket
import sys
import time

import seccomp
import supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CONTROL = 0
PATIENCE = 10.0
"""Seconds after which it stops killing orphans: a process still left then is blocked in the kernel."""
LEAST_PIDS = 301
"""The smallest bound that the kernel accepts."""
_FD = array.array("i").itemsize


class SessionInit:
    """Serves the agent: starts supervisors, reaps children, kills orphans."""

    def __init__(self, control: socket.socket, program: bytes) -> None:
        self.control = control
        self.program = program
        self.supervisors: dict[int, int] = {}
        self.proxy_path = ""
        self.helpers: dict[int, int] = {}
        """Pids of the relay (port 0) and of forwarded ports, by port."""
        self.woken, wake = os.pipe()
        for end in (self.woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, supervisor.ignore)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def start_relay(self, unix_path: str) -> int:
        """Fork the relay to the network proxy; return the port on which it listens."""
        from network import relay  # only sessions with a network need it

        self.proxy_path = unix_path
        listeners, port = relay.listen()
        self._fork_helper(0, listeners, lambda: relay.serve(listeners, unix_path))
        return port

    def forward(self, port: int, token: str) -> None:
        """Lead this port of the session's loopback to the same port of the machine, for the command with this token."""
        from network import port_forward

        self.end_forward(port)
        listeners = self._free_port(lambda: port_forward.listen(port))
        if listeners is not None:
            self._fork_helper(port, listeners, lambda: port_forward.serve(listeners, self.proxy_path, port, token))

    def end_forward(self, port: int) -> None:
        """End the process that forwards this port, if there is one."""
        if port and port in self.helpers:
            os.kill(self.helpers.pop(port), signal.SIGKILL)

    def _free_port(self, listen: Callable[[], list[socket.socket]]) -> list[socket.socket] | None:
        """Return listeners once the kernel has ended the process that had the port; None if another program has it."""
        for _ in range(50):
            try:
                return listen()
            except OSError:
                time.sleep(0.002)
        return None

    def _fork_helper(self, port: int, listeners: list[socket.socket], serve: Callable[[], None]) -> None:
        pid = os.fork()
        if pid == 0:
            self._leave()
            try:
                serve()
            finally:
                os._exit(0)
        self.helpers[port] = pid
        for listener in listeners:
            listener.close()

    def run(self) -> None:
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.woken, select.POLLIN)
        while True:
            for end, _ in poll.poll(1000):
                if end == self.woken:
                    os.read(self.woken, 512)
                elif not self.attend():
                    return
            self.reap()

    def attend(self) -> bool:
        """Handle one message of the agent; return False if the agent is gone."""
        data, ancillary, _, _ = self.control.recvmsg(4096, socket.CMSG_SPACE(2 * _FD), socket.MSG_CMSG_CLOEXEC)
        if not data:
            return False
        descriptors = [fd for _, kind, raw in ancillary if kind == socket.SCM_RIGHTS for fd in array.array("i", raw)]
        verb, *words = data.decode("ascii").split()
        number = words[0]
        try:
            if verb == "run" and len(descriptors) == 2:
                self.start(int(number), *descriptors)
            elif verb == "kill":
                self.kill(int(number))
            elif verb == "forward" and self.proxy_path:
                self.forward(int(number), words[1])
            elif verb == "unforward":
                self.end_forward(int(number))
        finally:
            for fd in descriptors:
                os.close(fd)
        return True

    def start(self, number: int, command: int, log: int) -> None:
        try:
            pid = os.fork()
        except OSError:  # the limit of processes; the agent sees that the command's socket closes
            return
        if pid:
            self.supervisors[pid] = number
            return
        status = 1
        try:
            os.setsid()
            os.dup2(command, supervisor.CONTROL)
            os.dup2(log, supervisor.LOG)
            os.dup2(log, 2)
            os.close(command)
            os.close(log)
            self._leave()
            os.write(supervisor.CONTROL, b"ready\n")  # the socket tells the agent which process sent this
            supervisor.main(None, self.program)
            status = 0
        finally:
            os._exit(status)

    def _leave(self) -> None:
        """In a forked child: give up what belongs to PID 1."""
        signal.set_wakeup_fd(-1)
        os.close(self.woken)
        if self.control.fileno() not in (supervisor.CONTROL, supervisor.LOG):
            self.control.close()
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    def kill(self, number: int) -> None:
        for pid, mine in self.supervisors.items():
            if mine == number:
                os.kill(pid, signal.SIGKILL)

    def reap(self) -> None:
        lost = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if self.supervisors.pop(pid, None) is not None and status != 0:
                lost = True
        if lost:
            self.kill_orphans()

    def kill_orphans(self) -> None:
        """Kill every process that is below this one, but not below a living supervisor, until none is left."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            orphans = supervisor.descendants(os.getpid(), but=(*self.supervisors, *self.helpers.values()))
            if not orphans:
                return
            for pid in orphans:
                supervisor.send_signal(pid, signal.SIGKILL)
            self._collect()
            time.sleep(0.001)

    def _collect(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.supervisors.pop(pid, None)


def make_places(temporary: str) -> None:
    """Create what `bubblewrap.SessionPlaces` names. Of the hidden, a command sees an empty folder or file that it may
    not open."""
    for name, mode in (("tmp", 0o1777), ("shm", 0o1777), ("layers", 0o700), ("empty", 0)):
        os.mkdir(os.path.join(temporary, name))
        os.chmod(os.path.join(temporary, name), mode)
    os.close(os.open(os.path.join(temporary, "nothing"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0))
    os.mkdir(os.path.join(temporary, "ignored"))
    with open(os.path.join(temporary, "ignored", ".gitignore"), "x") as file:
        file.write("*\n")


def limit_processes(most: int, release: str) -> None:
    """Bound the processes of this PID namespace. For root this is the only bound. Kernels before 6.14 have no bound per
    namespace: there the file is that of the whole machine, and is left alone."""
    version = [int(part) if part.isdecimal() else 0 for part in release.split("-")[0].split(".")[:2]]
    if not most or version < [6, 14]:
        return
    try:
        with open("/proc/sys/kernel/pid_max", "w") as file:
            file.write(str(max(most, LEAST_PIDS)))
    except OSError:
        return  # more processors than that need more; each command still has a limit of its own


def main() -> None:
    """Arguments: the path of the proxy's socket, or nothing without a network; the folder of the session's tmpfs; the
    limit of processes, 0 for none."""
    make_places(sys.argv[3])
    limit_processes(int(sys.argv[4]), os.uname().release)
    control = socket.socket(fileno=os.dup(CONTROL))
    os.dup2(os.open(os.devnull, os.O_RDWR), CONTROL)
    machine = os.uname().machine
    init = SessionInit(control, seccomp.filter_program(machine, network=True))
    port = init.start_relay(sys.argv[2]) if sys.argv[2] else 0
    control.sendall(f"ready {port}\n".encode())
    init.run()
