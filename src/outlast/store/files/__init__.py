"""The files store: a directory, one `<session>.jsonl` each. Greppable, committable, syncable.

outlast-store.json     whose directory this is, and in which format
<session>.jsonl         the live segment: a first line about the segment, then one line an event (`line`)
<session>.N.jsonl       sealed segments, numbered from 1; sealed without a live one is a state like any other
<session>.lock          never renamed, never removed: `flock`, and the mark of the last writer (`lock`)
<session>.lease         the lease, when it changed without an event; otherwise it stands in the event's line
<session>.draft.jsonl   the chunks of the open attempt
<session>.lineage.json  of a lineage's first session: the sessions that continue it
<session>.gone.json     a tombstone; `.gone.keys.json` beside it, the keys that were used
<session>.torn.N        what a dying writer left behind the last whole commit, kept aside
blobs/, snapshots/      by session; keys/ by scope; routes.json
txn/                    commits over several files that are being carried out (`txn`)
index/, pulse           only caches and hints: delete them, and nothing is lost
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from outlast.core.errors import ConfigError, DamagedSession, OutlastError, StoreUnavailable
from outlast.core.header import Header
from outlast.core.ids import is_id
from outlast.store import port
from outlast.store.engine.commit import apply_commit, sessions_of
from outlast.store.engine.encode import EncodedCommit
from outlast.store.engine.fast_append import PlainAppend
from outlast.store.files import disk
from outlast.store.files.backup import copy_to
from outlast.store.files.commit_writer import ROTATE_AFTER, CommitWriter, OutcomeLost, unknown
from outlast.store.files.directory import STORE, StoreDirectory
from outlast.store.files.fast_append import NotFast, quickly
from outlast.store.files.lock_set import LockSet, MoreLocksNeeded
from outlast.store.files.rows import CommitGroup, FilesRows
from outlast.store.files.scoped_keys import lock_name
from outlast.store.files.session_list import SessionCatalog
from outlast.store.files.view import FilesView
from outlast.store.group_commit import PendingCommit
from outlast.store.log_store import LogStore, Progress
from outlast.store.port import Receipt

__all__ = ["FilesStore"]

MAX_SESSIONS = 64
LINES = (port.Append, port.Claim, port.Renew, port.Release, port.PutBlob, port.PutSnapshot)
CHUNKS = (port.PutChunk, port.PutSnapshot)
_OPTION = re.compile(r"(.*)\?rotate_after_bytes=(\d+)", re.DOTALL)


class FilesStore(LogStore):
    compress = False

    def __init__(
        self, path: Path, url: str | None = None, *, rotate_after_bytes: int | None = None, read_only: bool = False
    ) -> None:
        option = _OPTION.fullmatch(str(path))
        if option is not None:
            path, rotate_after_bytes = Path(option[1]), int(option[2])
        if rotate_after_bytes is not None and rotate_after_bytes < 1:
            raise ConfigError("rotate_after_bytes must be at least 1")
        self.rotate_after_bytes = rotate_after_bytes
        self._folder = StoreDirectory(path.resolve(), read_only=True) if read_only else StoreDirectory.shared(path)
        self.path = self._folder.path
        self.sessions_at_once = max(4, self._folder.most_open // 5)  # a view keeps their files open
        self._catalog = SessionCatalog(self._folder)
        self._seen = (self._folder.look(), self._folder.commits)
        super().__init__(url or f"files:///{path}")

    def storage_path(self, session_id: str) -> Path:
        return self.path / f"{session_id}.jsonl"

    def backup(self, target: Path, progress: Progress | None = None) -> str:
        self._usable()
        if target.exists():
            raise StoreUnavailable(f"{target} exists already; a backup does not overwrite anything")
        copy_to(self._folder, target, progress)
        return f"files:///{target}"

    def _usable(self) -> None:
        if self._folder.forked:
            raise StoreUnavailable("this store was opened before a fork; open it again in the child process")
        super()._usable()

    # --- writing

    def _run(self, batch: list[PendingCommit]) -> None:
        if self._folder.read_only:
            _refuse(batch, StoreUnavailable(f"{self.path} is opened for reading only, because you may not write there"))
            return
        with self._folder.writing:
            if len(batch) == 1 and self._quickly(batch[0]):
                return
            together: list[tuple[PendingCommit, FilesCommit]] = []
            for entry in batch:
                plan = _plan(entry.commit)
                if plan.simple and len(together) < min(MAX_SESSIONS, self._folder.most_open):
                    together.append((entry, plan))
                    continue
                self._commit(together)
                together = []
                self._commit([(entry, plan)])
            self._commit(together)
            self._folder.commits += 1

    def _quickly(self, entry: PendingCommit) -> bool:
        """Decide a plain append in the short way, if that can be done."""
        session_id = _appended_to(entry.commit)
        if session_id is None:
            return False
        writer = CommitWriter(self._folder, self.rotate_after_bytes or ROTATE_AFTER)
        try:
            entry.receipts = quickly(self._folder, session_id, entry.commit, writer)
        except NotFast:
            return False
        except OutlastError as error:
            entry.error = error
        except (OSError, OutcomeLost) as error:
            with self._folder.using(session_id) as session, session.mutex:
                session.forget()
            entry.error = self._outcome(error, entry.commit)
        self._folder.commits += 1
        return True

    def _commit(self, planned: list[tuple[PendingCommit, FilesCommit]]) -> None:
        """Decide these commits, each by itself. More than one only if each touches one file."""
        entries = [entry for entry, _ in planned]
        names = set[str]().union(*(plan.names for _, plan in planned))
        new = set[str]().union(*(plan.new for _, plan in planned))
        while entries:
            try:
                with LockSet(self._folder, names, new) as held:
                    self._decide(entries, held)
                return
            except MoreLocksNeeded as more:
                names |= more.names
            except (OutlastError, OSError) as error:
                _refuse(entries, disk.translation(error, self.path))
                return

    def _decide(self, entries: list[PendingCommit], held: LockSet) -> None:
        group = CommitGroup(held)
        done: list[tuple[PendingCommit, list[Receipt], list[str]]] = []
        for entry in entries:
            rows = FilesRows(group)
            try:
                receipts = apply_commit(rows, entry.commit)
            except (OutlastError, OSError) as error:
                entry.error = disk.translation(error, self.path)
                continue
            if any(receipt.replayed for receipt in receipts):
                held.sync()  # it may be a dead process that wrote it
            done.append((entry, receipts, group.take(rows)))
        if not done:
            return
        self._folder.beat()
        writer = CommitWriter(self._folder, self.rotate_after_bytes or ROTATE_AFTER)
        failed = self._alone(writer, group) if len(entries) == 1 else writer.each(group)
        for entry, receipts, sessions in done:
            errors = [failed[name] for name in (*sessions, STORE) if name in failed]
            if errors:
                entry.error = self._outcome(errors[0], entry.commit)
            else:
                entry.receipts = receipts

    def _alone(self, writer: CommitWriter, group: CommitGroup) -> dict[str, Exception]:
        try:
            writer.all(group)
        except (OSError, OutlastError, OutcomeLost) as error:
            for session in group.held.sessions.values():
                with session.mutex:
                    session.forget()
            return {STORE: error}
        return {}

    def _outcome(self, error: Exception, commit: EncodedCommit) -> OutlastError:
        if isinstance(error, OutcomeLost):
            return unknown(error, next((write.key for write in commit.writes if write.key), None))
        return disk.translation(error, self.path)

    # --- reading

    def head(self, session_id: str) -> Header:
        found = super().head(session_id)
        with self._folder.using(session_id) as session:
            if session.hole:
                raise DamagedSession(session_id, session.hole, "a line of its log cannot be read")
        return found

    @contextmanager
    def _view(self) -> Generator[FilesView]:
        view = FilesView(self._folder, self._catalog)
        try:
            yield view
        except OSError as error:
            raise disk.translation(error, self.path) from error
        finally:
            view.close()

    def _changed(self) -> bool:
        if self._folder.forked:
            return False
        try:
            seen = self._folder.look()
        except OSError:
            return True
        now = (seen, self._folder.commits)
        changed, self._seen = now != self._seen, now
        return changed

    def close(self) -> None:
        if not self._folder.forked:  # what the parent opened is not the child's to close
            super().close()

    def _close(self) -> None:
        self._folder.let_go()


class FilesCommit(NamedTuple):
    """What can be told of a commit before it is looked at: which locks it needs, and whether it touches one file."""

    simple: bool
    names: set[str]
    new: set[str]


def _appended_to(commit: EncodedCommit) -> str | None:
    """The session that a commit appends to, if it does nothing else and asks for nothing that lies elsewhere."""
    if type(commit) is PlainAppend:
        return commit.session_id
    write = commit.writes[0].write if len(commit.writes) == 1 else None
    if not isinstance(write, port.Append) or write.scope is not None or write.to_tip:
        return None
    return write.session_id


def _plan(commit: EncodedCommit) -> FilesCommit:
    writes = [sealed.write for sealed in commit.writes]
    only = writes[0] if len(writes) == 1 else None
    if isinstance(only, port.Append) and only.scope is None and not only.to_tip and is_id(only.session_id):
        return FilesCommit(True, {only.session_id}, set())  # what almost every commit is
    names = {name for write in writes for name in sessions_of(write) if is_id(name)}
    simple = len(names) == 1 and (
        all(isinstance(write, LINES) for write in writes) or all(isinstance(write, CHUNKS) for write in writes)
    )
    new: set[str] = set()
    for write in writes:
        if isinstance(write, port.Restore):
            new.add(write.header.session_id)
        if isinstance(write, port.Append | port.Create):
            if isinstance(write, port.Create):
                new.add(write.header.session_id)
            simple &= write.scope is None and not getattr(write, "to_tip", False)
            if write.scope is not None:
                names.add(lock_name(write.scope))
    return FilesCommit(simple, names, new & names)


def _refuse(batch: list[PendingCommit], error: OutlastError) -> None:
    for entry in batch:
        if not entry.decided:
            entry.error = error
