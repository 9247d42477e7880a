"""Facts about this machine and its processes: the clock of leases, and whether a lease holder is still alive."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import time
from pathlib import Path


def now_us() -> int:
    """Wall clock, microseconds UTC. For display, never for ordering events."""
    return time.time_ns() // 1000


def boot_ms() -> int:
    """A clock that never jumps and keeps running while the machine sleeps; comparable between processes of one boot."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


@functools.cache
def boot_id() -> str:
    """Identifies the current boot of this machine. A lease of another boot has expired."""
    if sys.platform == "darwin":
        words = ["sysctl", "-n", "kern.bootsessionuuid"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@functools.cache
def hostname() -> str:
    return socket.gethostname().replace(" ", "-") or "localhost"


def started(pid: int) -> str | None:
    """The kernel's start time of a process, which tells apart reused pids; None if the process does not exist."""
    try:
        if sys.platform == "darwin":
            words = ["ps", "-o", "lstart=", "-p", str(pid)]
            told = subprocess.run(words, capture_output=True, text=True, check=False)
            return told.stdout.strip().replace(" ", "_") or None
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]


@functools.lru_cache(maxsize=4)
def _holder(pid: int) -> str:
    return f"{hostname()} {boot_id()} {pid} {started(pid)}"


def holder() -> str:
    """The name of this process in a lease: host, boot, pid, start time."""
    return _holder(os.getpid())


def holder_is_gone(text: str) -> bool:
    """Whether a lease's holder is certainly dead: same host, same boot, and the process no longer exists."""
    words = text.split(" ")
    if len(words) != 4 or words[:2] != [hostname(), boot_id()] or not words[2].isdigit():
        return False
    return started(int(words[2])) != words[3]


def holder_pid(text: str) -> str:
    words = text.split(" ")
    return f"process {words[2]} on {words[0]}" if len(words) == 4 else text


def may_write(path: Path) -> bool:
    """Whether this process may write to a file, or create and remove entries in a folder."""
    wanted = os.W_OK | os.X_OK if path.is_dir() else os.W_OK
    return os.access(path, wanted, effective_ids=os.access in os.supports_effective_ids)


def write_refusal(path: Path) -> str:
    """Why this process may not write to an existing file or folder, and what to do about it: one sentence."""
    if not os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"no permission to read and write {path}; check its owner and mode"
    return read_only_text(path)


def read_only_text(path: Path) -> str:
    """The sentence about a path on a read-only file system; it names the mount."""
    mount = path.absolute()
    while not os.path.ismount(mount):
        mount = mount.parent
    return f"{path} is on a file system that is mounted read-only at {mount}; mount it writable or choose another place"
