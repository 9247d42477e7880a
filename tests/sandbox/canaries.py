"""Canaries of the arena: network, servers on Unix sockets, other processes, the kernel's settings, the terminal.

Each canary takes down its state before an attack, tells afterwards what happened to it, and puts itself back.
"""

import contextlib
import ctypes
import fcntl
import os
import pty
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.sandbox.attack import Effect
from tests.sandbox.world import HOME, OURS, OUTSIDE

TCP_PORT = 8080
UDP_PORT = 9090
SERVER_PORT = 4983
METADATA = "169.254.169.254"
PUBLIC = "93.184.216.34"
PUBLIC_6 = "2606:2800:220:1::1"
"""Addresses of the arena's own loopback device: no packet leaves the arena."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_PACKETS = 3
_HOST_NAME = "arena"


class Canary(Protocol):
    effect: Effect

    def begin(self) -> None:
        """Take down the state before an attack."""
        ...

    def changes(self) -> list[str]:
        """Return what happened since `begin`."""
        ...

    def restore(self) -> None: ...


class Network:
    """Sees every packet of the arena's loopback device, on which servers listen and every address lies."""

    effect = Effect.NETWORK

    def __init__(self) -> None:
        for address in (f"{METADATA}/32", f"{PUBLIC}/32"):
            subprocess.run(["ip", "addr", "add", address, "dev", "lo"], check=True, capture_output=True)
        subprocess.run(["ip", "-6", "addr", "add", f"{PUBLIC_6}/128", "dev", "lo", "nodad"], check=True)
        self.servers = [_tcp(socket.AF_INET6, port) for port in (TCP_PORT, SERVER_PORT, 22, 25, 80, 443, 5432, 6379)]
        self.servers += [_udp(port) for port in (UDP_PORT, 53)]
        self.sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_PACKETS))
        self.sniffer.bind(("lo", _PACKETS))
        self.sniffer.setblocking(False)
        answer_all([server for server in self.servers if server.type == socket.SOCK_STREAM], lambda server: None)

    def begin(self) -> None:
        self._seen()

    def changes(self) -> list[str]:
        seen = self._seen()
        return [f"{len(seen)} packets"] if seen else []

    def restore(self) -> None:
        self._seen()

    def _seen(self) -> list[bytes]:
        packets: list[bytes] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                packets.append(self.sniffer.recv(256))
        return packets


def _tcp(family: int, port: int) -> socket.socket:
    return socket.create_server(("::", port), family=family, dualstack_ipv6=True, backlog=64)


def _udp(port: int) -> socket.socket:
    server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", port))
    return server


