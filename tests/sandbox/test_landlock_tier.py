"""The Landlock tier for real, as root and as an ordinary user: what a confined process cannot do, and what it can.

Each attack is first made without the walls and must succeed there; otherwise it would prove nothing."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast.runtime.sandbox import landlock, unix_sockets
from tests.conftest import everything_is_required

FOLDER = Path(landlock.__file__).parent
NOBODY = 65534
DRIVER = """
import sys; sys.path.append(sys.argv[1])
import json, os, socket, signal, subprocess, threading, mmap, select, ctypes, encodings.idna, traceback
import landlock
order = json.loads(sys.argv[2])
if order["user"]:
    os.setgroups([]); os.setresgid(*[order["user"]] * 3); os.setresuid(*[order["user"]] * 3)
os.chdir(order["cwd"])
if order["walls"]:
    landlock.confine(order["writable"], order["hidden"], order["shown"], order["network"])
if order["command"]:
    os.execv("/bin/bash", ["bash", "-c", order["command"]])
try:
    exec(order["python"])
except BaseException as error:
    print(type(error).__name__, getattr(error, "errno", ""), flush=True)
"""
"""Only programs outside root's home can be executed by another user, so Python code runs in the driver itself."""


class Place(msgspec.Struct, frozen=True):
    """A folder with a project, a neighbour and secrets, all owned by `user` (0: whoever runs the tests)."""

    base: Path
    user: int

    @property
    def project(self) -> Path:
        return self.base / "project"

    def run(self, *, command: str = "", python: str = "", walls: bool = True, network: bool = False) -> str:
        order = {
            "user": self.user,
            "cwd": str(self.project),
            "walls": walls,
            "writable": [str(self.project)],
            "hidden": [str(self.base / "secrets"), str(self.base / "nowhere")],
            "shown": [str(self.base / "secrets" / "shown")],
            "network": network,
            "command": command,
            "python": python,
        }
        argv = [sys.executable, "-I", "-S", "-c", DRIVER, str(FOLDER), json.dumps(order)]
        result = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        return result.stdout


@contextlib.contextmanager
def sleeping(user: int) -> Generator[subprocess.Popen[Any]]:
    """A process of the same user, as the agent is."""
    identity: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if user else {}
    with subprocess.Popen(["sleep", "60"], env={"KEY": "the-key"}, **identity) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def _landlock() -> None:
    support = landlock.available()
    if not support.runs_unasked and everything_is_required():
        pytest.fail(support.reason or f"Landlock has only version {support.abi} here")
    if not support.runs_unasked:
        pytest.skip(support.reason or f"Landlock has only version {support.abi} here")


@pytest.fixture(params=["caller", "nobody"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    user = NOBODY if request.param == "nobody" else 0
    if user and os.geteuid() != 0:
        pytest.skip("only root can become another user; the other case covers an ordinary one")
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="outlast-tier-")))
    for name in ("project/src", "neighbour", "secrets/shown"):
        (base / name).mkdir(parents=True)
    for name in ("project/own", "neighbour/file", "secrets/token", "secrets/shown/skill"):
        (base / name).write_text(f"{name}\n")
    for path in (base, *base.rglob("*")):
        os.chown(path, user or os.geteuid(), user or os.getegid())
    yield Place(base, user)
    shutil.rmtree(base)


WRITES = {
    "write": "echo x > ../neighbour/file",
    "append": "echo x >> ../neighbour/file",
    "truncate": "truncate -s 0 ../neighbour/file",
    "create": "echo x > ../neighbour/new",
    "folder": "mkdir ../neighbour/new",
    "remove": "rm ../neighbour/file",
    "rename": "mv ../neighbour/file ../neighbour/new",
    "move out": "mv own ../neighbour/own",
    "link": "ln own ../neighbour/own",
    "symbolic link": "ln -s x ../neighbour/link",
    "pipe": "mkfifo ../neighbour/pipe",
    "through a link": "ln -s ../neighbour/file in && echo x > in",
    "child in a new session": "setsid --wait sh -c 'echo x > ../neighbour/new'",
}


