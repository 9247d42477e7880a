"""Lists: every session in the directory with its header, newest activity first.

A list looks at every file's name and time; headers come from memory, from the index, or from the log, whichever is the
first that fits the files as they are.
"""

from __future__ import annotations

import os
import threading
import time
from typing import NamedTuple

from outlast.core.errors import OutlastError
from outlast.core.ids import is_id
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files.directory import StoreDirectory
from outlast.store.files.header_cache import NO_FILE, Identity, identity
from outlast.store.files.paths import FILES, SessionPaths
from outlast.store.files.segment import Segment
from outlast.store.files.small_files import read_gone

LOOK_SECONDS = 5.0
SETTLE_SECONDS = 1.0


class DirectoryFiles(NamedTuple):
    """What lies in the directory of one session."""

    live: Identity
    lease: Identity
    sealed: bool
    gone: bool


NOTHING = DirectoryFiles(NO_FILE, NO_FILE, sealed=False, gone=False)


class SessionListPage(NamedTuple):
    files: DirectoryFiles
    row: HeaderRow | None
    """None where it cannot be read."""
    updated_at: int


class SessionCatalog:
    """Remembers headers with the files they came from. Thread-safe."""

    def __init__(self, folder: StoreDirectory) -> None:
        self._folder = folder
        self._mutex = threading.Lock()
        self._known: dict[str, SessionListPage] = {}
        self._working = threading.Lock()
        self._work: dict[str, SessionListPage] = {}
        self._announced: tuple[bytes, int] | None = None
        self._announced_at = self._looked_at = 0.0

    def listings(self) -> dict[str, SessionListPage]:
        """Every session that was not deleted, also those whose files are gone."""
        with self._mutex:
            self._known = self._folder.steadily(self._look)
            return self._known

    def _look(self) -> dict[str, SessionListPage]:
        there = scan(self._folder)
        for session_id in {*self._folder.heads.sessions(), *self._folder.index.sessions()} - there.keys():
            if self._is_missed(session_id):
                there[session_id] = NOTHING
        known: dict[str, SessionListPage] = {}
        for session_id, files in there.items():
            before = self._known.get(session_id)
            if files.gone:
                continue
            if before is None or before.files != files or before.row is None:
                before = self._load(session_id, files)
            known[session_id] = before
        return known

    def _is_missed(self, session_id: str) -> bool:
        """Whether this process or the index knows a session of which no file is left."""
        return self._folder.heads.knows(session_id) or self._folder.index.get(session_id) is not None

    def with_work(self) -> dict[str, SessionListPage]:
        """Those with work, and those of which that cannot be told. This is asked again and again, so while no process
        announces a commit the directory is looked through only now and then, for files that came by other ways."""
        with self._working:
            now, announced = time.monotonic(), (self._folder.look(), self._folder.commits)
            if announced != self._announced:
                self._announced, self._announced_at = announced, now
            # What is announced is about to be written: it is looked for once more a little later.
            stale = self._looked_at < self._announced_at + SETTLE_SECONDS or now >= self._looked_at + LOOK_SECONDS
            if stale or self._folder.read_only:
                self._work = {name: one for name, one in self.listings().items() if one.row is None or one.row.has_work}
                self._looked_at = now
            return self._work

    def _load(self, session_id: str, files: DirectoryFiles) -> SessionListPage:
        note = self._folder.index.get(session_id)
        if note is not None and (note.live, note.lease) == (files.live, files.lease) and note.live[1] == note.end:
            return SessionListPage(files, note.row, note.row.updated_at)
        # The bytes of a commit of this process may be there before its header. What is known now is then noted as of no
        # files that will ever be seen again, so that the next list loads it again.
        settled = session_id not in self._folder.changing
        try:
            capture = self._folder.capture(session_id, sync=False)
        except (OutlastError, OSError):
            return SessionListPage(files, None, files.live[2] // 1000)
        if capture.segments is not None:
            capture.segments.close()
        row = capture.row
        if row is None or capture.hole is not None:
            return SessionListPage(files, None, row.updated_at if row else 0)
        return SessionListPage(files if settled else NOTHING, row, row.updated_at)


def scan(folder: StoreDirectory) -> dict[str, DirectoryFiles]:
    """Every session that left a file here."""
    found: dict[str, DirectoryFiles] = {}
    with os.scandir(folder.path) as entries:
        for entry in entries:
            match = FILES.fullmatch(entry.name)
            if match is None or match[3] == "lock":
                continue  # locks of sessions are of a time before the directory's
            files = found.get(match[1], NOTHING)
            if match[2]:
                files = files._replace(sealed=True) if match[3] == "jsonl" else files
            elif match[3] == "jsonl":
                files = files._replace(live=_identity(entry))
            elif match[3] == "lease":
                files = files._replace(lease=_identity(entry))
            else:
                files = files._replace(gone=True)
            found[match[1]] = files
    return {name: files for name, files in found.items() if files.gone or files.sealed or files.live != NO_FILE}


def _identity(entry: os.DirEntry[str]) -> Identity:
    try:
        return identity(entry.stat(follow_symlinks=False))
    except FileNotFoundError:
        return NO_FILE


def based_on(folder: StoreDirectory, session_id: str) -> list[str]:
    """The sessions whose history goes on from this one's, deleted ones included; with the lock held, so that none
    is added. First lines tell, and the tombstones of deleted ones."""
    found: list[str] = []
    for name, files in scan(folder).items():
        place = SessionPaths(folder.path, name)
        if files.gone:
            row = read_gone(place)
        else:
            segment = Segment.open(place.sealed(1) if files.sealed else place.live)
            if segment is None:
                continue
            head = segment.head
            segment.close()
            row = head.header if head else None
        if row is not None and row.base_id == session_id and is_id(name):
            found.append(name)
    return sorted(found)
