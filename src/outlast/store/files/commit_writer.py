"""How commits reach the disk.

A commit that changes one file is written under the lock and synced after the lock was released (`finish`), so that the
processes which share the store do not wait for each other's disk. Until then no caller has a receipt. If the sync
fails, the write is taken back under the lock, unless another process has written behind it.

A commit that changes several files goes through a record (`redo_record`), all of it under the lock. What must be there
before an event may name it, blobs and scoped keys, is written first; what is only a cache or already void is cleaned
up last.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from outlast.core.errors import OutcomeUnknown, OutlastError, StoreUnavailable
from outlast.core.event_row import GENESIS
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files import disk, redo_record
from outlast.store.files.directory import StoreDirectory
from outlast.store.files.header_fold import CLOSING
from outlast.store.files.keys import key_id, scope_name
from outlast.store.files.line import FORMAT, EventLine, LeaseState, SegmentHead, encode
from outlast.store.files.paths import NOTE
from outlast.store.files.removal import add_removal
from outlast.store.files.rows import CommitGroup
from outlast.store.files.session import NOTE_EVERY, SessionFiles
from outlast.store.files.session_change import SessionChange
from outlast.store.files.small_files import (
    ROUTES,
    DraftFile,
    chunk_line,
    drop_snapshots,
    lease_file,
    lineage_file,
    put_snapshots,
)

ROTATE_AFTER = 64 * 1024 * 1024
STORE = ""
"""Stands for the whole store where sessions are named."""
WRITE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class OutcomeLost(Exception):
    """A write failed, and so did taking it back."""


class UnsyncedWrite(NamedTuple):
    """Bytes that stand in a file and are not synced yet. `fd` is its own, because a reader may find the session
    changed by another process and open its file again. `publish` makes the bytes known."""

    session: SessionFiles
    path: Path
    fd: int
    before: int
    end: int
    fresh: bool
    publish: Callable[[], None]


class CommitWriter:
    """Writes one group: `write` (or `append`) under the lock, then `finish` without it."""

    def __init__(self, folder: StoreDirectory, rotate_after: int) -> None:
        self._folder = folder
        self._rotate_after = rotate_after
        self._unsynced: list[UnsyncedWrite] = []
        self._renamed: list[SessionFiles] = []
        self.failed: dict[str, Exception] = {}
        """Which sessions failed, and how; `STORE` where the whole group did."""

    def write(self, group: CommitGroup) -> None:
        """Carry the group out. A group of several commits changes one file of each session."""
        changes = list(group.changes.values())
        if group.is_alone:
            try:
                self._folder.check_in_place()
                if _effects(group) > 1:
                    self._put_first(group, changes)
                    self._together(group, changes)
                    return
                if group.routes is not None and group.routes.changed:
                    self._replace(self._folder.path / ROUTES, group.routes.data())
                if group.note is not None:
                    self._replace(self._folder.path / NOTE, group.note.encode())
            except (OSError, OutlastError, OutcomeLost) as error:
                self._fail(STORE, group.sessions.values(), error)
                return
        for change in changes:
            try:
                self._put_first(group, [change])
                self._one(change)
            except (OSError, OutlastError, OutcomeLost) as error:
                self._fail(change.row.session_id, [change.session], error)

    def finish(self) -> None:
        """Sync what was written, and make it known; the lock is not held."""
        for unsynced in self._unsynced:
            try:
                self._sync(unsynced)
            except (OSError, OutlastError, OutcomeLost) as error:
                self._fail(unsynced.session.place.session_id, [unsynced.session], error)
        self.close()
        if self._renamed:
            try:
                disk.sync_folder(self._folder.path)
            except OSError as error:
                for session in self._renamed:
                    self._fail(session.place.session_id, [session], OutcomeLost(str(error)))

    def close(self) -> None:
        for unsynced in self._unsynced:
            os.close(unsynced.fd)
        self._unsynced.clear()

    def _fail(self, name: str, sessions: Iterable[SessionFiles], error: Exception) -> None:
        self.failed[name] = error
        for session in sessions:
            with session.mutex:
                session.forget()

    # --- what is written first

    def _put_first(self, group: CommitGroup, changes: list[SessionChange]) -> None:
        if group.is_alone:
            group.sync()  # what this commit stands on must not be lost before it
        for change in changes:
            if change.blobs:
                self._put_blobs(change)
        for scope, entries in group.scoped.items():
            self._folder.scope(scope_name(scope)).add(entries)
            if scope in group.sessions:
                group.sessions[scope].becomes_scope()
        group.scoped.clear()

    def _put_blobs(self, change: SessionChange) -> None:
        place = change.session.place
        disk.make_folder(place.blobs())
        for sha256, data in change.blobs.items():
            path = place.blobs() / sha256
            found = disk.look(path)
            if found is None or found.st_size != len(data):
                partial = place.blobs() / f".{secrets.token_hex(8)}"
                disk.create(partial, data)
                disk.rename(partial, path)
            else:
                os.utime(path)  # it was put again
        disk.sync_folder(place.blobs())

    # --- one file

    def _one(self, change: SessionChange) -> None:
        session = change.session
        if change.created is not None or change.commits:
            self._put_lines(change)
        elif change.chunks:
            self._put_chunks(change)
        elif change.lease:
            n = session.lease_n + 1
            self._replace(session.place.lease, lease_file(change.row, n, session.generation), synced=False)
            self._renamed.append(session)
            with session.mutex:
                session.set_lease(change.row, n)
        put_snapshots(session.place, change.snapshots)

    def _put_lines(self, change: SessionChange) -> None:
        session, row = change.session, change.row
        lines = change.lines()
        n = session.lease_n
        if change.lease:
            n += 1
            lines[-1].lease = LeaseState.of(row, n)
        if change.created is None and self.fits(session):
            self.append(session, row, lines, n)
            return
        texts = [encode(line) for line in lines]
        self._new_segment(change, b"".join(texts))
        self._publish(session, row, lines, texts, session.size, n)

    def fits(self, session: SessionFiles) -> bool:
        """Whether the next lines belong into the live segment that there is."""
        return session.fd >= 0 and session.size < self._rotate_after and not session.hole

    def append(self, session: SessionFiles, row: HeaderRow, lines: list[EventLine], n: int) -> None:
        """Write lines behind the live segment; its header is `row` then, and its lease the `n`th."""
        texts = [encode(line) for line in lines]
        data = texts[0] if len(texts) == 1 else b"".join(texts)
        before, end = session.size, session.size + len(data)
        self._put_bytes(session.fd, data, before)
        if not os.fstat(session.fd).st_nlink:
            raise OutcomeLost("the session's file was removed or replaced while it was written")

        def publish() -> None:
            self._publish(session, row, lines, texts, before, n)

        fd = os.dup(session.fd)
        self._unsynced.append(UnsyncedWrite(session, session.place.live, fd, before, end, False, publish))

    def _put_bytes(self, fd: int, data: bytes, at: int) -> None:
        """Write at the end of a file; if that fails, nothing of it stays."""
        try:
            disk.write_at(fd, data, at)
        except OSError as error:
            _take_back(lambda: (disk.truncate(fd, at), disk.sync(fd)), error)
            raise

    def _sync(self, written: UnsyncedWrite) -> None:
        try:
            disk.sync(written.fd)
            if written.fresh:
                disk.sync_folder(self._folder.path)
        except OSError as error:
            self._withdraw(written, error)
            raise
        written.publish()

    def _withdraw(self, written: UnsyncedWrite, error: OSError) -> None:
        """Take back what could not be synced, if nothing was written behind it."""
        try:
            with self._folder.exclusive():
                found = disk.look(written.path)
                same = found is not None and found.st_ino == os.fstat(written.fd).st_ino
                if found is None or not same or found.st_size != written.end:
                    raise OutcomeLost(str(error)) from error
                _take_back(lambda: (disk.truncate(written.fd, written.before), disk.sync(written.fd)), error)
        except (OutlastError, OSError) as again:
            raise OutcomeLost(f"{error}, and then {again}") from error

    def _new_segment(self, change: SessionChange, data: bytes) -> None:
        """A new live file; the one there was is sealed first. Sealed without a live one is a state like any other."""
        session, place = change.session, change.session.place
        if change.created is None and session.fd >= 0:
            if not session.synced:
                disk.sync(session.fd)
            disk.rename(place.live, place.sealed(session.sealed + 1))
            disk.sync_folder(place.folder)
            with session.mutex:
                os.close(session.fd)
                session.fd, session.size = -1, 0
                session.sealed += 1
        head = encode(head_of(change))
        self._replace(place.live, head + data, new=True)
        with session.mutex:
            try:
                session.fd = os.open(place.live, disk.CHANGE)
            except OSError as error:
                raise OutcomeLost(str(error)) from error
            session.inode, session.size = os.fstat(session.fd).st_ino, len(head)

    def _publish(
        self, session: SessionFiles, row: HeaderRow, lines: list[EventLine], texts: list[bytes], before: int, n: int
    ) -> None:
        """What is written is what is known from now on, unless a reader has found it, and more, in the file."""
        with session.mutex:
            if session.row is None or session.size != before:
                self._folder.heads.keep(row.session_id, row.last_seq, row.head_hash)
                return
            session.row, session.lease_n, session.synced = row, n, True
            session.size += sum(map(len, texts))
            session.line_start = session.size - len(texts[-1])
            session.since_note += len(lines)
            session.remember()
            closed = 0
            for line in lines:
                if line.digest and line.key is not None:
                    session.keys.add([(key_id(line.key, line.scope or None), line.seq)])
                if line.kind in CLOSING:
                    closed = line.seq
            if closed:
                self._drop_draft(session, closed)
            if session.since_note >= NOTE_EVERY:
                self._folder.note([session])

    def _drop_draft(self, session: SessionFiles, closed: int) -> None:
        """The file is void already: nothing is wrong if it stays."""
        session.closed = closed
        session.set_draft(DraftFile([], 0), None)
        with suppress(OSError):
            disk.unlink(session.place.draft)

    def _put_chunks(self, change: SessionChange) -> None:
        session, path = change.session, change.session.place.draft
        draft = session.draft()
        data = b"".join(chunk_line(chunk, after) for chunk, after in change.chunks)
        fresh = disk.look(path) is None
        fd = os.open(path, WRITE, disk.MODE)
        try:
            disk.truncate(fd, draft.size)
            self._put_bytes(fd, data, draft.size)
        except BaseException:
            os.close(fd)
            raise
        end = draft.size + len(data)

        def publish() -> None:
            with session.mutex:
                if session.draft() is draft:
                    session.set_draft(draft.with_chunks([chunk for chunk, _ in change.chunks], end), os.fstat(fd))

        self._unsynced.append(UnsyncedWrite(session, path, fd, draft.size, end, fresh, publish))

    def _replace(self, path: Path, data: bytes, *, new: bool = False, synced: bool = True) -> None:
        """The file gets these contents, or keeps those it has. Unless `synced`, its name is made durable later."""
        partial = self._folder.path / redo_record.FOLDER / secrets.token_hex(16)
        disk.create(partial, data)
        try:
            disk.rename(partial, path)
        except OSError:
            disk.unlink(partial)
            raise
        if not synced:
            return
        try:
            disk.sync_folder(path.parent)
        except OSError as error:
            if not new:
                raise OutcomeLost(str(error)) from error
            _take_back(lambda: (disk.unlink(path), disk.sync_folder(path.parent)), error)
            raise

    # --- several files

    def _together(self, group: CommitGroup, changes: list[SessionChange]) -> None:
        folder = self._folder
        folder.note(change.session for change in changes)  # they are forgotten below, and looked up again soon
        work = redo_record.RedoLog(folder.path)
        try:
            for change in changes:
                self._add(work, change)
            for root_id, members in group.lineages.items():
                work.put(group.sessions[root_id].place.lineage, lineage_file(members))
            if group.routes is not None and group.routes.changed:
                work.put(folder.path / ROUTES, group.routes.data())
            folder.begin(work.redo)
            record = work.record()
        except BaseException as error:
            try:
                work.discard()
            except OSError:
                raise OutcomeLost(str(error)) from error
            folder.finished()
            raise
        self._carry_out(group, record, changes)

    def _carry_out(self, group: CommitGroup, record: redo_record.RedoRecord, changes: list[SessionChange]) -> None:
        folder = self._folder
        try:
            try:
                redo_record.carry_out(folder.path, record, folder.index)
            except OSError:
                redo_record.carry_out(folder.path, record, folder.index)
        except (OSError, StoreUnavailable) as error:
            # It is decided and written down; the next process that takes the lock carries it out.
            raise OutcomeLost(str(error)) from error
        finally:
            group.forget()
        folder.finished()
        for change in changes:
            if change.row.deleted_at is None:
                folder.heads.keep(change.row.session_id, change.row.last_seq, change.row.head_hash)
            put_snapshots(change.session.place, change.snapshots)

    def _add(self, work: redo_record.RedoLog, change: SessionChange) -> None:
        session, place = change.session, change.session.place
        lines = change.lines()
        n = session.lease_n + 1
        rewritten = bool(change.blanks) or change.scrubbed
        if change.lease and lines:
            lines[-1].lease = LeaseState.of(change.row, n)
        data = b"".join(encode(line) for line in lines)
        if change.buried or change.drop_after is not None or rewritten:
            add_removal(work, change, data)
        elif change.created is not None or (lines and session.fd < 0):
            work.put(place.live, encode(head_of(change)) + data)
        elif lines:
            work.add(place.live, session.size, data)
        if change.row.deleted_at is None and (rewritten or (change.lease and not lines)):
            work.put(place.lease, lease_file(change.row, n, session.generation + rewritten))
        if change.chunks and not change.buried:
            draft = session.draft()
            text = b"".join(chunk_line(chunk, after) for chunk, after in change.chunks)
            work.put(place.draft, (disk.read(place.draft) or b"")[: draft.size] + text)
        elif change.chunks_dropped:
            work.remove(place.draft)
        if change.forgotten:
            work.remove(place.gone_keys)
        if change.snapshots_dropped:
            drop_snapshots(work, place)
        if change.keep_blobs is not None and place.blobs().is_dir():
            for name in sorted(os.listdir(place.blobs())):
                if name not in change.keep_blobs:
                    work.remove(place.blobs() / name)


def _effects(group: CommitGroup) -> int:
    """How many files must change together."""
    routes = group.routes is not None and group.routes.changed
    return sum(change.effects() for change in group.changes.values()) + routes + len(group.lineages)


def head_of(change: SessionChange) -> SegmentHead:
    """The first line of the segment that follows what the session has."""
    session, given = change.session, change.created
    if given is not None:
        return SegmentHead(FORMAT, given.session_id, 1, given.base_seq, (given.head_hash or GENESIS).hex(), given)
    row = session.row
    assert row is not None
    return SegmentHead(FORMAT, row.session_id, session.sealed + 1, row.last_seq, row.head_hash.hex())


def _take_back(undo: Callable[[], object], error: OSError) -> None:
    """Undo a failed write. If that fails too, nobody knows what the disk holds."""
    try:
        undo()
    except OSError as again:
        raise OutcomeLost(f"{error}, and then {again}") from error


def unknown(error: Exception, key: str | None) -> OutcomeUnknown:
    return OutcomeUnknown(f"it is not known whether this was stored: {error}", key=key)
