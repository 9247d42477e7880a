"""Limits of sandboxed commands: a limit that was hit is named; a memory group is made only where it was delegated."""

import importlib
import io
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from outlast.runtime.sandbox import memory_group as groups
from outlast.runtime.sandbox.limits import ResourceLimits, limit_note
from outlast.runtime.sandbox.memory_group import MemoryGroup, memory_group

LIMITS = ResourceLimits()
NOBODY = 65534


def test_defaults_are_those_of_the_documentation() -> None:
    assert msgspec.to_builtins(LIMITS) == {
        "file_bytes": 10 * 1024**3,
        "processes": 4096,
        "memory_share": 0.8,
        "tmp_bytes": 2 * 1024**3,
        "job_seconds": 43200,
    }


def ended(command: list[str], **limits: int) -> tuple[int | None, str | None, str]:
    """Run a command with real limits; return its exit code, its signal and its output."""

    def lower() -> None:
        for name, most in limits.items():
            resource.setrlimit(getattr(resource, name), (most, most))

    user = NOBODY if "RLIMIT_NPROC" in limits and os.geteuid() == 0 else None  # root may exceed that limit
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=lower, user=user, cwd="/")
    signal = "SIGXFSZ" if result.returncode == -25 else None
    return (None if signal else result.returncode), signal, result.stdout + result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["head", "-c", "20000", "/dev/zero"],
        ["bash", "-c", "head -c 20000 /dev/zero > $0; exit $?"],
        ["bash", "-c", "exec dd if=/dev/zero of=$0 bs=20000 count=1"],
        [sys.executable, "-I", "-c", "import sys; open(sys.argv[1], 'wb').write(bytes(20000))"],
    ],
)
def test_file_size_limit_is_named(tmp_path: Path, command: list[str]) -> None:
    limits = ResourceLimits(file_bytes=8192)
    if command[0] == "head":
        command = ["sh", "-c", f"{' '.join(command)} > {tmp_path / 'file'}"]
    else:
        command = [*command, str(tmp_path / "file")]
    code, signal, output = ended(command, RLIMIT_FSIZE=8192)
    assert limit_note(limits, code=code, signal=signal, output=output) == "the file size limit of 8 kB was hit"
    assert (tmp_path / "file").stat().st_size <= 8192
    assert limit_note(ResourceLimits(file_bytes=0), code=code, signal=signal, output=output) is None


def test_process_limit_of_a_real_shell_is_named() -> None:
    code, signal, output = ended(["sh", "-c", "sleep 0 & sleep 0 & wait"], RLIMIT_NPROC=1)
    assert limit_note(LIMITS, code=code, signal=signal, output=output) == "the limit of 4096 processes was hit"


@pytest.mark.parametrize(
    "output",
    [
        "bash: fork: retry: Resource temporarily unavailable",
        "sh: 0: Cannot fork",
        "    if os.fork() == 0:\n       ^^^^^^^^^\nBlockingIOError: [Errno 11] Resource temporarily unavailable",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable: fork",
        "RuntimeError: can't start new thread",
        "Error: spawn /bin/sh EAGAIN",
        "runtime: failed to create new OS thread (have 5 already; errno=11): Resource temporarily unavailable",
    ],
)
def test_process_limit_is_named(output: str) -> None:
    assert limit_note(LIMITS, code=1, signal=None, output=output) == "the limit of 4096 processes was hit"


def test_full_tmp_and_full_layer_are_named() -> None:
    full = "cp: error writing '/tmp/a': No space left on device"
    assert limit_note(LIMITS, code=1, signal=None, output=full) == "the limit of 2 GB for /tmp was hit"
    layer = "cp: error writing 'target/a': No space left on device"
    assert limit_note(LIMITS, code=1, signal=None, output=layer) is None
    note = limit_note(LIMITS, code=1, signal=None, output=layer, looking=True)
    assert note == "the limit of 2 GB for /tmp and the throw-away copy of the project was hit"
    shell = "head: error writing 'standard output': No space left on device"
    assert limit_note(LIMITS, code=1, signal=None, output=shell) is None
    assert limit_note(LIMITS, code=1, signal=None, output=shell, has_room=True) == "the limit of 2 GB for /tmp was hit"


def test_killed_by_the_memory_limit_is_named_even_if_the_command_went_on() -> None:
    note = limit_note(LIMITS, code=0, signal=None, output="", oom_kills=1)
    assert note == "the memory limit of 80% of this machine was hit: a process was killed"
    note = limit_note(LIMITS, code=None, signal="SIGKILL", output="", oom_kills=3)
    assert note == "the memory limit of 80% of this machine was hit: 3 processes were killed"


@pytest.mark.parametrize(
    ("code", "signal", "output"),
    [
        (0, None, "grep: File too large; fork: Resource temporarily unavailable"),
        (1, None, "read: Resource temporarily unavailable"),
        (1, None, "3 tests failed"),
        (None, "SIGKILL", ""),
        (1, None, "File too large" + "x" * 30_000),
    ],
)
def test_other_ends_name_no_limit(code: int | None, signal: str | None, output: str) -> None:
    assert limit_note(LIMITS, code=code, signal=signal, output=output) is None


