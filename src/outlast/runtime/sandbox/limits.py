"""Limits on what a sandboxed command may use, and the sentence that names a limit that a command hit.

They are settings of the user, with generous defaults. The supervisor sets those of files and processes, bubblewrap that
of /tmp, `memory_group` that of memory. There is none on address space: many runtimes reserve far more than they use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

TAIL = 20_000
_FILE_TOO_LARGE = re.compile(r"file size limit exceeded|file too large|\bEFBIG\b", re.IGNORECASE)
_NO_PROCESS = re.compile(
    r"(?:fork|clone|spawn|thread|process)[^\n]*(?:resource temporarily unavailable|\bEAGAIN\b)|"
    r"(?:resource temporarily unavailable|\bEAGAIN\b)[^\n]*(?:fork|clone|spawn|thread|process)|"
    r"fork\([^\n]*\n(?:[ ~^]+\n)?BlockingIOError: \[Errno 11\]|can't start new thread|cannot fork|fork failed",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"^.*(?:no space left on device|\bENOSPC\b).*$", re.IGNORECASE | re.MULTILINE)
_SIGXFSZ = 25


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """0 means no limit. `memory_share` is a part of the machine's memory."""

    file_bytes: Annotated[int, Meta(ge=0)] = 10 << 30
    processes: Annotated[int, Meta(ge=0)] = 4096
    memory_share: Annotated[float, Meta(ge=0, le=1)] = 0.8
    tmp_bytes: Annotated[int, Meta(ge=0)] = 2 << 30
    job_seconds: Annotated[int, Meta(ge=0)] = 12 * 3600


def limit_note(
    limits: ResourceLimits,
    *,
    code: int | None,
    signal: str | None,
    output: str,
    looking: bool = False,
    oom_kills: int = 0,
    has_room: bool = False,
) -> str | None:
    """Return a sentence that names the limit that a failed command hit; None if it seems to have hit none.

    `looking`: the command ran on a throw-away layer, which has the limit of /tmp. `oom_kills` is how many processes
    the kernel killed in the session's memory group while the command ran. `has_room`: the disks to which the command
    may write are not full, so only /tmp can be."""
    tail = output[-TAIL:]
    if oom_kills > 0 and limits.memory_share:
        killed = "a process was" if oom_kills == 1 else f"{oom_kills} processes were"
        return f"the memory limit of {limits.memory_share:.0%} of this machine was hit: {killed} killed"
    if not code and signal is None:
        return None
    if limits.file_bytes and (signal == "SIGXFSZ" or code == 128 + _SIGXFSZ or _FILE_TOO_LARGE.search(tail)):
        return f"the file size limit of {_size(limits.file_bytes)} was hit"
    if limits.processes and _NO_PROCESS.search(tail):
        return f"the limit of {limits.processes} processes was hit"
    lines = [found[0] for found in _NO_SPACE.finditer(tail)]
    if not limits.tmp_bytes or not lines:
        return None
    size = _size(limits.tmp_bytes)
    if any(place in line for line in lines for place in ("/tmp", "/dev/shm")):  # noqa: S108
        return f"the limit of {size} for /tmp was hit"
    if looking:
        return f"the limit of {size} for /tmp and the throw-away copy of the project was hit"
    return f"the limit of {size} for /tmp was hit" if has_room else None


def has_room(folders: Sequence[Path]) -> bool:
    """Whether the disk of each folder has space left; False if that cannot be told."""
    try:
        return all(os.statvfs(folder).f_bavail for folder in folders)
    except OSError:
        return False


def _size(count: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count} bytes"
