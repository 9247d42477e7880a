"""Opening a directory as a store, or refusing to.

Format 1 had a lock for each session, format 2 has one for the directory. Their files are the same otherwise. A store of
format 1 becomes one of format 2 when it is opened for writing: an older Outlast, which would take the old locks,
refuses it from then on. One that has it open at that moment keeps it from being upgraded, where the system can tell.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from pathlib import Path

import msgspec
from msgspec import Struct

from outlast._version import DISTRIBUTION
from outlast.core.errors import OutlastError, SchemaTooNew, StoreUnavailable
from outlast.store.files import disk, former_name, redo_record
from outlast.store.files.keys import SCOPES
from outlast.store.files.lock import LOCK_SECONDS, DirectoryLock
from outlast.store.files.lock import NAME as LOCK
from outlast.store.files.paths import FILES
from outlast.store.process_identity import write_refusal

FORMAT = 2
NAME = "outlast-store.json"
PARTIAL = ".outlast-"
FOLDERS = ("blobs", "index", SCOPES, "snapshots", redo_record.FOLDER)
HARMLESS = frozenset({".git", ".gitignore", ".gitattributes", ".hg", ".stfolder", ".stignore", ".DS_Store"})
IGNORED = b"*.lock\n*.lease\n*.draft.jsonl\n/index/\n/snapshots/\n/txn/\n"
FORMER_COUNTER = "pulse"
"""A file of format 1 that every process which had the store open for writing kept open."""


class StoreFormat(Struct):
    """`min_reader` is the oldest format number whose code may use this directory."""

    outlast: str
    format: int
    min_reader: int


def prepare(path: Path) -> None:
    """Make sure that `path` is our directory; an empty or missing one becomes ours."""
    try:
        _prepare(path)
    except OSError as error:
        raise _refusal(error, path) from error


def _refusal(error: OSError, path: Path) -> OutlastError:
    if isinstance(error, NotADirectoryError | FileExistsError):
        return StoreUnavailable(f"{path} is a file; a files store is a directory")
    return disk.translation(error, path)


def _prepare(path: Path) -> None:
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            disk.make_folder(folder)
    if not path.is_dir():
        raise FileExistsError(path)
    name, data = _marker(path)
    if data is None:
        _begin(path)
    else:
        found = _check(path / name, data)
        if found.format < FORMAT or name != NAME or (path / former_name.NAME).exists():
            _upgrade(path)
    for name in FOLDERS:
        disk.make_folder(path / name)
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise StoreUnavailable(write_refusal(path))


def _marker(path: Path) -> tuple[str, bytes | None]:
    """The file that says whose directory it is, and its bytes. Looked for once more under the name of today, because
    another process may have renamed it meanwhile."""
    for name in (NAME, former_name.NAME, NAME):
        data = disk.read(path / name)
        if data is not None:
            return name, data
    return NAME, None


def _upgrade(path: Path) -> None:
    """Give a store of an older format, or of the project's former name, the marker of today. After a crash in between
    the next opening does the rest; where both markers are left, the newer one counts."""
    lock = DirectoryLock(path / LOCK, LOCK_SECONDS)
    lock.open()
    try:
        lock.enter()
        name, data = _marker(path)
        found = _check(path / name, data or b"")
        if found.format < FORMAT:
            _refuse_while_open(path)
            _write(path, StoreFormat("files", FORMAT, FORMAT))
            disk.sync_folder(path)
            for old in (*path.glob("*.lock"), *(path / SCOPES).glob("*.lock"), path / FORMER_COUNTER):
                if old.name != LOCK:
                    disk.unlink(old)
        disk.unlink(path / former_name.NAME)
        disk.sync_folder(path)
    finally:
        lock.close()  # releases it, too


def _refuse_while_open(path: Path) -> None:
    """Refuse to upgrade under a process of an older Outlast: it takes other locks. Linux tells of a file that others
    have open by refusing a lease on it; elsewhere such a process must be ended first."""
    lease = getattr(fcntl, "F_SETLEASE", None)
    try:
        fd = os.open(path / FORMER_COUNTER, disk.CHANGE)
    except FileNotFoundError:
        return
    try:
        if lease is not None:
            fcntl.fcntl(fd, lease, fcntl.F_WRLCK)
            fcntl.fcntl(fd, lease, fcntl.F_UNLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            raise StoreUnavailable(
                f"{path} is open in a process of an older {DISTRIBUTION}, which locks it in another way; "
                "end that process, then open the store again"
            ) from error
    finally:
        os.close(fd)


def _write(path: Path, content: StoreFormat) -> None:
    partial = path / f"{PARTIAL}{secrets.token_hex(8)}"
    disk.create(partial, msgspec.json.encode(content) + b"\n")
    disk.rename(partial, path / NAME)


def _strangers(path: Path) -> list[str]:
    """What is there and neither ours nor harmless."""
    left = (PARTIAL, former_name.PARTIAL)
    return sorted(name for name in os.listdir(path) if name not in HARMLESS and not name.startswith(left))


def _begin(path: Path) -> None:
    if _strangers(path) and not (path / NAME).exists():  # or another process has just begun
        raise _no_store(path)
    _write(path, StoreFormat("files", FORMAT, FORMAT))
    partial = path / f"{PARTIAL}{secrets.token_hex(8)}"
    if not (path / ".gitignore").exists():
        disk.create(partial, IGNORED)
        disk.rename(partial, path / ".gitignore")
    disk.sync_folder(path)


def check(path: Path) -> StoreFormat:
    """Refuse what is not a store, or one that this Outlast cannot use; changes nothing."""
    try:
        name, data = _marker(path)
    except OSError as error:
        raise _refusal(error, path) from error
    if data is None:
        raise _no_store(path)
    return _check(path / name, data)


def _no_store(path: Path) -> StoreUnavailable:
    """What to say of a directory that does not call itself a store."""
    names = _strangers(path)
    if any(FILES.fullmatch(name) for name in names):
        # It was one, and its sessions are whole; guessing the format is left to whoever knows which Outlast wrote it.
        text = msgspec.json.encode(StoreFormat("files", FORMAT, FORMAT)).decode()
        return StoreUnavailable(
            f"{path} holds sessions, but its {NAME} is missing; put it back from a backup, or write {text} into it"
        )
    inside = f"{names[0]} is in it" if names else f"{NAME} is not in it"
    return StoreUnavailable(f"{path} is not an Outlast store and not empty ({inside}); choose another directory")


def _check(marker: Path, data: bytes) -> StoreFormat:
    path = marker.parent
    try:
        found = _decoded(marker.name, data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreUnavailable(f"{marker} cannot be read ({error}); restore it from a backup") from error
    if found.outlast != "files":
        raise StoreUnavailable(f"{path} is not a files store of Outlast; choose another directory")
    if found.min_reader > FORMAT:
        raise SchemaTooNew(
            f"{path} has format {found.format}, this Outlast knows {FORMAT}: upgrade Outlast "
            f"(pip install -U {DISTRIBUTION}) or open it with the version that wrote it"
        )
    return found


def _decoded(name: str, data: bytes) -> StoreFormat:
    if name != former_name.NAME:
        return msgspec.json.decode(data, type=StoreFormat)
    return StoreFormat(*former_name.marker(data))
