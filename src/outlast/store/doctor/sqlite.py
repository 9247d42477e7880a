"""Health checks of a SQLite store. Another process reads the write-ahead log before this one opens the database."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import apsw

from outlast.core.errors import OutlastError
from outlast.store.doctor.check import Check, fail, ok, unusable, warn
from outlast.store.doctor.machine import MIB, disk, private, process_is_stopped
from outlast.store.maintenance.migrations import newest, outstanding
from outlast.store.sqlite import setup
from outlast.store.sqlite.migrate import applied_in
from outlast.store.sqlite.wal import examine_elsewhere

LARGE_WAL = 64 * MIB
SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


def checks(path: Path) -> Iterator[Check]:
    path = path.resolve()
    yield from _version()
    try:
        setup.check_plain(path)
    except OutlastError as error:
        yield unusable(error, "use sqlite:///PATH with the path of a file")
        return
    yield from _places(path)
    yield _wal(path.with_name(path.name + "-wal"))
    yield _gate(path.with_name(path.name + ".gate"))
    try:
        yield from _inside(path)
    except OutlastError as error:
        yield unusable(error, "see above; a backup can be restored by putting it in the store's place")


def _version() -> Iterator[Check]:
    try:
        setup.check_version()
        yield ok("sqlite", f"SQLite {apsw.sqlite_lib_version()}, carried by apsw")
    except OutlastError as error:
        yield fail("sqlite", str(error), "pip install -U apsw")


def _places(path: Path) -> Iterator[Check]:
    yield private("store folder", path.parent)
    for name in (path.name, path.name + "-wal", path.name + "-shm", path.name + ".gate"):
        if (path.parent / name).exists():
            yield private("store file", path.parent / name)
    yield disk(path.parent)
    kind = setup.file_system(path.parent)
    if kind in setup.NETWORK:
        yield fail("file system", f"{kind} is a network file system", "move the store to a local disk or PostgreSQL")
    else:
        yield ok("file system", kind)


def _wal(path: Path) -> Check:
    try:
        wal = examine_elsewhere(path)
    except OutlastError as error:
        return fail("wal", str(error), "check its owner and permissions")
    text = f"{wal.size:,} bytes, {wal.recovered} frames to recover"
    if wal.lost_commits:
        return fail(
            "wal",
            f"{text}; {wal.lost_commits} commits ({wal.beyond} frames) lie after a damaged frame and would be dropped",
            f"stop every Outlast, copy '{path}' and the database aside before anything opens them, restore a backup",
        )
    if wal.beyond:
        return warn(
            "wal", f"{text}; {wal.beyond} whole frames lie beyond the recovered end", f"keep a copy of '{path}'"
        )
    if wal.size > LARGE_WAL:
        return warn("wal", f"{text}; larger than it should get", "end processes that read for hours, then append once")
    return ok("wal", text + (f", {wal.open} of a commit that was not finished" if wal.open else ""))


def _gate(path: Path) -> Check:
    """Find a stopped process that holds the writer lock: it blocks all other writers."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return ok("gate", "no process is writing")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return ok("gate", "no process is writing")
    except BlockingIOError:
        pid = os.pread(descriptor, 16, 0).decode("ascii", "replace").strip()
        if pid.isdigit() and process_is_stopped(int(pid)):
            return fail("gate", f"process {pid} is stopped in the middle of a write", f"kill -CONT {pid}, or end it")
        return ok("gate", f"process {pid or '?'} is writing")
    finally:
        os.close(descriptor)


def _inside(path: Path) -> Iterator[Check]:
    """Check the settings and the schema through a connection."""
    connection = setup.connect(path)
    try:
        setup.identify(connection, path)
        mode = connection.pragma("journal_mode")
        level = SYNCHRONOUS.get(connection.pragma("synchronous"), "?")
        text = f"journal_mode {mode}, synchronous {level}"
        if mode == "wal" and level in ("FULL", "EXTRA"):
            yield ok("sync", text)
        else:
            yield fail("sync", f"{text}: an acknowledged append could be lost", "use a local disk that supports WAL")
        todo = outstanding("sqlite", applied_in(connection, path), str(path))
        if todo:
            yield warn("schema", f"{len(todo)} migrations are outstanding", "outlast db upgrade")
        else:
            yield ok("schema", f"version {newest('sqlite')}")
    finally:
        connection.close()