@pytest.mark.parametrize("command", list(WRITES.values()), ids=list(WRITES))
def test_nothing_outside_the_roots_is_changed(place: Place, command: str) -> None:
    def seen() -> list[tuple[str, str]]:
        return sorted(
            (path.name, path.read_text() if path.is_file() else "") for path in (place.base / "neighbour").iterdir()
        )

    before = seen()
    place.run(command=command)
    assert seen() == before
    (place.project / "in").unlink(missing_ok=True)
    place.run(command=command, walls=False)
    assert seen() != before


@pytest.mark.parametrize(
    "command",
    [
        "cat ../secrets/token",
        "ln -s ../secrets/token t; cat t",
        "ln ../secrets/token t; cat t",
        "mv ../secrets/token t; cat t",
        "cat /proc/self/root$PWD/../secrets/token",
        "cat /proc/self/cwd/../secrets/token",
        "cp ../secrets/token t; cat t",
        "tail -c 100 < ../secrets/token",
    ],
)
def test_hidden_file_cannot_be_read(place: Place, command: str) -> None:
    assert "secrets/token" not in place.run(command=command).splitlines()
    (place.project / "t").unlink(missing_ok=True)
    assert "secrets/token" in place.run(command=command, walls=False).splitlines()


def test_what_is_shown_and_all_else_can_be_read_and_the_project_changed(place: Place) -> None:
    command = (
        "cat own ../neighbour/file ../secrets/shown/skill; echo new > src/new && mv src/new . && cat new && rm new; "
        "cat /etc/passwd > /dev/null && echo read; sh -c 'echo $0' && cat <(echo piped)"
    )
    assert place.run(command=command).splitlines() == [
        *("project/own", "neighbour/file", "secrets/shown/skill", "new", "read", "sh", "piped"),
    ]


