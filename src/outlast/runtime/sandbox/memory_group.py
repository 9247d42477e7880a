"""A memory limit for all processes of a session's sandbox: a control group, where one was delegated to this user.

Only a delegated place is used: a folder of the control group file system that belongs to this user, or one that its
service manager marked as delegated. Being root is no delegation: other programs' groups are not ours to divide. The
group is made beside our own one or below it, so that our own process never moves.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from outlast.runtime.sandbox.limits import ResourceLimits

PATIENCE = 2.0
"""Seconds to wait until the kernel lets go of a group whose processes have been killed."""
PREFIX = "outlast-"
_JOIN = 'echo $$ > "$0" && exec "$@"'


class MemoryGroup(msgspec.Struct, frozen=True):
    """A control group with a memory limit. `close` must be called once its processes have ended."""

    folder: Path
    limit: int
    is_first_version: bool = False

    @property
    def processes(self) -> Path:
        """The file into which a process is written that joins the group."""
        return self.folder / "cgroup.procs"

    def start_argv(self, argv: Sequence[str]) -> list[str]:
        """Return a command line that starts `argv` inside the group, before it can fork."""
        return ["/bin/sh", "-c", _JOIN, str(self.processes), *argv]

    def oom_kills(self) -> int:
        """Return how many processes the kernel has killed here because the memory limit was hit."""
        try:
            text = (self.folder / ("memory.oom_control" if self.is_first_version else "memory.events")).read_text()
        except FileNotFoundError:
            return 0
        counts = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
        return int(counts.get("oom_kill", 0))

    def close(self) -> None:
        """Remove the group. May be repeated. Raises OSError if a process in it does not end."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                os.rmdir(self.folder)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)


def memory_group(limits: ResourceLimits, name: str, *, proc: Path = Path("/proc")) -> MemoryGroup | str:
    """Create a group for a session's sandbox; return a sentence that says why there is none. `name` begins with the pid
    of this process: groups of processes that were killed are removed by the next one."""
    if not limits.memory_share:
        return "no memory limit is set"
    own = _own_group(proc)
    if isinstance(own, str):
        return own
    mount, group, is_first_version = own
    size = int(_memory(proc) * limits.memory_share)
    reason = "no control group with a memory limit is delegated to this user"
    for place in _places(mount, group, is_first_version):
        folder = place / f"{PREFIX}{name}"
        try:
            _remove_abandoned(place)
            folder.mkdir()
        except OSError as error:
            reason = f"the control group {place} cannot be divided: {error.strerror}"
            continue
        made = MemoryGroup(folder, size, is_first_version)
        try:
            limit = "memory.limit_in_bytes" if is_first_version else "memory.max"
            (folder / limit).write_text(f"{size}\n")
        except OSError as error:
            made.close()
            reason = f"the memory limit cannot be set in {folder}: {error.strerror}"
            continue
        return made
    return reason


def _remove_abandoned(place: Path) -> None:
    """Remove the groups of processes that are gone. The kernel keeps a group that still has a process in it."""
    for folder in place.glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not os.path.exists(f"/proc/{owner}"):
            try:
                os.rmdir(folder)
            except OSError:
                continue  # another process removes it at the same moment, or a process in it is still ending


def _places(mount: Path, group: Path, is_first_version: bool) -> Iterator[Path]:
    """Yield the delegated folders in which a group can be made: the one beside our own group, then the one below it."""
    for place in dict.fromkeys((group.parent, group)):
        if not place.is_relative_to(mount) or not _is_delegated(place):
            continue
        if is_first_version or "memory" in _words(place / "cgroup.subtree_control"):
            yield place


def _is_delegated(folder: Path) -> bool:
    if not os.access(folder, os.W_OK) or not os.access(folder / "cgroup.procs", os.W_OK):
        return False
    if os.geteuid() != 0:
        return folder.stat().st_uid == os.geteuid()
    return any(_attribute(folder, name) == b"1" for name in ("trusted.delegate", "user.delegate"))


def _attribute(folder: Path, name: str) -> bytes:
    try:
        return os.getxattr(folder, name)
    except OSError:
        return b""  # not set, or the file system has none


def _own_group(proc: Path) -> tuple[Path, Path, bool] | str:
    """Return the mount point of the hierarchy that limits memory, our own group in it, and whether it is version 1."""
    try:
        groups = [line.split(":", 2) for line in (proc / "self" / "cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (proc / "self" / "mountinfo").read_text().splitlines()]
    except FileNotFoundError:
        return "this machine has no control groups"
    for _, controllers, path in groups:
        is_first_version = "memory" in controllers.split(",")
        if not is_first_version and controllers:
            continue
        for fields in mounts:
            kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
            wanted = kind == "cgroup" and "memory" in options if is_first_version else kind == "cgroup2"
            place = _below(fields, path) if wanted else None
            if place is not None and (is_first_version or "memory" in _words(place / "cgroup.controllers")):
                return Path(fields[4]), place, is_first_version
    return "the control groups of this machine do not limit memory"


def _below(mount: list[str], path: str) -> Path | None:
    """Return where a group lies in a mount, which may show only a part of the hierarchy."""
    root = Path(mount[3])
    if ".." in Path(path).parts or not Path(path).is_relative_to(root):
        return None
    return Path(mount[4]) / Path(path).relative_to(root)


def _memory(proc: Path) -> int:
    for line in (proc / "meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    raise OSError(errno.ENODATA, "the kernel does not say how much memory this machine has")


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []  # a group that cannot be read cannot be used either
