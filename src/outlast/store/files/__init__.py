"""The files store: a directory, one `<session>.jsonl` each. Greppable, committable, syncable.

outlast-store.json     whose directory this is, and in which format
<session>.jsonl         the live segment: a first line about the segment, then one line an event (`line`)
<session>.N.jsonl       sealed segments, numbered from 1; sealed without a live one is a state like any other
<session>.lease         the lease, when it changed without an event; otherwise it stands in the event's line
<session>.draft.jsonl   the chunks of the open attempt
<session>.lineage.json  of a lineage's first session: the sessions that continue it
<session>.gone.json     a tombstone; `.gone.keys.json` beside it, the keys that were used
<session>.torn.N        what a dying writer left behind the last whole commit, kept aside
blobs/, snapshots/      by session; keys/ by scope; routes.json
store.lock              never renamed, never removed: `flock`, and the mark of the last writer (`lock`)
txn/                    the commit over several files that is being carried out (`redo_record`)
index/                  only caches: delete it while no process has the store open, and nothing is lost
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from outlast.core.errors import ConfigError, DamagedSession, OutlastError, StoreUnavailable
from outlast.core.header import Header
from outlast.store import port
from outlast.store.engine.commit import apply_commit, sessions_of
from outlast.store.engine.encode import EncodedCommit
from outlast.store.engine.fast_append import PlainAppend
from outlast.store.files import disk
from outlast.store.files.backup import copy_to
from outlast.store.files.commit_writer import ROTATE_AFTER, STORE, CommitWriter, OutcomeLost, unknown
from outlast.store.files.directory import StoreDirectory
from outlast.store.files.fast_append import append_plain
from outlast.store.files.rows import CommitGroup, FilesRows
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
    knows_plain = True

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
        self._most = min(MAX_SESSIONS, self._folder.most_open)
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
            if len(batch) == 1 and self._append_fast(batch[0]):
                return
            together: dict[str, type[port.Write] | None] = {}
            entries: list[PendingCommit] = []
            for entry in batch:
                session_id, kind = _one_file(entry.commit)
                fits = kind is not None and together.get(session_id, kind) is kind
                if entries and (not fits or len(entries) == self._most):
                    self._commit(entries, is_alone=False)
                    entries, together = [], {}
                if kind is None:
                    self._commit([entry], is_alone=True)
                else:
                    entries.append(entry)
                    together[session_id] = kind
            if entries:
                self._commit(entries, is_alone=False)
            self._folder.commits += 1

    def _append_fast(self, entry: PendingCommit) -> bool:
        """Decide a plain append in the short way, if it can be done so."""
        commit = entry.commit
        if type(commit) is not PlainAppend:
            return False
        writer = CommitWriter(self._folder, self.rotate_after_bytes or ROTATE_AFTER)
        try:
            receipt = append_plain(self._folder, commit, writer)
        except (OutlastError, OSError, OutcomeLost) as error:
            entry.error = self._outcome(error, commit)
        else:
            if receipt is None:
                return False
            entry.receipts = [receipt]
        self._folder.commits += 1
        return True

    def _commit(self, entries: list[PendingCommit], *, is_alone: bool) -> None:
        """Decide these commits, each by itself: under one hold of the lock, and durable after it."""
        folder = self._folder
        group = CommitGroup(folder, is_alone=is_alone)
        writer = CommitWriter(folder, self.rotate_after_bytes or ROTATE_AFTER)
        try:
            folder.enter()
            try:
                done = self._decide(entries, group)
                folder.changing = frozenset(group.changes)
                writer.write(group)
            finally:
                folder.leave()
            writer.finish()
        except (OutlastError, OSError) as error:
            group.forget()
            _refuse(entries, disk.translation(error, self.path))
            return
        except BaseException:
            group.forget()
            raise
        finally:
            writer.close()
            folder.changing = frozenset()
            group.close()
        for entry, receipts, sessions in done:
            errors = [writer.failed[name] for name in (*sessions, STORE) if name in writer.failed]
            if errors:
                entry.error = self._outcome(errors[0], entry.commit)
            else:
                entry.receipts = receipts

    def _decide(
        self, entries: list[PendingCommit], group: CommitGroup
    ) -> list[tuple[PendingCommit, list[Receipt], list[str]]]:
        """The commits that are not refused, with their receipts and the sessions they change."""
        done: list[tuple[PendingCommit, list[Receipt], list[str]]] = []
        for entry in entries:
            rows = FilesRows(group)
            try:
                receipts = apply_commit(rows, entry.commit)
                if any(receipt.replayed for receipt in receipts):
                    group.sync()  # a process that died may have written it
            except (OutlastError, OSError) as error:
                entry.error = disk.translation(error, self.path)
                continue
            done.append((entry, receipts, group.take(rows)))
        return done

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


def _one_file(commit: EncodedCommit) -> tuple[str, type[port.Write] | None]:
    """The session of a commit that changes one file, and in which way: by lines (`Append`) or by chunks (`PutChunk`).
    None for any other commit: it is written alone."""
    writes = [sealed.write for sealed in commit.writes]
    if len(writes) == 1 and type(writes[0]) is port.Append and not _reaches_further(writes[0]):
        return writes[0].session_id, port.Append  # what almost every commit is
    names = {name for write in writes for name in sessions_of(write)}
    if len(names) == 1 and not any(isinstance(write, port.Append) and _reaches_further(write) for write in writes):
        [name] = names
        if all(isinstance(write, LINES) for write in writes):
            return name, port.Append
        if all(isinstance(write, CHUNKS) for write in writes):
            return name, port.PutChunk
    return "", None


def _reaches_further(write: port.Append) -> bool:
    return write.scope is not None or write.to_tip


def _refuse(batch: list[PendingCommit], error: OutlastError) -> None:
    for entry in batch:
        if not entry.decided:
            entry.error = error
