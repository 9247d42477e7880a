"""Salvages rows from the pages of a database file, one page at a time, without using b-trees, indexes or the schema.

A truncated file, a damaged root page or a damaged schema hides whole tables from SQL while most of their leaf pages are
still in the file. Salvaged rows may be outdated (from a page that is free now) or damaged: the caller must verify them.
Only rows of our own three tables are recognized, each by its shape.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from outlast.core.ids import is_id
from outlast.store.sqlite import setup
from outlast.store.sqlite.wal import recovered_pages

LEAF, INDEX_LEAF = 0x0D, 0x0A
SIZES = frozenset(2**power for power in range(9, 17))
LENGTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
"""Length in bytes of a value, by serial type 0 to 9."""
MANY = 64 * 1024 * 1024  # far larger than any value we write
DAMAGED = (IndexError, struct.error, ValueError, OverflowError)


class SalvagedRow(NamedTuple):
    rowid: int
    values: tuple[Any, ...]


class PageSalvage:
    """Index of the rows found in one pass over the file, including the committed pages of its WAL."""

    def __init__(self, path: Path) -> None:
        self.sessions: dict[int, set[str]] = {}
        """Session ids by session number."""
        self.headers: dict[str, list[tuple[bytes, int]]] = {}
        """Headers with their checksums by session id; some may be outdated."""
        self._events: dict[int, list[tuple[int, int]]] = {}
        self._blobs: dict[tuple[int, str], list[tuple[int, int]]] = {}
        self._file = apsw.VFSFile(
            setup.VFS_NAME or "", str(path), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0]
        )
        try:
            self._length = self._file.xFileSize()
            head = self._read(0, min(self._length, 100)).ljust(100, b"\0")
            self.signed = int.from_bytes(head[68:72], "big") == setup.APPLICATION_ID
            self._size, self._usable = _sizes(head)
            self._log = recovered_pages(path.with_name(path.name + "-wal"), self._size)
            for number in range(1, max(self._length // self._size, *self._log, 0) + 1):
                self._note(number)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.xClose()

    def events(self, sid: int) -> Iterator[SalvagedRow]:
        """Return the event rows of a session number, in any order and possibly with duplicates."""
        return self._rows(self._events.get(sid, []))

    def found_sessions(self) -> bool:
        """Whether the file holds rows that only Outlast can have written."""
        return bool(self.headers) or not self._events.keys().isdisjoint(self.sessions)

    def numbers(self) -> set[int]:
        """Return the numbers of all sessions that have events."""
        return set(self._events)

    def blob(self, sids: set[int], sha256: str) -> bytes | None:
        """Return the chunks found, in order; the caller checks them against the hash."""
        found: dict[int, bytes] = {}
        for sid in sids:
            for _, values in self._rows(self._blobs.get((sid, sha256), [])):
                if isinstance(values[4], bytes):
                    found[values[2]] = values[4]
        return b"".join(found[chunk] for chunk in sorted(found)) if found else None

    # --- pages

    def _read(self, at: int, size: int) -> bytes:
        """Read bytes. Reading past the end gives zeros, a disk error gives no bytes."""
        try:
            return self._file.xRead(size, at)
        except apsw.IOError:
            return b""

    def _page(self, number: int) -> bytes:
        page = self._log.get(number)
        return page if page is not None else self._read((number - 1) * self._size, self._size)

    def _note(self, number: int) -> None:
        page = self._page(number)
        begin = 100 if number == 1 else 0
        if len(page) < self._size or page[begin] not in (LEAF, INDEX_LEAF):
            return
        sort = self._sort if page[begin] == LEAF else self._sort_index
        cells = int.from_bytes(page[begin + 3 : begin + 5], "big")
        for place in range(begin + 8, min(begin + 8 + 2 * cells, self._size - 1), 2):
            offset = int.from_bytes(page[place : place + 2], "big")
            try:
                sort(number, page, offset)
            except DAMAGED:
                continue

    def _sort(self, number: int, page: bytes, offset: int) -> None:
        """Record the cell under the table whose row it may be."""
        _, at = _varint(page, offset)
        rowid, at = _varint(page, at)
        types = _types(page, at)
        if len(types) >= 12 and types[0] == 0 and types[10] == 76:  # 32 bytes: the hash
            self._events.setdefault(rowid >> 32, []).append((number, offset))
        elif len(types) == 10 and types[0] == 0 and types[1] == 65:  # 26 characters: the id
            self._session(self._row(number, page, offset))
        elif len(types) == 5 and types[1] == 141:  # 64 characters: the name
            row = self._row(number, page, offset)
            self._blobs.setdefault((row.values[0], row.values[1]), []).append((number, offset))

    def _sort_index(self, number: int, page: bytes, offset: int) -> None:
        """Take session ids and numbers from the index behind the session list."""
        size, at = _varint(page, offset)
        types = _types(page, at)
        if len(types) == 6 and types[2] == 65:
            values = _values(page[at : at + size])  # short payloads never overflow their page
            if isinstance(values[5], int) and is_id(values[2]):
                self.sessions.setdefault(values[5], set()).add(values[2])

    def _session(self, row: SalvagedRow) -> None:
        name, header, crc = row.values[1], row.values[8], row.values[9]
        if isinstance(name, str) and is_id(name):
            self.sessions.setdefault(row.rowid, set()).add(name)
            if isinstance(header, bytes) and isinstance(crc, int):
                self.headers.setdefault(name, []).append((header, crc))

    # --- cells

    def _rows(self, places: list[tuple[int, int]]) -> Iterator[SalvagedRow]:
        for number, offset in places:
            try:
                yield self._row(number, self._page(number), offset)
            except DAMAGED:
                continue

    def _row(self, number: int, page: bytes, offset: int) -> SalvagedRow:
        size, at = _varint(page, offset)
        rowid, at = _varint(page, at)
        return SalvagedRow(rowid, _values(self._payload(page, at, size)))

    def _payload(self, page: bytes, at: int, size: int) -> bytes:
        """Return all bytes of a table row, including its overflow pages."""
        if size > MANY:
            raise ValueError("too large")
        if size <= self._usable - 35:
            return page[at : at + size]
        least = (self._usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (self._usable - 4)
        local = least if local > self._usable - 35 else local
        parts, missing = [page[at : at + local]], size - local
        following = int.from_bytes(page[at + local : at + local + 4], "big")
        while missing > 0:
            more = self._page(following) if following else b""
            if len(more) < self._size:
                raise ValueError("a page is missing")
            following = int.from_bytes(more[:4], "big")
            parts.append(more[4 : min(4 + missing, self._usable)])
            missing -= len(parts[-1])
        return b"".join(parts)


def _sizes(head: bytes) -> tuple[int, int]:
    """Return the page size and its usable part; our own page size if the header holds no valid one."""
    size = int.from_bytes(head[16:18], "big")
    size = 65_536 if size == 1 else size
    size = size if size in SIZES else setup.PAGE_SIZE
    return size, size - (head[20] if head[20] < 32 else 0)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for number in range(8):
        byte = data[at + number]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + number + 1
    return _signed(value << 8 | data[at + 8]), at + 9


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _types(payload: bytes, at: int = 0) -> list[int]:
    size, place = _varint(payload, at)
    if size > 200:
        raise ValueError("no row of ours has so many columns")
    found: list[int] = []
    while place < at + size:
        serial, place = _varint(payload, place)
        found.append(serial)
    return found


def _values(payload: bytes) -> tuple[Any, ...]:
    at, _ = _varint(payload, 0)
    found: list[Any] = []
    for serial in _types(payload):
        length = (serial - 12) // 2 if serial >= 12 else LENGTHS[serial]
        if not 0 <= length <= len(payload) - at:
            raise ValueError("a value is longer than its row")
        found.append(_value(serial, payload[at : at + length]))
        at += length
    return tuple(found)


def _value(serial: int, data: bytes) -> Any:
    if serial >= 12:
        return data if serial % 2 == 0 else data.decode("utf-8", "surrogateescape")
    if serial == 0:
        return None
    if serial == 7:
        return struct.unpack(">d", data)[0]
    return serial - 8 if serial > 7 else int.from_bytes(data, "big", signed=True)
