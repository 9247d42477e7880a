"""Health checks of a files store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from outlast.core.errors import OutlastError
from outlast.store.doctor.check import Check, CheckStatus, fail, ok, unusable, warn
from outlast.store.doctor.machine import disk, private, process_is_stopped
from outlast.store.files import redo_record, setup
from outlast.store.files.lock import held_by
from outlast.store.files.scoped_keys import FOLDER as SCOPES
from outlast.store.sqlite.setup import NETWORK, file_system


def checks(path: Path) -> Iterator[Check]:
    path = path.resolve()
    yield private("store folder", path)
    yield from _files(path)
    yield disk(path)
    kind = file_system(path)
    if kind in NETWORK:
        remedy = "use it from one machine only, or move the store to a local disk or PostgreSQL"
        yield warn("file system", f"{kind} is a network file system, whose locks may not reach other machines", remedy)
    else:
        yield ok("file system", kind)
    yield ok("sync", "every commit is synced (fdatasync) before it is acknowledged")
    yield from _inside(path)


def _files(path: Path) -> Iterator[Check]:
    """One line for all files, or up to ten lines for files with problems."""
    found = [private("store file", file) for file in sorted(path.rglob("*")) if file.is_file()]
    wrong = [check for check in found if check.status is not CheckStatus.OK]
    yield from wrong[:10]
    if not wrong:
        yield ok("store files", f"{len(found)} files, all private to you")


def _inside(path: Path) -> Iterator[Check]:
    try:
        setup.check(path)
    except OutlastError as error:
        yield unusable(error, "see the line above, or restore a backup")
        return
    yield ok("schema", f"format {setup.FORMAT}")
    left = redo_record.outstanding(path) if (path / redo_record.FOLDER).is_dir() else []
    if left:
        yield ok(
            "commits", f"{len(left)} were started and not finished; the next process that opens the store finishes them"
        )
    yield from _locks(path)


def _locks(path: Path) -> Iterator[Check]:
    """Find stopped processes that hold locks: they block all writers that need the same lock."""
    writers: set[str] = set()
    stopped: dict[str, list[str]] = {}
    for lock in sorted((*path.glob("*.lock"), *(path / SCOPES).glob("*.lock"))):
        pid = held_by(lock)
        if pid is not None:
            writers.add(pid)
            if pid.isdigit() and process_is_stopped(int(pid)):
                stopped.setdefault(pid, []).append(lock.name)
    for pid, names in stopped.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        text = f"process {pid} is stopped in the middle of a write and holds {names[0]}{more}"
        yield fail("lock", text, f"kill -CONT {pid}, or end it")
    if not stopped:
        yield ok("lock", f"writing: process {', '.join(sorted(writers))}" if writers else "no process is writing")
