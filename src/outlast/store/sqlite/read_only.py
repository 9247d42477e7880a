"""Read-only SQLite store, for databases that this user may not write or that are too damaged to use.

Reading a WAL database normally writes files, so a read-only folder needs another way: the shared memory file of a
running owner, `immutable` mode if there is no WAL, or a private copy of database and WAL. A database that cannot be
opened is read with SQL as far as possible (a truncated one needs `writable_schema`), and page by page.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from outlast.core.errors import OutlastError, SchemaTooNew, StoreUnavailable
from outlast.store.group_commit import PendingCommit
from outlast.store.log_store import LogStore, Progress
from outlast.store.maintenance.migrations import outstanding
from outlast.store.process_identity import may_write
from outlast.store.read.inspection import StoreFlaw
from outlast.store.sqlite import SqliteStore, setup
from outlast.store.sqlite.connections import copy_to
from outlast.store.sqlite.inspection import SqliteView
from outlast.store.sqlite.migrate import applied_in
from outlast.store.sqlite.page_salvage import PageSalvage
from outlast.store.sqlite.rows import UNREADABLE

READ = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


def open_database(path: Path, url: str) -> LogStore:
    """Open the store normally if possible, otherwise read-only."""
    setup.check_version()
    setup.check_plain(path)
    setup.check_file_system(path)
    if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        raise StoreUnavailable(f"no permission to read {path}; check its owner and mode")
    if not may_write(path) or not may_write(path.parent):
        return SqliteReader(path, url)
    try:
        return SqliteStore(path, url)
    except SchemaTooNew:
        raise
    except StoreUnavailable as error:
        if not _may_be_damage(error) or not _is_ours(path):
            raise
        return SqliteReader(path, url, trouble=str(error.__cause__ or error))


def _may_be_damage(error: StoreUnavailable) -> bool:
    return error.__cause__ is None or isinstance(error.__cause__, UNREADABLE)


def _is_ours(path: Path) -> bool:
    """Whether sessions can be salvaged from this file. Raises StoreUnavailable for an Outlast file without any."""
    try:
        with closing(PageSalvage(path)) as pages:
            if pages.signed and not pages.found_sessions():
                raise StoreUnavailable(f"{path} is so damaged that no session in it can be read; restore a backup")
            return pages.found_sessions()
    except apsw.Error:
        return False


class SqliteReader(LogStore):
    """Read-only store. `trouble` is the reason why the database could not be opened; None if no damage is known."""

    def __init__(self, path: Path, url: str, *, trouble: str | None = None) -> None:
        self.path = path.resolve()
        self._trouble = trouble
        self._copied: Path | None = None
        self._address = self._find_address()
        try:
            if trouble is None:
                self._check()
        except BaseException:
            self._close()
            raise
        super().__init__(url)

    def _find_address(self) -> str:
        """Return the URI under which SQLite can open the file."""
        plain = self.path.as_uri() + "?mode=ro"
        log = self.path.with_name(self.path.name + "-wal")
        if self._trouble is not None or self._opens(plain):
            return plain
        if not log.exists() or not log.stat().st_size:
            return self.path.as_uri() + "?immutable=1"
        self._copied = Path(tempfile.mkdtemp(prefix="outlast-"))
        for file in (self.path, log):
            shutil.copyfile(file, self._copied / file.name)
        return (self._copied / self.path.name).as_uri()

    def _opens(self, address: str) -> bool:
        try:
            with closing(apsw.Connection(address, flags=READ)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            return False
        except apsw.Error as error:
            raise setup.translation(error, self.path) from error
        return True

    def _check(self) -> None:
        with self._connection() as connection:
            setup.check_ours(connection, self.path)
            if outstanding("sqlite", applied_in(connection, self.path), str(self.path)):
                raise StoreUnavailable(
                    f"{self.path} has an older schema and cannot be written; have its owner run `outlast db upgrade`"
                )

    @contextmanager
    def _connection(self) -> Generator[apsw.Connection]:
        with setup.translated(self.path):
            flags = READ if self._copied is None else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
            connection = apsw.Connection(self._address, flags=flags)
            try:
                connection.set_busy_timeout(setup.BUSY_MS)
                connection.execute("PRAGMA trusted_schema=OFF")
                connection.execute("PRAGMA temp_store=MEMORY")
                if self._trouble is not None:
                    connection.execute("PRAGMA writable_schema=ON")  # lets SQLite read a truncated file
                yield connection
            finally:
                connection.close()

    @contextmanager
    def _view(self) -> Generator[SqliteView]:
        with self._connection() as connection:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("BEGIN")
            view = SqliteView(connection) if self._trouble is None else DamagedView(connection, self._trouble)
            with closing(view):
                yield view

    def _run(self, batch: list[PendingCommit]) -> None:
        why = "you cannot write there" if self._trouble is None else "it is damaged"
        error: OutlastError = StoreUnavailable(f"{self.path} is opened for reading only, because {why}")
        for entry in batch:
            entry.error = error

    def _changed(self) -> bool:
        return True

    def _close(self) -> None:
        if self._copied is not None:
            shutil.rmtree(self._copied, ignore_errors=True)

    def storage_path(self, session_id: str) -> Path:
        return self.path

    def backup(self, target: Path, progress: Progress | None = None) -> str:
        self._usable()
        if target.exists():
            raise StoreUnavailable(f"{target} exists already; a backup does not overwrite anything")
        with self._connection() as connection:
            copy_to(connection, target, progress)
        return f"sqlite:///{target}"


class DamagedView(SqliteView):
    """Read view of a database that cannot be opened normally; `checks` reports the reason first."""

    def __init__(self, connection: apsw.Connection, trouble: str) -> None:
        super().__init__(connection)
        self._trouble = trouble

    def checks(self, deep: bool) -> Iterator[StoreFlaw]:
        yield StoreFlaw(f"the database can only be read ({self._trouble})")
        yield from super().checks(deep)
