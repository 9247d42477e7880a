"""Rows inside one commit: what the engine reads and changes. Nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from copy import copy

from outlast.core.errors import ConflictError, DamagedSession, InvalidInput
from outlast.core.event_row import StoredEvent
from outlast.core.header import Delta
from outlast.core.ids import is_id
from outlast.store.engine.transaction import KEY_LOOK_BACK, HeaderRow, KeyRow, Transaction
from outlast.store.files import disk, keys
from outlast.store.files.directory import StoreDirectory
from outlast.store.files.keys import ScopedKey, scope_name
from outlast.store.files.line import EventLine
from outlast.store.files.paths import blobs_in
from outlast.store.files.rollback_guard import rolled_back
from outlast.store.files.session import SessionFiles
from outlast.store.files.session_change import SessionChange
from outlast.store.files.session_list import based_on
from outlast.store.files.small_files import RouteTable
from outlast.store.port import Chunk, Snapshot


class CommitGroup:
    """What the commits of a batch have decided so far, and the sessions they have looked at. `close` lets go of them.
    Used with the lock held for writing."""

    def __init__(self, folder: StoreDirectory, *, is_alone: bool) -> None:
        self.folder = folder
        self.is_alone = is_alone
        """Whether the group is one commit, which may touch anything; several touch one file of a session each."""
        self.sessions: dict[str, SessionFiles] = {}
        self.changes: dict[str, SessionChange] = {}
        self.keys: dict[tuple[str, str], KeyRow] = {}
        self.scoped: dict[str, list[ScopedKey]] = {}
        self.routes: RouteTable | None = None
        self.lineages: dict[str, list[str]] = {}
        self.note: str | None = None

    def session(self, session_id: str) -> SessionFiles | None:
        """A session as it is now; with no row if there is none of that id. None for what is no id."""
        session = self.sessions.get(session_id)
        if session is None and is_id(session_id):
            session = self.folder.take(session_id)
            try:
                self.folder.current(session)
            except BaseException:
                self.folder.give_back(session_id)
                raise
            self.sessions[session_id] = session
        if session is not None and session.lost is not None:
            raise rolled_back(session_id, session.lost)
        return session

    def sync(self) -> None:
        """Make durable what other processes have written to these sessions."""
        for session in self.sessions.values():
            if session.fd >= 0 and not session.synced:
                disk.sync(session.fd)
                session.synced = True

    def forget(self) -> None:
        """Believe nothing of these sessions any more; the disk is asked again."""
        for session in self.sessions.values():
            with session.mutex:
                session.forget()

    def close(self) -> None:
        for session_id in self.sessions:
            self.folder.give_back(session_id)
        self.sessions.clear()

    def take(self, rows: FilesRows) -> list[str]:
        """Add a commit that was not refused; the sessions it changes."""
        for session_id, change in rows.changes.items():
            before = self.changes.get(session_id)
            if before is None:
                self.changes[session_id] = change
            else:
                before.follow(change)
        self.keys |= rows.keys
        for scope, entries in rows.scoped.items():
            self.scoped.setdefault(scope, []).extend(entries)
        self.routes = rows.routes or self.routes
        self.lineages |= rows.lineages
        return list(rows.changes)


class FilesRows(Transaction):
    """`Transaction` over the directory; the lock is held for writing."""

    def __init__(self, group: CommitGroup) -> None:
        self._group = group
        self.changes: dict[str, SessionChange] = {}
        self.keys: dict[tuple[str, str], KeyRow] = {}
        self.scoped: dict[str, list[ScopedKey]] = {}
        self.routes: RouteTable | None = None
        self.lineages: dict[str, list[str]] = {}

    # --- headers

    def header(self, session_id: str) -> HeaderRow | None:
        change = self._change(session_id)
        return None if change is None else change.row

    def _change(self, session_id: str) -> SessionChange | None:
        change = self.changes.get(session_id)
        if change is None:
            session = self._group.session(session_id)
            if session is None:
                return None
            before = self._group.changes.get(session_id)
            row = before.row if before is not None else session.row
            if row is None:
                return None
            change = self.changes[session_id] = SessionChange(session, copy(row))
        return change

    def _known(self, session_id: str) -> SessionChange:
        change = self._change(session_id)
        if change is None:
            raise DamagedSession(session_id, None, "its files are missing")
        return change

    def create(self, row: HeaderRow) -> None:
        session = self._group.session(row.session_id)
        if session is None:
            raise InvalidInput(f"'{row.session_id}' is not a session id")
        change = self.changes[row.session_id] = SessionChange(session, row)
        change.create()

    def save(self, row: HeaderRow) -> None:
        self._known(row.session_id).save()

    # --- events

    def append(self, row: HeaderRow, events: list[StoredEvent]) -> None:
        change = self._known(row.session_id)
        if change.session.hole:
            raise DamagedSession(row.session_id, change.session.hole, "a line cannot be read, so nothing is added")
        for event in events:
            check_text(event)
        change.append(events)

    def restore(
        self,
        row: HeaderRow,
        events: list[StoredEvent],
        deltas: Mapping[int, Delta],
        keys: Sequence[tuple[str, KeyRow]],
    ) -> None:
        for event in events:
            check_text(event)
        lines = self._known(row.session_id).restore(events, deltas)
        for key, found in keys:
            first = lines[found.seq - found.events + 1 - events[0].seq]
            first.count, first.digest = found.events, found.digest.hex()
            self.keys[row.root_id, key] = found

    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        change = self._change(session_id)
        if change is None:
            return []
        if change.drop_after is not None:
            upto = min(upto, change.drop_after)
        with closing(change.session.segments()) as segments:
            found = segments.rows(after, upto)
        found += [event for event in self._unwritten(session_id) if after < event.seq <= upto]
        return [_blanked(event, change.blanks) for event in found]

    def _unwritten(self, session_id: str) -> list[StoredEvent]:
        changes = (self._group.changes.get(session_id), self.changes.get(session_id))
        return [line.event() for change in changes if change for lines in change.commits for line in lines]

    def drop_events(self, session_id: str, after: int) -> None:
        self._known(session_id).drop_after = after

    def blank(self, session_id: str, seq: int, digest: bytes) -> None:
        self._known(session_id).blanks[seq] = digest

    def forks(self, session_id: str) -> list[HeaderRow]:
        rows = [self.header(name) for name in based_on(self._group.folder, session_id)]
        return [row for row in rows if row is not None and row.base_id == session_id]

    # --- keys

    def key(self, scope: str, key: str) -> KeyRow | None:
        known = self.keys.get((scope, key)) or self._group.keys.get((scope, key))
        if known is not None:
            return known
        root = self._group.session(scope)
        for member in root.members() if root is not None else ():
            session = self._group.session(member)
            found = self._in_session(session, key, None) if session is not None else None
            if found is not None:
                return found
        return None if root is not None and not root.is_scope() else self._in_scope(scope, key)

    def _in_session(self, session: SessionFiles, key: str, scope: str | None) -> KeyRow | None:
        row = session.row
        if row is not None and row.deleted_at is not None:
            return keys.find_key(session.place, row.deleted_at, key, scope)
        with session.mutex:
            line = session.keyed(key, scope)
        return None if line is None else _key_row(line)

    def _in_scope(self, scope: str, key: str) -> KeyRow | None:
        for entry in self._group.folder.scope(scope_name(scope)).find(key):
            session = self._group.session(entry.session)
            if session is None or entry.scope != scope:
                continue
            found = self._in_session(session, key, scope)
            if found is not None and found.seq == entry.seq:
                return found
        return None

    def put_key(self, scope: str, key: str, row: KeyRow) -> None:
        if (scope, key) in self.keys or (scope, key) in self._group.keys:
            raise ConflictError(f"key '{key}' is used twice in one commit")
        self.keys[scope, key] = row
        change = self._known(row.session_id)
        first = change.commits[-1][-row.events]
        first.count, first.digest = row.events, row.digest.hex()
        if scope != change.row.root_id:
            first.scope = scope
            entry = ScopedKey(key, row.session_id, row.seq, row.events, row.digest.hex(), scope)
            self.scoped.setdefault(scope, []).append(entry)

    def forget_keys(self, session_id: str, keys: Sequence[tuple[str, str]]) -> None:
        """All of them: they lie in one file, and each is as old as the tombstone beside it."""
        self._known(session_id).forgotten = True

    def key_in_log(self, session_id: str, key: str) -> KeyRow | None:
        change = self._change(session_id)
        if change is None:
            return None
        with closing(change.session.segments()) as segments:
            for looked, event in enumerate(segments.backwards()):
                if event.key == key:
                    return KeyRow(session_id, event.seq, 1, b"")
                if looked >= KEY_LOOK_BACK:
                    break
        return None

    # --- lineages

    def tip(self, root_id: str) -> str | None:
        members = self._members(root_id)
        return members[-1] if members else None

    def _members(self, root_id: str) -> list[str]:
        """The sessions of a lineage that was continued; none if it was not."""
        found = self.lineages.get(root_id) or self._group.lineages.get(root_id)
        if found is None:
            root = self._group.session(root_id)
            found = root.members() if root is not None else []
        return found if len(found) > 1 else []

    def put_tip(self, root_id: str, session_id: str) -> None:
        self.lineages[root_id] = [*(self._members(root_id) or [root_id]), session_id]

    # --- drafts

    def chunks(self, session_id: str, after: int) -> list[Chunk]:
        change = self._known(session_id)
        before = self._group.changes.get(session_id)
        if change.chunks_dropped:
            chunks: list[Chunk] = []
        else:
            chunks = list(change.session.draft().chunks) if not (before and before.chunks_dropped) else []
            chunks += [chunk for chunk, _ in before.chunks] if before else []
        chunks += [chunk for chunk, _ in change.chunks]
        begins = max((at for at, chunk in enumerate(chunks) if chunk.n == 1), default=0)
        return [chunk for chunk in chunks[begins:] if chunk.n > after]

    def put_chunk(self, session_id: str, chunk: Chunk) -> None:
        change = self._known(session_id)
        change.chunks.append((chunk, change.row.last_seq))

    def drop_chunks(self, session_id: str) -> None:
        change = self._known(session_id)
        change.chunks.clear()
        change.chunks_dropped = True

    # --- routes, blobs, snapshots

    def _routes(self) -> RouteTable:
        if self.routes is None:
            self.routes = self._group.routes or RouteTable.load(self._group.folder.path)
        return self.routes

    def locked_route(self, route: str) -> str | None:
        return self._routes().leads.get(route)

    def put_route(self, route: str, session_id: str | None) -> None:
        self.routes = self._routes().put(route, session_id)

    def move_routes(self, from_session_id: str, to_session_id: str | None) -> None:
        self.routes = self._routes().move(from_session_id, to_session_id)

    def blob(self, session_id: str, sha256: str) -> bytes | None:
        for change in (self.changes.get(session_id), self._group.changes.get(session_id)):
            if change is not None and sha256 in change.blobs:
                return change.blobs[sha256]
        path = self._known(session_id).session.place.blob(sha256)
        return None if path is None else disk.read(path)

    def put_blob(self, session_id: str, sha256: str, data: bytes) -> None:
        change = self._known(session_id)
        if change.session.place.blob(sha256) is None:
            raise InvalidInput(f"'{sha256}' is not the name of a blob: that is the SHA-256 of its bytes in hex")
        change.blobs[sha256] = data

    def blobs(self, session_id: str) -> dict[str, int]:
        changes = (self._group.changes.get(session_id), self.changes.get(session_id))
        unwritten = {name: self.clock() for change in changes if change for name in change.blobs}
        return blobs_in(self._known(session_id).session.place) | unwritten

    def drop_blobs(self, session_id: str, keep: set[str]) -> None:
        self._known(session_id).keep_blobs = keep

    def put_note(self, text: str) -> None:
        self._group.note = text

    def put_snapshot(self, session_id: str, seq: int, fold_version: int, state: bytes) -> None:
        snapshot = Snapshot(seq=seq, fold_version=fold_version, state=state)
        self._known(session_id).snapshots.append(snapshot)

    def drop_snapshots(self, session_id: str) -> None:
        change = self._known(session_id)
        change.snapshots.clear()
        change.snapshots_dropped = True


def _key_row(line: EventLine) -> KeyRow:
    count = line.count or 1
    return KeyRow(line.session, line.seq + count - 1, count, bytes.fromhex(line.digest or ""))


def _blanked(event: StoredEvent, blanks: dict[int, bytes]) -> StoredEvent:
    digest = blanks.get(event.seq)
    return event if digest is None else event._replace(body=digest, redacted=True)


def check_text(event: StoredEvent) -> None:
    for text in (event.actor, event.turn):
        if text is not None and not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                raise InvalidInput("an actor and a turn must be valid Unicode text") from None