def answer_all(servers: list[socket.socket], connected: Callable[[socket.socket], None]) -> None:
    """Accept and close every connection in a thread that ends with the trial."""

    def serve() -> None:
        selector = selectors.DefaultSelector()
        for server in servers:
            selector.register(server, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                server = key.fileobj
                assert isinstance(server, socket.socket)
                connected(server)
                server.accept()[0].close()

    threading.Thread(target=serve, daemon=True).start()


class UnixServers:
    """Stand-ins for servers that a user's session has: agents, containers, display, tmux, D-Bus."""

    effect = Effect.SOCKET
    PATHS = (
        f"{HOME}/project/app.sock", f"{HOME}/.service/control", f"{OUTSIDE}/server.sock",
        "/run/docker.sock", "/run/containerd.sock", "/run/user/0/bus", "/run/user/0/wayland-0", "/run/dbus-system",
        "/tmp/tmux-0/default", "/tmp/.X11-unix/X0", "/tmp/ssh-agent/agent.1", "/run/podman.sock", "/run/postgres.sock",
        f"{HOME}/.ssh/control.sock", f"{HOME}/.gnupg/S.gpg-agent", f"{OURS}/state/door.sock",
        "/var/tmp/service.sock", "/dev/shm/service.sock",
    )  # fmt: skip
    ABSTRACT = ("/tmp/.X11-unix/X0", "dbus-session", "canary", "containerd-shim", "user-service")

    def __init__(self) -> None:
        self.servers: dict[str, socket.socket] = {}
        for path in self.PATHS:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.connected: list[str] = []
        self._bind([*self.PATHS, *(f"\0{name}" for name in self.ABSTRACT)])
        datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        datagram.bind("\0log")
        datagram.setblocking(False)
        self.datagram = datagram

    def begin(self) -> None:
        self._connections()

    def changes(self) -> list[str]:
        return self._connections()

    def restore(self) -> None:
        self._connections()

    def bind_again(self) -> None:
        """Bind the sockets that an attack has removed."""
        self._bind([path for path in self.PATHS if not os.path.lexists(path) and os.path.isdir(os.path.dirname(path))])

    def _bind(self, names: list[str]) -> None:
        for name in names:
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.bind(name)
            server.listen(64)
            self.servers[name] = server
        if names:
            servers = [self.servers[name] for name in names]
            answer_all(servers, lambda server: self.connected.append(repr(server.getsockname())))

    def _connections(self) -> list[str]:
        time.sleep(0.003)  # for the thread that accepts
        found, self.connected[:] = list(self.connected), []
        with contextlib.suppress(BlockingIOError):
            while self.datagram.recv(64):
                found.append("'\\0log'")
        return found


_VICTIM = """
import ctypes, mmap, os, signal, sys, time
for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGWINCH, signal.SIGALRM, signal.SIGIO):
    signal.signal(number, lambda number, frame: os.write(1, b'signal %d\\n' % number))
word = ctypes.create_string_buffer(b'as it was', 64)
kept = open(sys.argv[1])
secret = ctypes.create_string_buffer(os.environ['VICTIM_SECRET'].encode())
os.write(1, b'%d %d %d\\n' % (ctypes.addressof(word), kept.fileno(), ctypes.addressof(secret)))
while True:
    if word.value != b'as it was':
        os.write(1, b'memory\\n'); word.value = b'as it was'
    time.sleep(0.02)
"""


class Victim:
    """Another process of the user, with a secret in its environment, its memory and an open file."""

    effect = Effect.PROCESS

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.start()
        self._before = self._facts()

    def start(self) -> None:
        kept = Path("/tmp/agent-kept")
        kept.write_text(self.secret)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _VICTIM, str(kept)], cwd=OUTSIDE, stdout=subprocess.PIPE,
            env={"VICTIM_SECRET": self.secret, "PATH": os.environ["PATH"]}, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.pid = self.process.pid
        self.word, self.descriptor, self.secret_at = map(int, self.process.stdout.readline().split())
        kept.unlink()
        os.set_blocking(self.process.stdout.fileno(), False)

    def begin(self) -> None:
        self._said()
        self._before = self._facts()

    def changes(self) -> list[str]:
        said = self._said()
        after = self._facts()
        words = [
            f"{name}: {self._before[name]} became {after[name]}" for name in after if after[name] != self._before[name]
        ]
        return [*words, *said]

    def restore(self) -> None:
        if self._facts() == self._before:
            return
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.start()
        self._before = self._facts()

    def _said(self) -> list[str]:
        assert self.process.stdout is not None
        text = self.process.stdout.read()
        return text.decode().splitlines() if text else []

    def _facts(self) -> dict[str, str]:
        if self.process.poll() is not None:
            return dict.fromkeys(("state", "nice", "limits", "affinity", "adjusted", "traced", "policy"), "ended")
        folder = Path(f"/proc/{self.pid}")
        status = (folder / "status").read_text()
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        return {
            "state": "stopped" if fields[0] in "Tt" else "running",
            "nice": fields[16],
            "policy": fields[38],
            "limits": (folder / "limits").read_text(),
            "affinity": str(sorted(os.sched_getaffinity(self.pid))),
            "adjusted": (folder / "oom_score_adj").read_text() + (folder / "coredump_filter").read_text(),
            "traced": next(line for line in status.splitlines() if line.startswith("TracerPid")),
        }