def test_tcp_and_udp_are_refused_and_allowed_with_a_network(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connect = f"socket.create_connection(('127.0.0.1', {port}), 5); print('connected')"
        listen = "socket.create_server(('127.0.0.1', 0)); print('listening')"
        datagram = (
            f"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port})); print('sent')"
        )
        for code, done in ((connect, "connected"), (listen, "listening"), (datagram, "sent")):
            assert place.run(python=code) == "PermissionError 13\n"
            assert place.run(python=code, network=True) == f"{done}\n"
        assert "denied" in place.run(command=f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")


def test_tcp_is_refused_by_landlock_itself_too(place: Place) -> None:
    """A socket that was opened before the walls, such as an inherited one, cannot be connected or bound either."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        setup = "s = socket.socket(); landlock.confine([], [], [], False);"
        port = server.getsockname()[1]
        assert place.run(python=f"{setup} s.connect(('127.0.0.1', {port}))", walls=False) == "PermissionError 13\n"
        assert place.run(python=f"{setup} s.bind(('127.0.0.1', 0))", walls=False) == "PermissionError 13\n"


def test_abstract_socket_and_signals_of_others_are_out_of_reach(place: Place) -> None:
    if landlock.available().abi < 6:
        pytest.skip("scopes come with version 6 of Landlock")
    name = f"outlast-{os.getpid()}-{place.user}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        code = f"s = socket.socket(socket.AF_UNIX); s.connect('\\0{name}'); print('connected')"
        for network in (False, True):
            assert place.run(python=code, network=network).startswith("PermissionError")
        assert place.run(python=code, walls=False) == "connected\n"
    with sleeping(place.user) as other:
        code = f"os.kill({other.pid}, signal.SIGTERM); print('signalled')"
        assert place.run(python=code) == "PermissionError 1\n"
        assert other.poll() is None
        assert place.run(python=code, walls=False) == "signalled\n"


def test_socket_of_a_daemon_outside_cannot_be_connected(place: Place) -> None:
    path = place.base / "neighbour" / "daemon"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        code = f"socket.socket(socket.AF_UNIX).connect({str(path)!r}); print('connected')"
        assert place.run(python=code) == "PermissionError 13\n"
        assert place.run(python=code, walls=False) == "connected\n"


def test_datagrams_do_not_leave_through_a_pair(place: Place) -> None:
    path = place.base / "neighbour" / "daemon"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.setblocking(False)
        code = f"a, b = socket.socketpair(type=socket.SOCK_DGRAM); print(a.sendto(b'x', {str(path)!r}))"
        assert place.run(python=code) == "PermissionError 13\n"
        with pytest.raises(BlockingIOError):
            server.recv(1)
        assert place.run(python=code, walls=False) == "1\n"
        assert server.recv(1) == b"x"


@pytest.mark.parametrize(
    ("code", "free"),
    [
        ("print(ctypes.CDLL(None).unshare(0x10000000))", "0"),
        ("print(ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0))", None),
        ("subprocess.run(['/usr/bin/unshare', '--user', '/bin/true'], check=True); print(0)", "0"),
    ],
)
def test_namespaces_and_tracing_are_refused(place: Place, code: str, free: str | None) -> None:
    assert place.run(python=code).split()[-1] in ("-1", "CalledProcessError")
    if free is not None:
        assert place.run(python=code, walls=False).strip() == free


def test_no_capability_is_left_even_after_an_exec(place: Place) -> None:
    lines = dict(line.split(":\t") for line in place.run(command="grep Cap /proc/self/status").splitlines())
    assert {name: int(value, 16) for name, value in lines.items() if name != "CapBnd"} == {
        **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), 0)
    }
    if place.user == 0 and os.geteuid() == 0:
        assert int(lines["CapBnd"], 16) == 0
        free = dict(
            line.split(":\t") for line in place.run(command="grep Cap /proc/self/status", walls=False).splitlines()
        )
        assert int(free["CapEff"], 16) > 0


def test_environment_of_the_agent_cannot_be_read(place: Place) -> None:
    with sleeping(place.user) as agent:
        command = f"tr '\\0' '\\n' < /proc/{agent.pid}/environ; cat /proc/{agent.pid}/maps | wc -l"
        assert "the-key" not in place.run(command=command)
        assert "the-key" in place.run(command=command, walls=False)


def test_limits_of_the_agent_cannot_be_changed(place: Place) -> None:
    with sleeping(place.user) as agent:
        command = f"prlimit --pid {agent.pid} --core=0:0 && echo changed"
        assert "changed" not in place.run(command=command)
        assert "changed" in place.run(command=command, walls=False)


def test_machine_without_a_filter_has_no_commands_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.uname()
    other = os.uname_result((real.sysname, real.nodename, real.release, real.version, "riscv64"))
    monkeypatch.setattr(os, "uname", lambda: other)
    assert not landlock.available().runs_unasked
    with pytest.raises(OSError, match="no system call filter for riscv64"):
        landlock.confine([], network=False)


@pytest.mark.parametrize(("abi", "expected"), [(0, False), (3, False), (4, True), (7, True)])
def test_running_unasked_needs_version_4(abi: int, expected: bool) -> None:
    assert landlock.Support(abi, "").runs_unasked is expected


def test_older_versions_are_asked_only_for_what_they_know(monkeypatch: pytest.MonkeyPatch) -> None:
    rights = [landlock._rights(abi) for abi in (1, 2, 3, 5)]
    assert [bool(value >> 13 & 1) for value in rights] == [False, True, True, True]
    assert [bool(value >> 14 & 1) for value in rights] == [False, False, True, True]
    assert [bool(value >> 15 & 1) for value in rights] == [False, False, False, True]
    sizes: list[int] = []

    def keep_size(_number: int, _attributes: bytes, size: int, _flags: int) -> int:
        sizes.append(size)
        return 0

    monkeypatch.setattr(landlock, "_syscall", keep_size)
    for abi in (1, 4, 6, 7):
        landlock._ruleset(abi, 0, network=False)
    assert sizes == [8, 16, 24, 24]


def test_sockets_beneath_the_roots_do_not_count_as_a_daemon_s(tmp_path: Path) -> None:
    for name in ("inside", "outside", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "empty" / "file").write_text("x")
    with socket.socket(socket.AF_UNIX) as own, socket.socket(socket.AF_UNIX) as other:
        own.bind(str(tmp_path / "inside" / "s"))
        other.bind(str(tmp_path / "outside" / "s"))
        inside, outside = [str(tmp_path / "inside")], str(tmp_path / "outside")
        assert not unix_sockets._holds_socket(inside[0], inside)
        assert unix_sockets._holds_socket(outside, inside)
        assert not unix_sockets._holds_socket(str(tmp_path / "empty"), inside)
        assert str(tmp_path / "outside" / "s") in unix_sockets.listening()
        assert unix_sockets.are_reachable(inside, run=str(tmp_path / "empty"))
