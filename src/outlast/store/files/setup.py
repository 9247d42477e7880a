"""Opening a directory as a store, or refusing to."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec
from msgspec import Struct

from outlast._version import DISTRIBUTION
from outlast.core.errors import OutlastError, SchemaTooNew, StoreUnavailable
from outlast.store.files import disk, former_name, redo_record, scoped_keys
from outlast.store.files.paths import FILES
from outlast.store.process_identity import write_refusal

FORMAT = 1
NAME = "outlast-store.json"
PARTIAL = ".outlast-"
FOLDERS = ("blobs", "index", scoped_keys.FOLDER, "snapshots", redo_record.FOLDER)
HARMLESS = frozenset({".git", ".gitignore", ".gitattributes", ".hg", ".stfolder", ".stignore", ".DS_Store"})
IGNORED = b"*.lock\n*.lease\n*.draft.jsonl\n/index/\n/snapshots/\n/txn/\n/pulse\n"


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
        _adopt(path, name, _check(path / name, data))
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


def _adopt(path: Path, name: str, found: StoreFormat) -> None:
    """A store of before the project was renamed becomes one of today. A crash in between leaves both files: then the
    new one counts, and the next opening removes the other."""
    if name == former_name.NAME:
        _write(path, found)
        disk.sync_folder(path)
    elif not (path / former_name.NAME).exists():
        return
    disk.unlink(path / former_name.NAME)
    disk.sync_folder(path)


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
