"""Keys of callers: those of a session's own events, those whose scope is another name, those of deleted sessions.

A caller's key stands in the line of its event. The index of a session's keys is made from the lines; a cache of it lies
in `index/<session>.keys`, in runs of 24-byte records (the beginning of the key's SHA-256, the event's seq), each run
with the range of seqs it covers, the hash of the last event in it and a checksum. Without it the lines are read again.

Keys whose scope is not a lineage but a name (a chat's route) stand in `keys/<sha256 of the scope>.jsonl` too. An entry
is written before its event, and counts only if the event is there and carries the key; so it needs no commit over two
files, and an entry whose event was never written means nothing.

The keys that were used in a deleted session stay beside its tombstone for 30 days.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import Struct as Packer

import msgspec
from msgspec import Struct

from outlast.core.errors import DamagedSession, StoreUnavailable
from outlast.store.engine.transaction import KeyRow
from outlast.store.files import disk
from outlast.store.files.line import EventLine, encode, intact, whole
from outlast.store.files.paths import SessionPaths
from outlast.store.process_identity import now_us

_run = Packer(">8sQQ8sII")
_record = Packer(">16sQ")
MAGIC = b"hfkeys1\n"
SCOPES = "keys"
KEPT_US = 30 * 24 * 3600 * 1_000_000


def key_id(key: str, scope: str | None = None) -> bytes:
    """No scope: that of the session's lineage."""
    return hashlib.sha256(f"{scope or ''}\0{key}".encode()).digest()[:16]


class KeyIndex:
    """`known` covers the events after `since`; the rest is fetched when first needed."""

    def __init__(self, path: Path, since: int, saved: int = 0) -> None:
        self._path = path
        self._known: dict[bytes, int] = {}
        self._unsaved: list[tuple[bytes, int]] = []
        self._since = since
        self._saved = max(saved, since)

    def add(self, keys: list[tuple[bytes, int]]) -> None:
        self._known.update(keys)
        self._unsaved += keys

    def find(self, key: str, scope: str | None = None) -> int | None:
        """The seq of the event that carries this key, among those that are covered."""
        return self._known.get(key_id(key, scope))

    def covers(self, base_seq: int) -> bool:
        """Whether every event after `base_seq` is covered."""
        return self._since <= base_seq

    def complete(self, base_seq: int, hash_at: Callable[[int], bytes | None], read: Reader) -> None:
        """Make it cover everything after `base_seq`, from the cache as far as that is good."""
        covered, found = self._cached(base_seq, hash_at)
        if covered < self._since:
            found |= read(covered, self._since)
        self._known = found | self._known
        self._since = base_seq
        self._saved = covered
        self._unsaved = [(key, seq) for key, seq in self._known.items() if seq > covered]

    def save(self, upto: int, head_hash: bytes) -> None:
        """Add a run to the cache. Not synced: it is only a cache."""
        if not self._unsaved or upto <= self._saved:
            return
        records = b"".join(_record.pack(*record) for record in self._unsaved)
        header = _run.pack(MAGIC, self._saved, upto, head_hash[:8], len(self._unsaved), zlib.crc32(records))
        fd = os.open(self._path, disk.APPEND | os.O_CREAT, disk.MODE)
        try:
            os.write(fd, header + records)
        finally:
            os.close(fd)
        self._saved, self._unsaved = upto, []

    def _cached(self, base_seq: int, hash_at: Callable[[int], bytes | None]) -> tuple[int, dict[bytes, int]]:
        """How far the cache reaches without a gap, and what it holds."""
        data, at, covered = disk.read(self._path) or b"", 0, base_seq
        found: dict[bytes, int] = {}
        last = b""
        while len(data) - at >= _run.size:
            magic, after, upto, hashed, count, crc = _run.unpack_from(data, at)
            records = data[at + _run.size : at + _run.size + count * _record.size]
            at += _run.size + len(records)
            if magic != MAGIC or zlib.crc32(records) != crc:
                break
            if after <= covered < upto:
                found.update(_record.iter_unpack(records))
                covered, last = upto, hashed
        if covered > base_seq and (hash_at(covered) or b"")[:8] != last:
            with suppress(OSError):
                disk.unlink(self._path)  # made from another log
            return base_seq, {}
        return covered, found


Reader = Callable[[int, int], dict[bytes, int]]
"""The keys of the events with `after < seq <= upto`, from their lines."""


# --- scopes


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


def scope_name(scope: str) -> str:
    return f"{SCOPES}/{hashlib.sha256(scope.encode('utf-8', 'surrogatepass')).hexdigest()}"


class KeyScope:
    """The entries of one scope, as far as they were read; used with the lock held."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.jsonl"
        self._forget()

    def _forget(self) -> None:
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


class TombstoneKey(Struct):
    key: str
    scope: str | None
    seq: int
    count: int
    digest: str


class TombstoneKeys(Struct):
    session: str
    keys: list[TombstoneKey]


_tombstone_keys = msgspec.json.Decoder(TombstoneKeys)


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
    return _tombstone_keys.decode(data).keys


def find_key(place: SessionPaths, deleted_at: int, key: str, scope: str | None) -> KeyRow | None:
    if now_us() - deleted_at > KEPT_US:
        return None
    for found in read_keys(place):
        if found.key == key and found.scope == scope:
            return KeyRow(place.session_id, found.seq, found.count, bytes.fromhex(found.digest))
    return None
