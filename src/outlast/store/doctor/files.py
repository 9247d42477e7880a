"""Health checks of a files store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from outlast.core.errors import OutlastError
from outlast.store.doctor.check import Check, CheckStatus, fail, ok, unusable, warn
from outlast.store.doctor.machine import disk, private, process_is_stopped
from outlast.store.files import redo_record, setup
from outlast.store.files.lock import NAME as LOCK
from outlast.store.files.lock import held_by
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
        found = setup.check(path)
    except OutlastError as error:
        yield unusable(error, "see the line above, or restore a backup")
        return
    older = ""
    if found.format < setup.FORMAT:
        older = f"; it becomes format {setup.FORMAT} when it is opened for writing"
    yield ok("schema", f"format {found.format}{older}")
    left = redo_record.outstanding(path) if (path / redo_record.FOLDER).is_dir() else []
    if left:
        yield ok(
            "commits", f"{len(left)} were started and not finished; the next process that opens the store finishes them"
        )
    yield _lock(path / LOCK)


def _lock(path: Path) -> Check:
    """Find a stopped process that holds the lock: it blocks all other writers."""
    pid = held_by(path)
    if pid is not None and pid.isdigit() and process_is_stopped(int(pid)):
        text = f"process {pid} is stopped in the middle of a write and holds {path.name}"
        return fail("lock", text, f"kill -CONT {pid}, or end it")
    return ok("lock", "no process is writing" if pid is None else f"writing: process {pid}")
