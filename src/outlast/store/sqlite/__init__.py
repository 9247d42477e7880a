"""SQLite store, the default: one database file in WAL mode with `synchronous=FULL`.

Uses apsw, which bundles a current SQLite.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from outlast.core.errors import OutcomeUnknown, OutlastError, StoreUnavailable
from outlast.store.engine.fast_append import PlainAppend
from outlast.store.group_commit import PendingCommit
from outlast.store.log_store import LogStore, Progress
from outlast.store.maintenance.migrations import UpgradeProgress
from outlast.store.port import Receipt
from outlast.store.sqlite import setup
from outlast.store.sqlite.connections import SqliteDatabase, copy_to
from outlast.store.sqlite.fast_append import put, put_alone
from outlast.store.sqlite.inspection import SqliteView
from outlast.store.sqlite.rows import First, Heads, SqliteRows

__all__ = ["SqliteStore"]


class SqliteStore(LogStore):
    knows_plain = True

    def __init__(self, path: Path, url: str | None = None, watch: UpgradeProgress | None = None) -> None:
        self._database = SqliteDatabase.shared(path, watch)
        self.path = self._database.path
        self._seen: int | None = None
        super().__init__(url or f"sqlite:///{path}")

    def storage_path(self, session_id: str) -> Path:
        return self.path

    def backup(self, target: Path, progress: Progress | None = None) -> str:
        self._usable()
        if target.exists():
            raise StoreUnavailable(f"{target} exists already; a backup does not overwrite anything")
        with self._database.reader() as connection:
            copy_to(connection, target, progress)
        return f"sqlite:///{target}"

    def _usable(self) -> None:
        if self._database.forked:
            raise StoreUnavailable("this store was opened before a fork; open it again in the child process")
        super()._usable()

    # --- writing

    def _run(self, batch: list[PendingCommit]) -> None:
        gate = self._database.gate
        with self._database.writing:
            try:
                if not gate.enter():
                    gate.stand_in_line(lambda: self._inside(batch))
                    return
            except OutlastError as error:
                _refuse(batch, error)
                return
            try:
                self._inside(batch)
            finally:
                gate.leave()

    def _inside(self, batch: list[PendingCommit]) -> None:
        try:
            self._together(batch)
            self._database.checkpoint(sum([entry.commit.size for entry in batch]))
        except apsw.Error as error:
            # Only the checkpoint can raise here; decided commits stay decided, and the next batch retries it.
            _refuse(batch, setup.translation(error, self.path))

    def _together(self, batch: list[PendingCommit]) -> None:
        """Write the whole batch in one transaction; if that fails, write each commit in a transaction of its own."""
        try:
            self._database.files.check()
            writer = self._database.ready()
            self._database.files.check_log(writer)
            writer.execute("BEGIN IMMEDIATE")
        except (apsw.Error, OutlastError) as error:
            _refuse(batch, setup.translation(error, self.path))
            return
        try:
            heads, first = self._database.take_heads()
            done, first = self._put(batch, writer, heads, first)
        except (apsw.Error, OutlastError, UnicodeDecodeError) as error:
            self._roll_back()
            if len(batch) == 1:
                batch[0].error = setup.translation(error, self.path)
            else:
                for entry in batch:
                    self._together([entry])
            return
        except BaseException:
            self._roll_back()
            raise
        try:
            writer.execute("COMMIT")
        except apsw.Error as error:
            self._find_out(batch, error)
            return
        try:
            self._database.files.check_written(writer)
        except StoreUnavailable as error:
            _leave_unknown(batch, error)
            return
        for number, entry in enumerate(batch):
            entry.receipts = done[number]
        self._database.keep_heads(heads, first)

    def _put(
        self, batch: list[PendingCommit], writer: apsw.Connection, heads: Heads, first: First | None
    ) -> tuple[list[list[Receipt]], First | None]:
        """Execute the writes of every commit of the batch; updates `heads` to their state after the COMMIT."""
        commit = batch[0].commit
        if len(batch) == 1 and type(commit) is PlainAppend and commit.session_id in heads:
            receipt = put_alone(writer, heads[commit.session_id], first, commit)
            if receipt is not None:
                return [[receipt]], first
        rows = SqliteRows(writer, heads, first, self._database.acknowledged)
        done = [put(writer, rows, entry.commit) for entry in batch]
        rows.flush()
        return done, rows.first

    def _roll_back(self) -> None:
        try:
            if self._database.writer.in_transaction:
                self._database.writer.execute("ROLLBACK")
        except apsw.Error:
            self._database.distrust()

    def _find_out(self, batch: list[PendingCommit], error: apsw.Error) -> None:
        """Run the batch again under its keys: a failed COMMIT may still take effect after a recovery."""
        cause = setup.translation(error, self.path)
        self._database.distrust()
        for entry in batch:
            if entry.commit.rerun:
                _leave_unknown([entry], cause)
                continue
            entry.commit.rerun = True
            self._together([entry])
            if isinstance(entry.error, StoreUnavailable):
                entry.error = None
                _leave_unknown([entry], cause)

    def close(self) -> None:
        if not self._database.forked:  # the child must not close the parent's connections
            super().close()

    # --- reading

    @contextmanager
    def _view(self) -> Generator[SqliteView]:
        with self._database.reader() as connection, closing(SqliteView(connection)) as view:
            yield view

    def _changed(self) -> bool:
        if self._database.forked:
            return False
        try:
            version = self._database.version()
        except (apsw.Error, StoreUnavailable):
            return True
        changed, self._seen = version != self._seen, version
        return changed

    def _close(self) -> None:
        self._database.let_go()


def _refuse(batch: list[PendingCommit], error: OutlastError) -> None:
    for entry in batch:
        if not entry.decided:
            entry.error = error


def _leave_unknown(batch: list[PendingCommit], cause: OutlastError) -> None:
    for entry in batch:
        if not entry.decided:
            entry.error = OutcomeUnknown(f"it is not known whether this was stored: {cause}", key=entry.commit.key)
