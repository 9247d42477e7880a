"""A commit over several files: written down first, then carried out, by its process or by the next one.

`txn/<id>.json` lists every operation. New contents of whole files stand ready beside it. Once the record is synced the
commit is made; each operation can be carried out again without harm, so a process that dies leaves work, not damage.
The lock carries the record's id until it is done, and the next process that takes the lock does it first; so at most
one record is open at a time.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec
from msgspec import Struct

from outlast.core.errors import StoreUnavailable
from outlast.store.files import disk
from outlast.store.files.header_cache import HeaderCache
from outlast.store.files.line import encode, whole

FOLDER = "txn"


class PutFile(Struct, tag="put", tag_field="op"):
    """The file gets the contents that stand ready in `txn/<source>`."""

    file: str
    source: str


class AddLines(Struct, tag="add", tag_field="op"):
    """The file, which has `at` bytes, gets these lines."""

    file: str
    at: int
    text: str


class RemoveFile(Struct, tag="remove", tag_field="op"):
    file: str


class ForgetKeys(Struct, tag="forget", tag_field="op"):
    """The index may not keep anything of these sessions."""

    sessions: list[str]


Op = PutFile | AddLines | RemoveFile | ForgetKeys


class RedoRecord(Struct):
    redo: str
    ops: list[Op]


_record = msgspec.json.Decoder(RedoRecord)


class RedoLog:
    """Being put together. Nothing has happened before `record`."""

    def __init__(self, folder: Path) -> None:
        self.redo = secrets.token_hex(16)
        self.ops: list[Op] = []
        self._folder = folder
        self._ready: list[Path] = []

    def put(self, path: Path, data: bytes) -> None:
        source = f"{self.redo}.{len(self._ready)}"
        ready = self._folder / FOLDER / source
        self._ready.append(ready)
        disk.create(ready, data)
        self.ops.append(PutFile(self._name(path), source))

    def add(self, path: Path, at: int, data: bytes) -> None:
        self.ops.append(AddLines(self._name(path), at, data.decode("utf-8")))

    def remove(self, path: Path) -> None:
        self.ops.append(RemoveFile(self._name(path)))

    def forget(self, session_id: str) -> None:
        self.ops.append(ForgetKeys([session_id]))

    def record(self) -> RedoRecord:
        """Make the commit: on return it is decided, and durable."""
        record = RedoRecord(self.redo, self.ops)
        partial = self._folder / FOLDER / f"{self.redo}.partial"
        self._ready.append(partial)
        disk.create(partial, encode(record))
        disk.rename(partial, _path(self._folder, self.redo))
        disk.sync_folder(self._folder / FOLDER)
        return record

    def discard(self) -> None:
        """Withdraw, for certain: returns only when no record can come back."""
        disk.unlink(_path(self._folder, self.redo))
        for ready in self._ready:
            disk.unlink(ready)
        disk.sync_folder(self._folder / FOLDER)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()


def _path(folder: Path, redo: str) -> Path:
    return folder / FOLDER / f"{redo}.json"


def load(folder: Path, redo: str) -> RedoRecord | None:
    """None when there is no such record: it was carried out, or never made."""
    data = disk.read(_path(folder, redo))
    if data is None:
        return None
    if not whole(data):
        raise StoreUnavailable(
            f"{_path(folder, redo)} is damaged, and with it an unfinished commit; "
            "`outlast verify` tells what is missing, then remove that file"
        )
    return _record.decode(data)


def outstanding(folder: Path) -> list[str]:
    return sorted(name[:-5] for name in os.listdir(folder / FOLDER) if name.endswith(".json"))


def carry_out(folder: Path, record: RedoRecord, index: HeaderCache) -> None:
    """Do all of it, again if need be, and strike it off."""
    folders = {folder}
    for op in record.ops:
        match op:
            case PutFile():
                _put(folder, op)
                folders.add((folder / op.file).parent)
            case AddLines():
                _add(folder, op)
            case RemoveFile():
                disk.unlink(folder / op.file)
            case ForgetKeys():
                index.forget(set(op.sessions))
    for touched in folders:
        disk.sync_folder(touched)
    disk.unlink(_path(folder, record.redo))
    # Struck off durably before anybody goes on: carried out once more later, it would undo what came after.
    disk.sync_folder(folder / FOLDER)


def _put(folder: Path, op: PutFile) -> None:
    try:
        disk.rename(folder / FOLDER / op.source, folder / op.file)
    except FileNotFoundError:
        if not os.path.lexists(folder / op.file):
            raise


def _add(folder: Path, op: AddLines) -> None:
    fd = os.open(folder / op.file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, disk.MODE)
    try:
        size, data = os.fstat(fd).st_size, op.text.encode("utf-8")
        if size < op.at:
            raise StoreUnavailable(f"{folder / op.file} is shorter than an unfinished commit knows it; restore it")
        disk.write_at(fd, data, op.at)
        disk.sync(fd)
    finally:
        os.close(fd)