def test_bound_of_the_whole_machine_is_never_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 6.14 all PID namespaces share the bound."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(groups.__file__).parent)])
    session_init = importlib.import_module("session_init")
    opened: list[str] = []

    def noted(path: str, mode: str) -> io.StringIO:
        opened.append(path)
        return io.StringIO()

    monkeypatch.setattr(session_init, "open", noted, raising=False)
    for release in ("6.13.9-arch1", "5.15.0-91-generic", "unknown"):
        session_init.limit_processes(4096, release)
    session_init.limit_processes(0, "6.18.0")
    assert opened == []
    for release in ("6.14.0", "6.18.44-fc-v553", "7.0"):
        session_init.limit_processes(4096, release)
    assert opened == ["/proc/sys/kernel/pid_max"] * 3


class Machine(msgspec.Struct, frozen=True):
    """A /proc and a control group file system made of plain files; this machine's own groups are never touched."""

    proc: Path
    groups: Path

    def describe(self, groups: str, kind: str, options: str) -> None:
        (self.proc / "self").mkdir(parents=True, exist_ok=True)
        (self.proc / "self" / "cgroup").write_text(groups)
        mount = f"30 20 0:26 / {self.groups} rw,nosuid shared:4 - {kind} {kind} {options}\n"
        (self.proc / "self" / "mountinfo").write_text(f"20 1 8:1 / / rw - ext4 /dev/sda rw\n{mount}")
        (self.proc / "meminfo").write_text("MemTotal:        1000 kB\nMemFree: 1 kB\n")

    def group(self, path: str, controllers: str = "cpu memory pids", shared: str = "cpu memory pids") -> Path:
        folder = self.groups / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text("")
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.subtree_control").write_text(shared)
        return folder


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine of an ordinary user, to whom the service manager gave `app.slice`."""
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(tmp_path).st_uid or 1000)
    made = Machine(tmp_path / "proc", tmp_path / "cgroup")
    made.describe("0::/app.slice/shell.scope\n", "cgroup2", "rw")
    made.group("app.slice")
    made.group("app.slice/shell.scope", shared="")
    monkeypatch.setattr(groups, "_is_delegated", lambda folder: folder.name == "app.slice")  # pyright: ignore
    return made


def test_group_is_made_beside_our_own_with_a_share_of_the_memory(machine: Machine) -> None:
    made = memory_group(LIMITS, "s1", proc=machine.proc)
    assert isinstance(made, MemoryGroup)
    assert made.folder == machine.groups / "app.slice" / "outlast-s1"
    assert made.limit == int(1000 * 1024 * 0.8)
    assert (made.folder / "memory.max").read_text() == f"{made.limit}\n"
    assert made.oom_kills() == 0
    (made.folder / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\n")
    assert made.oom_kills() == 2


def test_process_joins_the_group_before_it_runs(machine: Machine) -> None:
    made = memory_group(LIMITS, "s1", proc=machine.proc)
    assert isinstance(made, MemoryGroup)
    argv = made.start_argv(
        [sys.executable, "-I", "-c", "import os, sys; print(os.getpid(), *sys.argv[1:])", "a b", "$c"]
    )
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    pid, rest = result.stdout.split(None, 1)
    assert (made.folder / "cgroup.procs").read_text() == f"{pid}\n"
    assert rest == "a b $c\n"


def test_closed_group_is_removed_once_the_kernel_lets_it_go(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    made = memory_group(LIMITS, "s1", proc=machine.proc)
    assert isinstance(made, MemoryGroup)
    (made.folder / "memory.max").unlink()
    real, tried = os.rmdir, threading.Event()

    def busy_at_first(path: Path) -> None:
        if not tried.is_set():
            tried.set()
            raise OSError(16, "Device or resource busy")
        real(path)

    monkeypatch.setattr(os, "rmdir", busy_at_first)
    made.close()
    assert tried.is_set()
    assert not made.folder.exists()
    made.close()


@pytest.mark.parametrize(
    ("groups_text", "kind", "options", "reason"),
    [
        ("0::/app.slice/shell.scope\n", "tmpfs", "rw", "the control groups of this machine do not limit memory"),
        ("", "cgroup2", "rw", "the control groups of this machine do not limit memory"),
        ("0::/../other\n", "cgroup2", "rw", "the control groups of this machine do not limit memory"),
        ("0::/system.slice/x\n", "cgroup2", "rw", "no control group with a memory limit is delegated to this user"),
    ],
)
def test_machine_without_a_delegated_group_says_why(
    machine: Machine, groups_text: str, kind: str, options: str, reason: str
) -> None:
    machine.group("system.slice/x")
    machine.describe(groups_text, kind, options)
    assert memory_group(LIMITS, "s1", proc=machine.proc) == reason


def test_group_of_version_1_has_its_own_file_names(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_is_delegated", lambda folder: folder.name == "box")  # pyright: ignore
    machine.describe("4:memory:/box\n0::/\n", "cgroup", "rw,memory")
    machine.group("box")
    made = memory_group(LIMITS, "s1", proc=machine.proc)
    assert isinstance(made, MemoryGroup)
    assert made.folder == machine.groups / "box" / "outlast-s1"
    assert (made.folder / "memory.limit_in_bytes").read_text() == f"{made.limit}\n"
    (made.folder / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
    assert made.oom_kills() == 4


def test_no_limit_means_no_group(machine: Machine) -> None:
    assert memory_group(ResourceLimits(memory_share=0), "s1", proc=machine.proc) == "no memory limit is set"


def test_being_root_is_no_delegation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup.procs").write_text("")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not groups._is_delegated(tmp_path)
    monkeypatch.setattr(groups, "_attribute", lambda _folder, name: b"1" if name == "user.delegate" else b"")  # pyright: ignore
    assert groups._is_delegated(tmp_path)


def test_folder_of_another_user_is_not_delegated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup.procs").write_text("")
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert not groups._is_delegated(tmp_path)
