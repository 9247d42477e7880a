"""Health checks of the machine: versions, file permissions, disk space, stopped processes."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from outlast.store.doctor.check import Check, fail, ok, warn
from outlast.store.process_identity import hostname

MIB = 1024 * 1024
LEAST_FREE, LITTLE_FREE = 100 * MIB, 1024 * MIB
PARTS = ("msgspec", "apsw", "zstandard", "psycopg")


def versions() -> Iterator[Check]:
    yield ok("python", f"{platform.python_version()} on {platform.system()} {platform.machine()} ({hostname()})")
    for name in PARTS:
        try:
            yield ok(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            if name != "psycopg":  # only the PostgreSQL store needs it
                yield fail(name, "not installed", f"pip install {name}")


def private(name: str, path: Path) -> Check:
    """Check that no other user can read or write a path with transcripts."""
    try:
        found = path.stat()
    except OSError as error:
        return fail(name, f"{path} cannot be checked ({error.strerror})", "check its owner and permissions")
    mode, want = found.st_mode & 0o777, "700" if path.is_dir() else "600"
    remedy = f"chmod {want} '{path}'"
    if found.st_uid != os.geteuid():
        return fail(name, f"{path} belongs to user {found.st_uid}, not to you", f"chown {os.geteuid()} '{path}'")
    if mode & 0o022:
        return fail(name, f"{path} can be written by others (mode {mode:03o})", remedy)
    if mode & 0o077:
        return warn(name, f"{path} can be read by others (mode {mode:03o})", remedy)
    return ok(name, f"{path} is private to you (mode {mode:03o})")


def disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    text = f"{free // MIB:,} MiB free on the disk of {folder}"
    if free < LEAST_FREE:
        return fail("disk", text, "free some space: appends are refused when the disk is full")
    return warn("disk", text, "free some space soon") if free < LITTLE_FREE else ok("disk", text)


def process_is_stopped(pid: int) -> bool:
    """Whether a process exists but is stopped (a debugger, Ctrl-Z, SIGSTOP). Always False on macOS."""
    if sys.platform == "darwin":
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] in "Tt"
