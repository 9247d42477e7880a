"""Keys whose scope is not a lineage but a name (a chat's route): `keys/<sha256 of the scope>.jsonl`.

An entry is written before its event, and counts only if the event is there and carries the key; so it needs no commit
over two files, and an entry whose event was never written means nothing.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from outlast.core.errors import StoreUnavailable
from outlast.store.files import disk
from outlast.store.files.line import encode, intact
from outlast.store.files.lock import LOCK_SECONDS, Lock
from outlast.store.tx import KeyRow

FOLDER = "keys"


class ScopedKey(Struct):
    key: str
    session: str
    seq: int
    count: int
    digest: str
    scope: str

    def row(self) -> KeyRow:
        return KeyRow(self.session, self.seq, self.count, bytes.fromhex(self.digest))


_entry = msgspec.json.Decoder(ScopedKey)


def lock_name(scope: str) -> str:
    return f"{FOLDER}/{hashlib.sha256(scope.encode('utf-8', 'surrogatepass')).hexdigest()}"


class Scope:
    """The entries of one scope, as far as they were read; used with its lock held."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.jsonl"
        self.lock = Lock(folder / f"{name}.lock", LOCK_SECONDS)
        self.loaded = False
        self._forget()

    def _forget(self) -> None:
        self.loaded = False
        self._size = 0
        self._entries: dict[str, list[ScopedKey]] = {}

    def refresh(self) -> None:
        """Read what others have added. A last line that breaks off was being written when its writer died."""
        found = disk.look(self.path)
        if found is None or found.st_size < self._size:
            self._forget()
        if found is not None and found.st_size > self._size:
            fd = os.open(self.path, disk.READ)
            try:
                data = disk.pread(fd, found.st_size - self._size, self._size)
            finally:
                os.close(fd)
            self._read(data)
        self.loaded = True

    def _read(self, data: bytes) -> None:
        for text in data.split(b"\n")[:-1]:
            if not intact(text):
                raise StoreUnavailable(
                    f"{self.path} is damaged; restore it from a backup, or remove it and forget its keys"
                )
            entry = _entry.decode(text)
            self._entries.setdefault(entry.key, []).insert(0, entry)
            self._size += len(text) + 1

    def find(self, key: str) -> list[ScopedKey]:
        """Newest first."""
        return self._entries.get(key, [])

    def everything(self) -> list[ScopedKey]:
        return [entry for entries in self._entries.values() for entry in entries]

    def add(self, entries: list[ScopedKey]) -> None:
        """Durable on return."""
        fresh = not self._size
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, disk.MODE)
        try:
            if os.fstat(fd).st_size > self._size:
                disk.truncate(fd, self._size)
            os.lseek(fd, self._size, os.SEEK_SET)
            data = b"".join(map(encode, entries))
            disk.write(fd, data)
            disk.sync(fd)
        finally:
            os.close(fd)
        if fresh:
            disk.sync_folder(self.path.parent)
        self._read(data)
