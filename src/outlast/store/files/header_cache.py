"""The index: a cache of headers, so that nobody has to read whole logs to make a list or to go on writing.

`index/headers.jsonl`, one line for each time a session was noted, the last one counts. A note tells how far it reaches
(segment, bytes, the hash of the last event) and is believed only if exactly that line stands there; for lists it is
enough that the files were not touched since. Delete or garble it, and the same answers come back more slowly. Commits
never rewrite it; they add a note every few hundred events.
"""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path

import msgspec
from msgspec import Struct

from outlast.core.header import HEADER_VERSION
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files import disk
from outlast.store.files.line import encode, intact

Identity = tuple[int, int, int]
"""Inode, size and time of change of a file: when none of them changed, nobody touched it."""

NO_FILE: Identity = (0, 0, 0)
UNKNOWN: Identity = (-1, -1, -1)
"""Equals that of no file."""
PREFIX = len('{"session":"')
SLACK = 512


class CachedHeader(Struct):
    """A header and how far it reaches: the last line it holds stands at `start` to `end` of segment `number`. One that
    was added up by other rules (`version`) is not believed."""

    session: str
    number: int
    start: int
    end: int
    generation: int
    closed: int
    lease_n: int
    live: Identity
    lease: Identity
    row: HeaderRow
    version: int = 0


_note = msgspec.json.Decoder(CachedHeader)


def identity(found: os.stat_result | None) -> Identity:
    return NO_FILE if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)


class HeaderCache:
    """Thread-safe. Nothing here raises because of what stands in the file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "index"
        self._path = self._folder / "headers.jsonl"
        self._mutex = threading.Lock()
        self._notes: dict[str, bytes] | None = None
        self._lines = 0

    def get(self, session_id: str) -> CachedHeader | None:
        with self._mutex:
            text = self._loaded().get(session_id)
        if text is None or not intact(text):
            return None
        try:
            note = _note.decode(text)
        except msgspec.DecodeError:
            return None
        if note.version != HEADER_VERSION:
            return None
        return note if note.session == session_id == note.row.session_id else None

    def sessions(self) -> list[str]:
        """Every session that there may be a note of."""
        with self._mutex:
            return sorted(self._loaded())

    def put(self, notes: list[CachedHeader]) -> None:
        """Add notes. A disk that cannot take them loses nothing."""
        with self._mutex:
            known = self._loaded()
            texts = [(note.session, encode(note)) for note in notes]
            known.update((session_id, text[:-1]) for session_id, text in texts)
            self._lines += len(texts)
            try:
                self._add(b"".join(text for _, text in texts))
                if self._lines > 2 * len(known) + SLACK:
                    self._rewrite(set())
            except OSError:
                return

    def forget(self, session_ids: set[str]) -> None:
        """Leave nothing in the file about sessions whose words were taken away."""
        with self._mutex:
            self._rewrite(session_ids)

    def drop(self) -> None:
        """Start again with nothing."""
        with self._mutex:
            disk.unlink(self._path)
            self._notes, self._lines = {}, 0

    def _loaded(self) -> dict[str, bytes]:
        if self._notes is None:
            self._notes = self._read()
        return self._notes

    def _read(self) -> dict[str, bytes]:
        try:
            texts = (disk.read(self._path) or b"").split(b"\n")[:-1]
        except OSError:
            texts = []
        self._lines = len(texts)
        return {text[PREFIX : PREFIX + 26].decode("ascii", "replace"): text for text in texts}

    def _add(self, data: bytes) -> None:
        fd = os.open(self._path, disk.APPEND | os.O_CREAT, disk.MODE)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)

    def _rewrite(self, without: set[str]) -> None:
        """What stands in the file now, not what we remember: others may have had something forgotten."""
        known = {session_id: text for session_id, text in self._read().items() if session_id not in without}
        partial = self._folder / f"headers.{secrets.token_hex(8)}"
        fd = os.open(partial, disk.NEW, disk.MODE)
        try:
            os.write(fd, b"".join(text + b"\n" for text in known.values()))
        finally:
            os.close(fd)
        os.replace(partial, self._path)
        self._notes, self._lines = known, len(known)
