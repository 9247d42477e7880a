"""A copy of the directory that opens as a store, made while others write.

While it is made, commits over several files wait (the store's lock is held shared); appends go on, each waiting only
while its own session is copied. The sessions are listed first and copied then, so a fork's base is in the copy up to
the fork and beyond. Blobs and scoped keys are there before an event names them, so they are copied after the events.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from outlast.store.files import disk, former_name, scoped_keys, setup
from outlast.store.files.directory import StoreDirectory
from outlast.store.files.lock import unfinished
from outlast.store.files.paths import SessionPaths
from outlast.store.files.route_file import NAME as ROUTES
from outlast.store.files.segment_set import count_sealed
from outlast.store.files.session_list import scan

LEFT_OUT = (".lock", ".draft.jsonl")
"""Locks belong to processes, and drafts to a reply that is being written."""


def copy_to(folder: StoreDirectory, target: Path, progress: Callable[[int, int], None] | None) -> None:
    """The whole store at `target`, synced before it takes that name."""
    partial = target.with_name(target.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700, parents=True)
        with folder.standing_still():
            _copy_sessions(folder, partial, progress)
            for name in (setup.NAME, former_name.NAME, ROUTES, ".gitignore"):
                _copy(folder.path / name, partial / name)
            _copy_folder(folder.path / "blobs", partial / "blobs")
            _copy_folder(folder.path / scoped_keys.FOLDER, partial / scoped_keys.FOLDER)
        disk.sync_folder(partial)
        os.rename(partial, target)
        disk.sync_folder(target.parent)
    except OSError as error:
        raise disk.translation(error, target) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _copy_sessions(folder: StoreDirectory, partial: Path, progress: Callable[[int, int], None] | None) -> None:
    files: dict[str, set[str]] = {session_id: set() for session_id in scan(folder)}
    for name in os.listdir(folder.path):
        if name[:26] in files:
            files[name[:26]].add(name)
    for number, (session_id, names) in enumerate(sorted(files.items()), 1):
        _copy_session(folder, session_id, names, partial)
        if progress is not None:
            progress(number, len(files))


def _copy_session(folder: StoreDirectory, session_id: str, names: set[str], partial: Path) -> None:
    """All files of one session while nobody writes to it: those that were seen, and what was sealed since."""
    place = SessionPaths(folder.path, session_id)
    with folder.using(session_id) as session:
        with session.mutex:
            session.open_lock(create=False)
        while True:
            with session.lock.shared() as found:
                left = unfinished(found)
                if left is None:
                    sealed = {place.sealed(number).name for number in range(1, count_sealed(place) + 1)}
                    for name in names | sealed | {place.live.name}:
                        _copy(folder.path / name, partial / name)
                    return
            folder.finish(left, session_id)


def _copy_folder(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    for found in os.scandir(source):
        if found.name.startswith("."):
            continue
        if found.is_dir(follow_symlinks=False):
            _copy_folder(source / found.name, target / found.name)
        else:
            _copy(source / found.name, target / found.name)
    disk.sync_folder(target)


def _copy(source: Path, target: Path) -> None:
    """One file, synced; nothing when it is gone or not to be copied."""
    if source.name.endswith(LEFT_OUT):
        return
    try:
        read = os.open(source, disk.READ)
    except FileNotFoundError:
        return
    with open(read, "rb") as old, open(os.open(target, disk.NEW, disk.MODE), "wb") as new:
        shutil.copyfileobj(old, new, 1024 * 1024)
        new.flush()
        disk.sync(new.fileno())
