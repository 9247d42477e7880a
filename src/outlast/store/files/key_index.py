"""Keys of one session's own events, found without reading the events.

A caller's key stands in the line of its event. This index of them is made from the lines; a cache of it lies in
`index/<session>.keys`, in runs of 24-byte records (the beginning of the key's SHA-256, the event's seq), each run with
the range of seqs it covers, the hash of the last event in it and a checksum. Without it the lines are read again.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import Struct as Packer

from outlast.store.files import disk

_run = Packer(">8sQQ8sII")
_record = Packer(">16sQ")
MAGIC = b"hfkeys1\n"


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