class Kernel:
    """Mounts, settings below /proc/sys that belong to the arena's namespaces, the host's name, IPC objects."""

    effect = Effect.KERNEL
    SETTINGS = (
        "net/ipv4/ip_forward", "net/ipv4/conf/all/rp_filter", "net/ipv4/conf/lo/accept_redirects", "kernel/msgmnb",
        "net/ipv4/tcp_syncookies", "net/ipv4/ip_default_ttl", "net/ipv6/conf/all/forwarding", "kernel/msgmax",
        "net/core/somaxconn", "net/ipv4/ip_unprivileged_port_start", "net/ipv4/icmp_echo_ignore_all",
        "fs/mqueue/msg_max",
    )  # fmt: skip

    def __init__(self) -> None:
        socket.sethostname(_HOST_NAME)
        self.segment = int(_LIBC.shmget(0x4F55, 4096, 0o1666))
        self.queue = int(_LIBC.msgget(0x4F56, 0o1666))
        self.semaphore = int(_LIBC.semget(0x4F57, 1, 0o1666))
        self._before = self._facts()

    def begin(self) -> None:
        self._before = self._facts()

    def changes(self) -> list[str]:
        after = self._facts()
        return [f"{name} became {value[:200]}" for name, value in after.items() if value != self._before[name]]

    def restore(self) -> None:
        after = self._facts()
        if after == self._before:
            return
        for name in self.SETTINGS:
            if after.get(name) != self._before.get(name):
                (Path("/proc/sys") / name).write_text(self._before[name])
        socket.sethostname(_HOST_NAME)
        _LIBC.setdomainname(b"(none)", 6)
        known = self._before["mounts"].splitlines()
        for line in reversed(after["mounts"].splitlines()):
            if line not in known:
                _LIBC.umount2(line.split()[4].encode(), 2)
        if after["addresses"] != self._before["addresses"]:
            subprocess.run(["ip", "addr", "del", "10.9.9.9/32", "dev", "lo"], capture_output=True)
        for name, make, remove in self._ipc_objects():
            if after[name] != self._before[name]:
                remove()
                make()
        self._before = self._facts()

    def _ipc_objects(self) -> list[tuple[str, Callable[[], object], Callable[[], object]]]:
        return [
            ("shm", lambda: _LIBC.shmget(0x4F55, 4096, 0o1666), lambda: _LIBC.shmctl(self.segment, 0, None)),
            ("msg", lambda: _LIBC.msgget(0x4F56, 0o1666), lambda: _LIBC.msgctl(self.queue, 0, None)),
            ("sem", lambda: _LIBC.semget(0x4F57, 1, 0o1666), lambda: _LIBC.semctl(self.semaphore, 0, 0)),
        ]

    def _facts(self) -> dict[str, str]:
        facts = {name: _text(Path("/proc/sys") / name) for name in self.SETTINGS}
        facts["mounts"] = _text(Path("/proc/self/mountinfo"))
        facts["host"] = socket.gethostname() + _text(Path("/proc/sys/kernel/domainname"))
        facts |= {name: _text(Path("/proc/sysvipc") / name) for name in ("shm", "msg", "sem")}
        facts["interfaces"] = _text(Path("/proc/net/dev_snmp6/lo"))[:20] + str(sorted(socket.if_nameindex()))
        facts["addresses"] = _text(Path("/proc/net/fib_trie"))
        return facts


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        return f"cannot be read: {error.errno}"


class Terminal:
    """The user's terminal, which is the controlling terminal of the trial, as a shell's is."""

    effect = Effect.TERMINAL

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        with contextlib.suppress(PermissionError):  # the trial leads its session already
            os.setsid()
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(self.slave, os.getpgrp())
        os.set_blocking(self.master, False)
        self.name = os.ttyname(self.slave)
        self.settings = termios.tcgetattr(self.slave)
        self._size = fcntl.ioctl(self.slave, termios.TIOCGWINSZ, b"\0" * 8)
        self._mode = os.fstat(self.slave).st_mode

    def begin(self) -> None:
        self.restore()

    def changes(self) -> list[str]:
        found = ["output"] if self._output() else []
        if fcntl.ioctl(self.slave, termios.FIONREAD, b"\0" * 4) != b"\0" * 4:
            found.append("input")
        if termios.tcgetattr(self.slave) != self.settings:
            found.append("settings")
        if fcntl.ioctl(self.slave, termios.TIOCGWINSZ, b"\0" * 8) != self._size:
            found.append("size")
        if os.fstat(self.slave).st_mode != self._mode:
            found.append("mode")
        if os.tcgetpgrp(self.slave) != os.getpgrp():
            found.append("foreground group")
        return found

    def restore(self) -> None:
        os.tcsetpgrp(self.slave, os.getpgrp())
        termios.tcsetattr(self.slave, termios.TCSANOW, self.settings)
        termios.tcflush(self.slave, termios.TCIFLUSH)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, self._size)
        os.fchmod(self.slave, self._mode)
        self._output()

    def _output(self) -> bytes:
        with contextlib.suppress(BlockingIOError):
            return os.read(self.master, 65536)
        return b""


def processes() -> dict[int, bytes]:
    """Return every process of the arena with its command line, those of sandboxes too."""
    found: dict[int, bytes] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                found[int(name)] = Path(f"/proc/{name}/cmdline").read_bytes()
    return found


def with_mark(mark: str) -> list[int]:
    return [pid for pid, line in processes().items() if mark.encode() in line]


def sweep(known: set[int]) -> None:
    """Kill what an attack without a sandbox has left behind."""
    until = time.monotonic() + 5
    while strangers := [pid for pid in processes() if pid not in known]:
        for pid in strangers:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until:
            raise TimeoutError(f"processes do not end: {strangers}")
        time.sleep(0.002)
