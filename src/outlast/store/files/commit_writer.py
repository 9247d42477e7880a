"""How changes reach the disk.

A change of one file is one write and one sync (or a new file that takes its name), and can be taken back if it fails. A
change of several files goes through a record (`txn`). What must be there before an event may name it, blobs and scoped
keys, is written first; what is only a cache or already void is cleaned up last.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from outlast.core.errors import OutcomeUnknown, OutlastError, StoreUnavailable
from outlast.core.event_row import GENESIS
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files import disk, redo_record
from outlast.store.files.directory import STORE, StoreDirectory
from outlast.store.files.draft_file import DraftFile, chunk_line
from outlast.store.files.header_fold import CLOSING
from outlast.store.files.key_index import key_id
from outlast.store.files.line import FORMAT, EventLine, LeaseState, SegmentHead, encode
from outlast.store.files.lock_set import MoreLocksNeeded
from outlast.store.files.paths import NOTE
from outlast.store.files.removal import add_removal
from outlast.store.files.route_file import NAME as ROUTES
from outlast.store.files.rows import CommitGroup
from outlast.store.files.scoped_keys import lock_name
from outlast.store.files.session import NOTE_EVERY, SessionFiles, lease_file, lineage_file
from outlast.store.files.session_change import SessionChange
from outlast.store.files.snapshots import drop_snapshots, put_snapshots

ROTATE_AFTER = 64 * 1024 * 1024


class OutcomeLost(Exception):
    """A write failed, and so did taking it back."""


def effects(group: CommitGroup) -> int:
    """How many files must change together."""
    routes = group.routes is not None and group.routes.changed
    return sum(change.effects() for change in group.changes.values()) + routes + len(group.lineages)


class CommitWriter:
    def __init__(self, folder: StoreDirectory, rotate_after: int) -> None:
        self._folder = folder
        self._rotate_after = rotate_after

    def each(self, group: CommitGroup) -> dict[str, Exception]:
        """Every session by itself; which of them failed, and how."""
        failed: dict[str, Exception] = {}
        for session_id, change in group.changes.items():
            try:
                self._before(group, [change])
                self._one(change)
            except (OSError, OutlastError, OutcomeLost) as error:
                self._forget(change)
                failed[session_id] = error
        return failed

    def all(self, group: CommitGroup) -> None:
        """Everything or nothing."""
        changes = list(group.changes.values())
        several = effects(group) > 1
        if several and STORE not in group.held.names:
            raise MoreLocksNeeded(STORE)
        self._before(group, changes)
        if several:
            self._together(group, changes)
            return
        if group.routes is not None and group.routes.changed:
            self._replace(self._folder.path / ROUTES, group.routes.data())
        if group.note is not None:
            self._replace(self._folder.path / NOTE, group.note.encode())
        for change in changes:
            self._one(change)

    def _before(self, group: CommitGroup, changes: list[SessionChange]) -> None:
        for change in changes:
            if change.blobs:
                self._put_blobs(change)
        for scope, entries in group.scoped.items():
            group.held.scopes[lock_name(scope)].add(entries)
            if scope in group.held.sessions:
                group.held.sessions[scope].becomes_scope()
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
            self._replace(session.place.lease, lease_file(change.row, n, session.generation))
            with session.mutex:
                session.row, session.lease_n = change.row, n
        put_snapshots(session.place, change.snapshots)

    def _put_lines(self, change: SessionChange) -> None:
        session = change.session
        lines = change.lines()
        n = session.lease_n
        if change.lease:
            n += 1
            lines[-1].lease = LeaseState.of(change.row, n)
        texts = [encode(line) for line in lines]
        if change.created is None and self.fits(session):
            self.append(session, change.row, lines, texts)
        else:
            self._new_segment(change, b"".join(texts))
            self._publish(session, change.row, lines, texts)
        session.lease_n = n

    def fits(self, session: SessionFiles) -> bool:
        """Whether the next lines belong into the live segment that there is."""
        return session.fd >= 0 and session.size < self._rotate_after and not session.hole

    def append(self, session: SessionFiles, row: HeaderRow, lines: list[EventLine], texts: list[bytes]) -> None:
        """Durable on return; if it raises anything but `Unknown`, it was not written."""
        data = texts[0] if len(texts) == 1 else b"".join(texts)
        try:
            disk.write_at(session.fd, data, session.size)
            disk.sync(session.fd)
        except OSError as error:
            _take_back(lambda: (disk.truncate(session.fd, session.size), disk.sync(session.fd)), error)
            raise
        self._publish(session, row, lines, texts)

    def _new_segment(self, change: SessionChange, data: bytes) -> None:
        """A new live file; the one there was is sealed first. Sealed without a live one is a state like any other."""
        session, place = change.session, change.session.place
        if change.created is None and session.fd >= 0:
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

    def _publish(self, session: SessionFiles, row: HeaderRow, lines: list[EventLine], texts: list[bytes]) -> None:
        """What is written is what is known from now on."""
        with session.mutex:
            session.row = row
            session.size += sum(map(len, texts))
            session.line_start = session.size - len(texts[-1])
            session.loaded = session.synced = True
            session.since_note += len(lines)
            closed = 0
            for line in lines:
                if line.digest and line.key is not None:
                    session.keys.add([(key_id(line.key, line.scope or None), line.seq)])
                if line.kind in CLOSING:
                    closed = line.seq
            if closed or session.since_note >= NOTE_EVERY:
                self._tidy(session, closed)

    def _tidy(self, session: SessionFiles, closed: int) -> None:
        """Nobody minds if this is never done: the commit is made."""
        with suppress(OSError):
            if closed:
                session.closed = closed
                session.set_draft(DraftFile([], 0))
                disk.unlink(session.place.draft)
            if session.since_note >= NOTE_EVERY and (note := session.note()) is not None:
                self._folder.index.put([note])

    def _put_chunks(self, change: SessionChange) -> None:
        session, place = change.session, change.session.place
        draft = session.draft()
        data = b"".join(chunk_line(chunk, after) for chunk, after in change.chunks)
        fresh = disk.look(place.draft) is None
        fd = os.open(place.draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, disk.MODE)
        try:
            disk.truncate(fd, draft.size)
            os.lseek(fd, draft.size, os.SEEK_SET)
            disk.write(fd, data)
            disk.sync(fd)
            if fresh:
                disk.sync_folder(place.folder)
        except OSError as error:
            _take_back(lambda: (disk.truncate(fd, draft.size), disk.sync(fd)), error)
            raise
        finally:
            os.close(fd)
        session.set_draft(draft.with_chunks([chunk for chunk, _ in change.chunks], draft.size + len(data)))

    def _replace(self, path: Path, data: bytes, *, new: bool = False) -> None:
        """The file gets these contents, or keeps those it has."""
        partial = self._folder.path / redo_record.FOLDER / secrets.token_hex(16)
        disk.create(partial, data)
        try:
            disk.rename(partial, path)
        except OSError:
            disk.unlink(partial)
            raise
        try:
            disk.sync_folder(path.parent)
        except OSError as error:
            if not new:
                raise OutcomeLost(str(error)) from error
            _take_back(lambda: (disk.unlink(path), disk.sync_folder(path.parent)), error)
            raise

    def _forget(self, change: SessionChange) -> None:
        """After a failure, believe nothing of the session; the disk is asked again."""
        with change.session.mutex:
            change.session.forget()

    # --- several files

    def _together(self, group: CommitGroup, changes: list[SessionChange]) -> None:
        self._folder.note(change.session for change in changes)  # they are forgotten below, and looked up again soon
        work = redo_record.RedoLog(self._folder.path)
        try:
            for change in changes:
                self._add(work, change)
            for root_id, members in group.lineages.items():
                work.put(group.held.sessions[root_id].place.lineage, lineage_file(members))
            if group.routes is not None and group.routes.changed:
                work.put(self._folder.path / ROUTES, group.routes.data())
            group.held.begin(work.redo)
            record = work.record(sorted(group.held.names))
        except BaseException as error:
            try:
                work.discard()
            except OSError:
                raise OutcomeLost(str(error)) from error
            group.held.finished()
            raise
        self._carry_out(group, record, changes)

    def _carry_out(self, group: CommitGroup, record: redo_record.RedoRecord, changes: list[SessionChange]) -> None:
        try:
            try:
                redo_record.carry_out(self._folder.path, record, self._folder.index)
            except OSError:
                redo_record.carry_out(self._folder.path, record, self._folder.index)
        except (OSError, StoreUnavailable) as error:
            # It is decided and written down; whoever takes one of its locks next carries it out.
            raise OutcomeLost(str(error)) from error
        finally:
            for session in group.held.sessions.values():
                with session.mutex:
                    session.forget()
        group.held.finished()
        for change in changes:
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
