"""Opening a directory as a store, or refusing to."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.core.errors import HoldfastError, SchemaTooNew, StoreUnavailable
from holdfast.store.files import disk, scopes, txn
from holdfast.store.files.place import FILES

FORMAT = 1
NAME = "holdfast-store.json"
FOLDERS = ("blobs", "index", scopes.FOLDER, "snapshots", txn.FOLDER)
HARMLESS = frozenset({".git", ".gitignore", ".gitattributes", ".hg", ".stfolder", ".stignore", ".DS_Store"})
IGNORED = b"*.lock\n*.lease\n*.draft.jsonl\n/index/\n/snapshots/\n/txn/\n/pulse\n"


class Format(Struct):
    """`min_reader` is the oldest format number whose code may use this directory."""

    holdfast: str
    format: int
    min_reader: int


def prepare(path: Path) -> None:
    """Make sure that `path` is our directory; an empty or missing one becomes ours."""
    try:
        _prepare(path)
    except OSError as error:
        raise _refusal(error, path) from error


def _refusal(error: OSError, path: Path) -> HoldfastError:
    if isinstance(error, NotADirectoryError | FileExistsError):
        return StoreUnavailable(f"{path} is a file; a files store is a directory")
    return disk.translation(error, path)


def _prepare(path: Path) -> None:
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            disk.make_folder(folder)
    if not path.is_dir():
        raise FileExistsError(path)
    data = disk.read(path / NAME)
    if data is None:
        _begin(path)
    else:
        _check(path, data)
    for name in FOLDERS:
        disk.make_folder(path / name)
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise StoreUnavailable(f"no permission to read and write {path}; check its owner and mode")


def _begin(path: Path) -> None:
    strangers = any(name not in HARMLESS and not name.startswith(".holdfast-") for name in os.listdir(path))
    if strangers and not (path / NAME).exists():  # or another process has just begun
        raise _no_store(path)
    partial = path / f".holdfast-{secrets.token_hex(8)}"
    disk.create(partial, msgspec.json.encode(Format("files", FORMAT, FORMAT)) + b"\n")
    disk.rename(partial, path / NAME)
    if not (path / ".gitignore").exists():
        disk.create(partial, IGNORED)
        disk.rename(partial, path / ".gitignore")
    disk.sync_folder(path)


def check(path: Path) -> Format:
    """Refuse what is not a store, or one that this Holdfast cannot use; changes nothing."""
    try:
        data = disk.read(path / NAME)
    except OSError as error:
        raise _refusal(error, path) from error
    if data is None:
        raise _no_store(path)
    return _check(path, data)


def _no_store(path: Path) -> StoreUnavailable:
    """What to say of a directory that does not call itself a store."""
    names = sorted(name for name in os.listdir(path) if name not in HARMLESS and not name.startswith(".holdfast-"))
    if any(FILES.fullmatch(name) for name in names):
        # It was one, and its sessions are whole; guessing the format is left to whoever knows which Holdfast wrote it.
        text = msgspec.json.encode(Format("files", FORMAT, FORMAT)).decode()
        return StoreUnavailable(
            f"{path} holds sessions, but its {NAME} is missing; put it back from a backup, or write {text} into it"
        )
    inside = f"{names[0]} is in it" if names else f"{NAME} is not in it"
    return StoreUnavailable(f"{path} is not a Holdfast store and not empty ({inside}); choose another directory")


def _check(path: Path, data: bytes) -> Format:
    try:
        found = msgspec.json.decode(data, type=Format)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreUnavailable(f"{path / NAME} cannot be read ({error}); restore it from a backup") from error
    if found.holdfast != "files":
        raise StoreUnavailable(f"{path} is not a files store of Holdfast; choose another directory")
    if found.min_reader > FORMAT:
        raise SchemaTooNew(
            f"{path} has format {found.format}, this Holdfast knows {FORMAT}: upgrade Holdfast "
            "(pip install -U holdfast) or open it with the version that wrote it"
        )
    return found
