"""Keys whose scope is not a lineage but a name (a chat's route): `keys/<sha256 of the scope>.jsonl`.

An entry is written before its event, and counts only if the event is there and carries the key; so it needs no commit
over two files, and an entry whose event was never written means nothing.

What is left of a deleted session beside its tombstone: the keys that were used in it, for 30 days.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from outlast.core.errors import DamagedSession, StoreUnavailable
from outlast.store.engine.transaction import KeyRow
from outlast.store.files import disk
from outlast.store.files.line import EventLine, encode, intact, whole
from outlast.store.files.lock import LOCK_SECONDS, SessionLock
from outlast.store.files.paths import SessionPaths
from outlast.store.process_identity import now_us

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


class KeyScope:
    """The entries of one scope, as far as they were read; used with its lock held."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.jsonl"
        self.lock = SessionLock(folder / f"{name}.lock", LOCK_SECONDS)
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


KEPT_US = 30 * 24 * 3600 * 1_000_000


class TombstoneKey(Struct):
    key: str
    scope: str | None
    seq: int
    count: int
    digest: str


class TombstoneKeys(Struct):
    session: str
    keys: list[TombstoneKey]


_keys = msgspec.json.Decoder(TombstoneKeys)


def keys_file(session_id: str, lines: list[EventLine]) -> bytes:
    return encode(TombstoneKeys(session_id, [_gone_key(line) for line in lines]))


def _gone_key(line: EventLine) -> TombstoneKey:
    count = line.count or 1
    return TombstoneKey(line.key or "", line.scope or None, line.seq + count - 1, count, line.digest or "")


def read_keys(place: SessionPaths) -> list[TombstoneKey]:
    data = disk.read(place.gone_keys)
    if data is None:
        return []
    if not whole(data):
        raise DamagedSession(place.session_id, None, f"{place.gone_keys.name} does not match its checksum")
    return _keys.decode(data).keys


def find_key(place: SessionPaths, deleted_at: int, key: str, scope: str | None) -> KeyRow | None:
    if now_us() - deleted_at > KEPT_US:
        return None
    for found in read_keys(place):
        if found.key == key and found.scope == scope:
            return KeyRow(place.session_id, found.seq, found.count, bytes.fromhex(found.digest))
    return None
