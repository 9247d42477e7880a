"""A copy of the directory that opens as a store, made while other threads and processes write.

Everything is copied once while commits go on. Then, with the lock held, so that no commit happens meanwhile, only the
files that changed since are copied again, and those that are gone are removed from the copy: the copy is the store as
of that moment.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from outlast.core.ids import is_id
from outlast.store.files import disk, former_name, setup
from outlast.store.files.directory import StoreDirectory
from outlast.store.files.header_cache import Identity, identity
from outlast.store.files.keys import SCOPES
from outlast.store.files.small_files import ROUTES

STORE_FILES = frozenset({setup.NAME, former_name.NAME, ROUTES, ".gitignore"})
LEFT_OUT = (".lock", ".draft.jsonl")
"""Locks belong to processes, and drafts to a reply that is being written."""


def copy_to(folder: StoreDirectory, target: Path, progress: Callable[[int, int], None] | None) -> None:
    """The whole store at `target`, synced before it takes that name."""
    partial = target.with_name(target.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(mode=0o700, parents=True)
        for name in ("blobs", SCOPES):
            (partial / name).mkdir(mode=0o700)
        copied = _copy_all(folder.path, partial, {}, progress)
        with folder.quiet():
            _copy_all(folder.path, partial, copied, None)
        for place in [path for path in partial.rglob("*") if path.is_dir()]:
            disk.sync_folder(place)
        disk.sync_folder(partial)
        os.rename(partial, target)
        disk.sync_folder(target.parent)
    except OSError as error:
        raise disk.translation(error, target) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _copy_all(
    source: Path, target: Path, copied: dict[str, Identity], progress: Callable[[int, int], None] | None
) -> dict[str, Identity]:
    """Copy every file that is not as it was when it was `copied`; the files that there are, as they are now."""
    found: dict[str, Identity] = {}
    names = sorted(_names(source))
    total, done = len({name[:26] for name in names if is_id(name[:26])}), 0
    for name, following in zip(names, [*names[1:], ""], strict=True):
        now = identity(disk.look(source / name))
        if copied.get(name) != now:
            _copy(source / name, target / name)
        found[name] = now
        if progress is not None and is_id(name[:26]) and following[:26] != name[:26]:
            done += 1
            progress(done, total)
    for name in copied.keys() - found.keys():
        disk.unlink(target / name)
    return found


def _names(source: Path) -> Iterator[str]:
    """What belongs into a copy, as paths below `source`."""
    for entry in os.scandir(source):
        session = is_id(entry.name[:26]) and entry.name[26:27] == "."
        if (session or entry.name in STORE_FILES) and not entry.name.endswith(LEFT_OUT):
            yield entry.name
    for name in ("blobs", SCOPES):
        if not (source / name).is_dir():
            continue
        for folder, _, files in os.walk(source / name):
            below = Path(folder).relative_to(source)
            yield from (str(below / file) for file in files if not file.startswith(".") and not file.endswith(LEFT_OUT))


def _copy(source: Path, target: Path) -> None:
    """One file, synced; nothing when it is gone by now."""
    try:
        read = os.open(source, disk.READ)
    except FileNotFoundError:
        return
    disk.unlink(target)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    with open(read, "rb") as old, open(os.open(target, disk.NEW, disk.MODE), "wb") as new:
        shutil.copyfileobj(old, new, 1024 * 1024)
        new.flush()
        disk.sync(new.fileno())
