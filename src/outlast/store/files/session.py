"""One session's files as this process knows them: its header, its end, its lease, its keys.

What is known is right as long as no other process has written to the directory (`seen`) and the live file is the one
that is known; otherwise `refresh`, under the lock, looks at what was added. Files that lack an event which this process
has acknowledged were put back to an older state: then `lost` names it, and nothing is written. Everything here is
reached with `mutex` held.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from copy import copy
from typing import NamedTuple

from outlast.core.errors import DamagedSession
from outlast.core.header import HEADER_VERSION
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files import disk
from outlast.store.files.header_cache import NO_FILE, UNKNOWN, CachedHeader, HeaderCache, Identity, identity
from outlast.store.files.header_fold import HeaderFold, UnfoldedTail
from outlast.store.files.keys import KeyIndex, key_id, scope_name
from outlast.store.files.line import EventLine, decode
from outlast.store.files.paths import SessionPaths
from outlast.store.files.rollback_guard import KnownHeads, file_gone
from outlast.store.files.segment import Segment, SegmentSet, count_sealed, pieces
from outlast.store.files.small_files import DraftFile, read_gone, read_lease, read_lineage
from outlast.store.port import Chunk

NOTE_EVERY = 512


class SessionCapture(NamedTuple):
    """A session as of one moment, for a reader. `segments` is the reader's to close. `torn` bytes behind the last
    commit were left by a writer that died."""

    row: HeaderRow | None
    segments: SegmentSet | None = None
    hole: int | None = None
    chunks: Sequence[Chunk] = ()
    torn: int = 0


class SessionFiles:
    def __init__(self, place: SessionPaths, index: HeaderCache, heads: KnownHeads, *, read_only: bool = False) -> None:
        self.place = place
        self.read_only = read_only
        self.mutex = threading.RLock()
        self.seen: bytes | int | None = None
        """As of which mark of the lock this is known (`StoreDirectory._token`); None if it must be looked at."""
        self._index = index
        self._heads = heads
        self._nothing()

    def _nothing(self) -> None:
        self.row: HeaderRow | None = None
        self.sealed = 0
        self.fd = -1
        self.inode = 0
        self.size = 0
        self.torn = 0
        self.unended = False
        self.line_start = 0
        self.generation = 0
        self.closed = 0
        self.lease_n = 0
        self.hole: int | None = None
        self.lost: int | None = None
        self.synced = True
        self.since_note = 0
        self.keys = KeyIndex(self.place.keys(), 0)
        self._draft: DraftFile | None = None
        self._draft_file: Identity = NO_FILE
        self._lease_file: Identity = UNKNOWN
        self._draft_is_checked = False
        self._members: list[str] | None = None
        self._is_scope: bool | None = None

    # --- what is known

    def in_place(self) -> bool:
        """Whether the live file is still the one that is known, and at least as long; a deleted session has none."""
        if self.row is None:
            return False
        if self.row.deleted_at is not None:
            return True
        size = self._size_in_place()
        return size is not None and size >= self.size

    def untouched(self) -> bool:
        """The same, and not longer either: a write that failed has left nothing behind."""
        return self.row is not None and self._size_in_place() == self.size and not self.unended

    def _size_in_place(self) -> int | None:
        if self.fd < 0:
            return None
        try:
            found = os.lstat(self.place.live_name)
        except OSError:
            return None
        return found.st_size if found.st_ino == self.inode else None

    def forget(self) -> None:
        """Believe nothing any more and keep no file open."""
        if self.fd >= 0:
            os.close(self.fd)
        self.seen = None
        self._nothing()

    def close(self) -> None:
        with self.mutex:
            self.forget()

    def captured(self) -> SessionCapture:
        if self.row is None:
            return SessionCapture(None)
        return SessionCapture(self.row, self.segments(), self.hole, self.draft().chunks, self.torn)

    def segments(self) -> SegmentSet:
        """Its log, as far as it is committed."""
        live = None
        if self.fd >= 0 and self.row is not None:
            last = None if self.hole or self.row.deleted_at is not None else self.row.last_seq
            live = Segment(self.place.live, os.dup(self.fd), self.size, last)
        return SegmentSet(self.place, self.sealed, live)

    def make_durable(self, capture: SessionCapture) -> None:
        """Sync what a reader is about to show; another process may have written it and not have synced it yet."""
        row = capture.row
        if row is None or row.deleted_at is not None or capture.segments is None:
            return
        if not self.synced:
            try:
                capture.segments.sync()
            except OSError:
                capture.segments.close()
                raise
        with self.mutex:
            if self.row is row:
                self.synced = True
                self.remember()

    def remember(self) -> None:
        """Keep the last event, which is durable, in mind."""
        row = self.row
        if row is not None and row.deleted_at is None and not self.hole and self.lost is None:
            self._heads.keep(self.place.session_id, row.last_seq, row.head_hash)

    # --- looking again

    def refresh(self, *, exclusive: bool) -> None:
        """Learn what others have done; with the lock held, at least shared. Only with it held for writing is the rest
        that a dead writer left cut off."""
        try:
            self._draft_is_checked = False
            self._members = self._is_scope = None
            if not self._gone():
                self._look(exclusive)
        except BaseException:
            self.forget()
            raise

    def _look(self, exclusive: bool) -> None:
        lease_is = identity(disk.look(self.place.lease))
        if lease_is == self._lease_file and self.untouched():
            return  # as almost always: another process has written to other sessions
        found = disk.look(self.place.live)
        lease = read_lease(self.place) if lease_is != NO_FILE else None
        same = found is not None and self.fd >= 0 and found.st_ino == self.inode and found.st_size >= self.size
        if self.row is None or not same or self.unended or (lease and lease.generation != self.generation):
            self._reload(found, lease.generation if lease else 0, exclusive)
        elif found is not None and found.st_size > self.size:
            if self.lost is None and self._ends_as_known():
                self._go_on(found.st_size, exclusive)
            else:
                self._reload(found, self.generation, exclusive)
        if self.row is not None and lease is not None and lease.lease.n > self.lease_n:
            self.row = copy(self.row)
            self.lease_n = lease.lease.n
            lease.lease.give(self.row)
        self._lease_file = lease_is

    def set_lease(self, row: HeaderRow, n: int) -> None:
        """The lease that this process has just written to its file."""
        self.row, self.lease_n, self._lease_file = row, n, identity(disk.look(self.place.lease))

    def _ends_as_known(self) -> bool:
        """Whether the last line that is known stands where it stood: the file may have been put back in place."""
        if self.hole or self.row is None:
            return False
        line = decode(disk.pread(self.fd, self.size - self.line_start, self.line_start).rstrip(b"\n"))
        return line is not None and line.hash == self.row.head_hash.hex()

    def _gone(self) -> bool:
        row = read_gone(self.place)
        if row is None:
            return False
        self.forget()
        self._heads.drop(self.place.session_id)
        self.row = row
        self.sealed = count_sealed(self.place)
        found = disk.look(self.place.live)
        if found is not None:
            self.fd = os.open(self.place.live, self._mode)
            self.inode, self.size = found.st_ino, found.st_size
        return True

    @property
    def _mode(self) -> int:
        return disk.READ if self.read_only else disk.CHANGE

    def _go_on(self, end: int, exclusive: bool) -> None:
        assert self.row is not None
        fold = HeaderFold(copy(self.row), self.blob, closed=self.closed, lease_n=self.lease_n)
        fold.hole = self.hole
        size, tail = fold.segment(self.fd, self.size, end)
        self._take(fold, size, tail, end, exclusive)

    def _reload(self, found: os.stat_result | None, generation: int, exclusive: bool) -> None:
        self.forget()
        self.generation = generation
        sealed = count_sealed(self.place)
        if found is None and not sealed:
            if self._heads.knows(self.place.session_id) or self._index.get(self.place.session_id) is not None:
                raise file_gone(self.place.session_id)
            return
        fold, first, at = self._beginning(sealed, found is not None)
        size, tail, end = 0, None, 0
        for number in range(first, sealed + 1 + (found is not None)):
            live = number > sealed
            fd = os.open(self.place.live if live else self.place.sealed(number), self._mode if live else disk.READ)
            try:
                at = at or self._entered(fold, fd)
                end = os.fstat(fd).st_size
                size, tail = fold.segment(fd, at, end)
                if tail is not None and not live:
                    fold.hole = fold.hole or fold.row.last_seq + 1  # a sealed file was whole when it was sealed
            except BaseException:
                os.close(fd)
                raise
            if live:
                self.fd, self.inode = fd, os.fstat(fd).st_ino
            else:
                os.close(fd)
            at = 0
        self.sealed = sealed
        self._take(fold, size if found else 0, tail if found else None, end if found else 0, exclusive, anew=True)

    def _beginning(self, sealed: int, live: bool) -> tuple[HeaderFold, int, int]:
        """Where to begin to add up: behind the index's note if it fits, else at the first segment (offset 0).

        The first line is looked at in any case: a session is the same with and without its index.
        """
        row = self._given(sealed)
        note = self._index.get(self.place.session_id)
        if note is not None and note.generation == self.generation and note.number <= sealed + live:
            path = self.place.live if note.number > sealed else self.place.sealed(note.number)
            if self._fits(note, path):
                fold = HeaderFold(note.row, self.blob, closed=note.closed, lease_n=note.lease_n)
                fold.line_start = note.start
                self.keys = KeyIndex(self.place.keys(), note.row.last_seq)
                return fold, note.number, note.end
        self.keys = KeyIndex(self.place.keys(), row.base_seq)
        return HeaderFold(row, self.blob), 1, 0

    def _given(self, sealed: int) -> HeaderRow:
        """The header that the session was created with."""
        first = Segment.open(self.place.live if not sealed else self.place.sealed(1))
        if first is None:
            raise DamagedSession(self.place.session_id, None, "its first segment is missing")
        with closing(first):
            head = first.head
        if head is None or head.header is None or head.session != self.place.session_id:
            raise DamagedSession(self.place.session_id, None, f"the first line of {first.path.name} cannot be read")
        return head.header

    def _fits(self, note: CachedHeader, path: os.PathLike[str]) -> bool:
        """Whether the very line that the note ends with stands where it says."""
        try:
            fd = os.open(path, disk.READ)
        except FileNotFoundError:
            return False
        try:
            text = disk.pread(fd, note.end - note.start, note.start)
        finally:
            os.close(fd)
        line = decode(text[:-1]) if text[-1:] == b"\n" else None
        return line is not None and line.seq == note.row.last_seq and line.hash == note.row.head_hash.hex()

    def _entered(self, fold: HeaderFold, fd: int) -> int:
        """Check a segment's first line against the end of the one before; where its events begin. One that cannot be
        read takes no event away: the events themselves tell whether they follow."""
        segment = Segment(self.place.live, fd, os.fstat(fd).st_size)
        head, row = segment.head, fold.row
        if head and (head.base_seq != row.last_seq or (row.head_hash and head.prev != row.head_hash.hex())):
            fold.hole = fold.hole or row.last_seq + 1
            row.last_seq = head.base_seq
        return segment.body_at

    def _take(
        self, fold: HeaderFold, size: int, tail: UnfoldedTail | None, end: int, exclusive: bool, *, anew: bool = False
    ) -> None:
        if fold.row.last_seq == fold.row.base_seq:
            # A session appears together with its first event, so this is not what a dying writer leaves.
            raise DamagedSession(self.place.session_id, fold.row.base_seq + 1, "its first event is missing")
        if fold.closed != self.closed:
            self._draft = None
        self.row, self.closed, self.lease_n, self.hole = fold.row, fold.closed, fold.lease_n, fold.hole
        self.line_start = fold.line_start or self.line_start
        self.size = size
        self.keys.add(fold.keys)
        self.since_note += fold.lines
        self.synced = self.synced and not fold.lines
        self.torn, self.unended = 0, fold.unended
        if anew:
            self._look_for_known()
        writable = exclusive and self.lost is None
        if tail is not None and not tail.torn:
            self.size = end
        elif tail is not None and writable:
            self._cut(tail, end)
        elif tail is not None:
            self.torn = end - size  # the next writer finds a longer file, looks again, and cuts it off
        if writable and self.unended and tail is None:
            self._end_line()

    def _look_for_known(self) -> None:
        """Set `lost` if an event is missing that this process has acknowledged or shown. Damage is told elsewhere."""
        row = self.row
        if row is None or self.hole:
            return

        def hash_at(seq: int) -> bytes | None:
            if seq == row.last_seq:
                return row.head_hash
            with closing(self.segments()) as segments:
                return segments.hash_at(seq)

        try:
            self.lost = self._heads.missing(self.place.session_id, row.last_seq, hash_at)
        except DamagedSession:
            self.lost = None

    def _end_line(self) -> None:
        """The last line is whole, but for its newline: whatever took that away, the event was written."""
        disk.write_at(self.fd, b"\n", self.size)
        disk.sync(self.fd)
        self.size, self.unended = self.size + 1, False

    def _cut(self, tail: UnfoldedTail, end: int) -> None:
        """Keep what a dead writer left aside, and end the file behind the last whole commit."""
        number = 1
        while os.path.lexists(self.place.torn(number)):
            number += 1
        disk.create(self.place.torn(number), disk.pread(self.fd, end - tail.start, tail.start))
        disk.sync_folder(self.place.folder)
        disk.truncate(self.fd, tail.start)
        disk.sync(self.fd)
        self.unended = False

    def blob(self, sha256: str) -> bytes:
        path = self.place.blob(sha256)
        data = disk.read(path) if path is not None else None
        if data is None:
            raise ValueError(f"blob {sha256} is missing")
        return data

    # --- keys, drafts, notes

    def keyed(self, key: str, scope: str | None = None) -> EventLine | None:
        """The line of the event that carries a caller's key; no scope: that of the lineage."""
        row = self.row
        if row is None or row.deleted_at is not None:
            return None
        if not self.keys.covers(row.base_seq):
            with closing(self.segments()) as segments:
                self.keys.complete(row.base_seq, segments.hash_at, self._read_keys)
        seq = self.keys.find(key, scope)
        return None if seq is None else self.line_at(seq, key, scope)

    def line_at(self, seq: int, key: str, scope: str | None) -> EventLine | None:
        """The line of event `seq`, if it carries this key."""
        with closing(self.segments()) as segments:
            found = segments.lines(seq - 1, seq)
        right = found and found[0].digest and found[0].key == key and (found[0].scope or None) == scope
        return found[0] if right else None

    def _read_keys(self, after: int, upto: int) -> dict[bytes, int]:
        keyed = [line for line in self.keyed_lines() if after < line.seq <= upto and line.key is not None]
        return {key_id(line.key or "", line.scope or None): line.seq for line in keyed}

    def keyed_lines(self) -> Iterator[EventLine]:
        """Every readable line that carries a caller's key."""
        with closing(self.segments()) as segments:
            for number in range(1, len(segments) + 1):
                segment = segments.get(number)
                for piece in pieces(segment.fd, segment.body_at, segment.size):
                    line = decode(piece.text) if b'"digest":' in piece.text else None
                    if line is not None and line.digest and line.key is not None:
                        yield line

    def members(self) -> list[str]:
        """The sessions of the lineage that begins here, this one first."""
        if self._members is None:
            self._members = read_lineage(self.place) or [self.place.session_id]
        return self._members

    def is_scope(self) -> bool:
        """Whether keys of other sessions were given this session's id as their scope."""
        if self._is_scope is None:
            self._is_scope = os.path.lexists(self.place.folder / f"{scope_name(self.place.session_id)}.jsonl")
        return self._is_scope

    def becomes_scope(self) -> None:
        self._is_scope = True

    def draft(self) -> DraftFile:
        if not self._draft_is_checked:
            found = identity(disk.look(self.place.draft))
            if self._draft is None or found != self._draft_file:
                self._draft = DraftFile.load(self.place, self.closed)
            self._draft_file, self._draft_is_checked = found, True
        assert self._draft is not None
        return self._draft

    def set_draft(self, draft: DraftFile, file: os.stat_result | None) -> None:
        """What this process has just written to the draft's file, or removed with it."""
        self._draft, self._draft_file, self._draft_is_checked = draft, identity(file), True

    def note(self, *, settled: bool) -> CachedHeader | None:
        """What the index should remember, if it is worth it, still right, and durable: it must never be ahead.
        Unless `settled`, another process may have changed the lease meanwhile."""
        row = self.row
        if row is None or row.deleted_at is not None or self.hole or self.lost or self.fd < 0 or not self.since_note:
            return None
        if self.unended or self.read_only:
            return None
        if not self.synced:
            disk.sync(self.fd)
            self.synced = True
        self.since_note = 0
        self.keys.save(row.last_seq, row.head_hash)
        live = identity(os.fstat(self.fd))
        lease = identity(disk.look(self.place.lease)) if settled else UNKNOWN
        return CachedHeader(
            self.place.session_id,
            self.sealed + 1,
            self.line_start,
            self.size,
            self.generation,
            self.closed,
            self.lease_n,
            live,
            lease,
            row,
            HEADER_VERSION,
        )
