"""One database file in this process: the writer's connection, the readers', the gate, the checkpoints.

There is one of these per real path and process, however many stores are open on it, because SQLite's locks belong to
the process and two writers of one process would only get in each other's way.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apsw

from outlast.core.errors import StoreUnavailable
from outlast.store.maintenance.migrations import AppliedMigration, Migration, UpgradeProgress, outstanding
from outlast.store.process_identity import now_us
from outlast.store.sqlite import setup
from outlast.store.sqlite.rows import First, Heads
from outlast.store.sqlite.writer_lock import WriterLock

CHECKPOINT_PAGES = 1_000  # as SQLite's own: a log that is written over is synced sooner than one that grows
MUCH = 256 * 1024  # bytes
FORCED_PAGES = 32_768  # 64 MiB
FORCED_WAIT_MS = 200
MAX_IDLE_READERS = 8
MAX_HEADS = 1_024
COPIED_AT_ONCE = 1_024  # pages
GATE_SECONDS = 30.0
FORK_WAIT_SECONDS = 2.0

_databases: dict[Path, SqliteDatabase] = {}
_mutex = threading.Lock()
_left_behind: list[SqliteDatabase] = []
_carried: set[tuple[int, int] | None] = set()
"""Files that were in use at the moment of a fork, so that SQLite's memory of their locks came along."""


class SqliteDatabase:
    """Use `shared`; the constructor opens, checks and migrates."""

    def __init__(self, path: Path, watch: UpgradeProgress | None = None) -> None:
        self.path = path
        self._name = str(path)
        self.users = 0
        self.forked = False
        self.writing = threading.RLock()
        self._readers: list[apsw.Connection] = []
        self._reading = 0
        self._readers_lock = threading.Condition()
        self._watcher: apsw.Connection | None = None
        self._watching = threading.Lock()
        self._held = False
        self._sound = False
        self._failed = False
        self._unlooked = 0
        self._checkpoint_at = CHECKPOINT_PAGES
        self._heads: Heads = {}
        self._first: First | None = None
        self._heads_at = 0
        setup.check_version()
        setup.create(path)
        self._refuse_inherited()
        setup.check_file_system(path)
        self.writer = self._open_writer()  # before the gate: no file is left beside a database that is not ours
        try:
            self.gate = WriterLock(path.with_name(path.name + ".gate"), GATE_SECONDS)
        except BaseException:
            self.writer.close()
            raise
        try:
            self._migrate(watch or UpgradeProgress())
        except BaseException:
            self.writer.close()
            self.gate.close()
            raise
        self.inode = self._stat()

    @classmethod
    def shared(cls, path: Path, watch: UpgradeProgress | None = None) -> SqliteDatabase:
        real = path.resolve()
        with _mutex:
            database = _databases.get(real)
            if database is None:
                database = _databases[real] = cls(real, watch)
            database.users += 1
            return database

    def let_go(self) -> None:
        with _mutex:
            self.users -= 1
            if self.users:
                return
            _databases.pop(self.path, None)
        with self.writing:
            with self._watching, self._readers_lock:
                self._close_readers()
            with contextlib.suppress(apsw.Error):  # what could not be moved into the database stays in the log
                self.writer.close(force=True)
            self.gate.close()

    # --- writing

    def ready(self) -> apsw.Connection:
        """The writer's connection, fit to write.

        What a recovery found in the log may never have reached the disk: a failed sync leaves pages that only look
        written. Whatever went into the log behind them, or from them into the database, could be lost with them. So the
        log is written once more over itself: after a commit that failed, and once after opening, because another
        process may have left it so. Until then nothing moves from the log to the database, not by closing either.
        """
        if self._failed:
            self.writer.close(force=True)
            self.writer = self._open_writer()
            self._failed = self._sound = False
            self._heads = {}  # versions of one connection mean nothing to another
        if self.writer.in_transaction:  # whoever had it was interrupted
            self.writer.execute("ROLLBACK")
        if not self._sound:
            self.writer.execute("BEGIN IMMEDIATE")  # nobody may write meanwhile, not even without our gate
            try:
                setup.rewrite_log(self.path)
            finally:
                self.writer.execute("ROLLBACK")
            self.writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            self._sound = True
        return self.writer

    def take_heads(self) -> tuple[Heads, First | None]:
        """The headers as this process stored them last, unless anybody has written since; inside a transaction.

        They are given away: whoever takes them changes them, and only what is committed may be kept.
        """
        heads, self._heads = self._heads, {}
        if heads and self.writer.data_version() == self._heads_at:
            return heads, self._first
        return {}, None

    def keep_heads(self, heads: Heads, first: First | None) -> None:
        """After the commit: it saves the next one reading them."""
        if len(heads) <= MAX_HEADS:
            self._heads, self._first, self._heads_at = heads, first, self.writer.data_version()

    def distrust(self) -> None:
        """Commit or rollback failed: what this connection thinks is stored may not be. The next `ready` replaces it."""
        self._failed = True
        self.writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def checkpoint(self, written: int) -> None:
        """Between batches: move the log into the database now and then, and never let it grow past 64 MiB.

        How long it is, is looked up when it may have grown by a few hundredths of that, or when much was written.
        """
        self._unlooked += 1
        if (self._unlooked < CHECKPOINT_PAGES // 32 and written < MUCH) or self._failed or not self._sound:
            return
        self._unlooked = 0
        pages, _ = self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        if pages < self._checkpoint_at - CHECKPOINT_PAGES:  # the log began anew
            self._checkpoint_at = CHECKPOINT_PAGES
        if pages < self._checkpoint_at:
            return
        # Whoever reads right now may keep the log from being emptied: then try again later, not with every batch.
        self._checkpoint_at = pages + CHECKPOINT_PAGES
        if pages < FORCED_PAGES:
            self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            return
        self.writer.set_busy_timeout(FORCED_WAIT_MS)
        try:
            self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return
        finally:
            self.writer.set_busy_timeout(setup.BUSY_MS)

    def check_in_place(self) -> None:
        """Refuse to write to a file that is not under its name any more."""
        try:
            found = os.stat(self._name)
            here = (found.st_dev, found.st_ino) == self.inode
        except OSError:
            here = False
        if not here:
            raise StoreUnavailable(
                f"{self.path} was moved, deleted or replaced while it was open; end this process and start again"
            )

    def _refuse_inherited(self) -> None:
        """SQLite believes to hold the locks that the parent has; the kernel does not give them to a child."""
        if self._stat() in _carried:
            raise StoreUnavailable(
                f"{self.path} was in use at the moment this process was forked, and its locks do not pass to a child; "
                "fork when nobody reads or writes, or start the process anew (multiprocessing: spawn)"
            )

    def _stat(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._name)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _open_writer(self) -> apsw.Connection:
        connection = setup.connect(self.path)
        try:
            self._identify(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _identify(self, connection: apsw.Connection) -> None:
        """Several processes may open a new database at once, and SQLite does not wait for one that changes its mode."""
        deadline = time.monotonic() + setup.BUSY_MS / 1000
        while True:
            try:
                setup.identify(connection, self.path)
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, apsw.BusyError) or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                return

    # --- reading

    @contextmanager
    def reader(self) -> Generator[apsw.Connection]:
        """A connection inside a read transaction."""
        with self._readers_lock:
            connection = self._readers.pop() if self._readers else None
            self._reading += 1
        try:
            with setup.translated(self.path):
                if connection is None:
                    connection = setup.connect(self.path)
                    connection.execute("PRAGMA query_only=ON")
                connection.execute("BEGIN")
                yield connection
        finally:
            self._give_back(connection)

    def _give_back(self, connection: apsw.Connection | None) -> None:
        try:
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        finally:
            with self._readers_lock:
                self._reading -= 1
                if connection is not None and len(self._readers) < MAX_IDLE_READERS and self.users:
                    self._readers.append(connection)
                elif connection is not None:
                    connection.close()
                self._readers_lock.notify_all()

    def version(self) -> int:
        """A number that changes whenever any connection, of any process, has committed."""
        with self._watching:
            if self._watcher is None:
                self._watcher = setup.connect(self.path)
            return cast("int", self._watcher.pragma("data_version"))

    def _close_readers(self) -> None:
        for connection in (*self._readers, *([self._watcher] if self._watcher else [])):
            connection.close()
        self._readers, self._watcher = [], None

    # --- forking

    def before_fork(self) -> None:
        """Close every connection: SQLite would believe that the child holds the locks which the parent has.

        They are opened again by whoever needs them, in the parent. All of this object's locks stay taken until then.
        """
        free = self.writing.acquire(timeout=FORK_WAIT_SECONDS)
        self._watching.acquire()
        self._readers_lock.acquire()
        if free and self._readers_lock.wait_for(lambda: self._reading == 0, FORK_WAIT_SECONDS):
            self._close_readers()
            with contextlib.suppress(apsw.Error):  # closed by an earlier fork and not needed since
                self.distrust()
                self.writer.close(force=True)
        else:
            _carried.add(self.inode)  # somebody is at work: the child cannot have this store
        self._held = free

    def after_fork_in_parent(self) -> None:
        self._readers_lock.release()
        self._watching.release()
        if self._held:
            self.writing.release()
        _carried.discard(self.inode)

    # --- migrations

    def _migrate(self, watch: UpgradeProgress) -> None:
        if not self._outstanding():
            return
        self.gate.pass_through(lambda: self._migrate_now(watch))

    def _migrate_now(self, watch: UpgradeProgress) -> None:
        todo = self._outstanding()
        if todo:
            self._prepare(todo, watch)
            with setup.translated(self.path):
                self.ready()
                self._apply(todo, watch)

    def applied(self) -> list[AppliedMigration]:
        with setup.translated(self.path):
            # Asked by SQL: `table_exists` answers from what this connection has read of the schema, which may be old.
            if not self.writer.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'migrations'").get:
                return []
            found = self.writer.execute(
                "SELECT number, checksum, min_reader FROM migrations ORDER BY number"
            ).fetchall()
            if any(list(map(type, row)) != [int, str, int] for row in found):
                raise StoreUnavailable(f"{self.path} is damaged (its list of migrations); restore it from a backup")
            return [AppliedMigration(*cast("tuple[int, str, int]", row)) for row in found]

    def _outstanding(self) -> list[Migration]:
        return outstanding("sqlite", self.applied(), str(self.path))

    def _prepare(self, todo: list[Migration], watch: UpgradeProgress) -> None:
        """Room for the work and a copy of what was there, unless there was nothing."""
        if not self.applied():
            return
        size = self.path.stat().st_size
        free = shutil.disk_usage(self.path.parent).free
        if free < 3 * size + 16 * 1024 * 1024:
            raise StoreUnavailable(
                f"upgrading {self.path} to schema {todo[-1].number} needs {3 * size // 2**20 + 16} MiB of free disk, "
                f"there are {free // 2**20} MiB; free some space and try again"
            )
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        copy = self.path.with_name(f"{self.path.name}.before-{todo[0].number:04d}.{stamp}")
        copy_to(self.writer, copy, watch.copying)
        watch.copy = copy

    def _apply(self, todo: list[Migration], watch: UpgradeProgress) -> None:
        from outlast.store.sqlite.migrate import AFTER  # here and not above: a store is upgraded once

        self.writer.pragma("application_id", setup.APPLICATION_ID)
        self.writer.execute("BEGIN IMMEDIATE")
        try:
            for migration in todo:
                self.writer.execute(migration.sql).fetchall()
                if migration.number in AFTER:
                    AFTER[migration.number](self.writer, watch.filling)
                values = (migration.number, migration.name, migration.checksum, migration.min_reader, now_us())
                self.writer.execute("INSERT INTO migrations VALUES (?, ?, ?, ?, ?)", values)
            self.writer.execute("COMMIT")
        except BaseException:
            if self.writer.in_transaction:
                self.writer.execute("ROLLBACK")
            raise


def copy_to(connection: apsw.Connection, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """An online copy: consistent, made while others write; synced before it takes its name.

    `progress` is told how many pages are copied, and of how many.
    """
    partial = target.with_name(target.name + ".partial")
    partial.unlink(missing_ok=True)
    setup.create(partial)
    try:
        _copy_pages(connection, partial, progress)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    descriptor = os.open(partial, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    os.replace(partial, target)
    folder = os.open(target.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _copy_pages(connection: apsw.Connection, partial: Path, progress: Callable[[int, int], None] | None) -> None:
    with setup.translated(partial):
        copy = apsw.Connection(str(partial))
        try:
            # Reading begins the transaction, if there is to be one: then all steps see the same moment.
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            with copy.backup("main", connection, "main") as backup:
                while not backup.done:
                    backup.step(COPIED_AT_ONCE)
                    if progress is not None:
                        progress(backup.page_count - backup.remaining, backup.page_count)
        finally:
            copy.close()


def _before_fork() -> None:
    _mutex.acquire()
    for database in _databases.values():
        database.before_fork()


def _after_fork_in_parent() -> None:
    for database in _databases.values():
        database.after_fork_in_parent()
    _mutex.release()


def _after_fork_in_child() -> None:
    """What the parent opened is not the child's: it opens stores of its own.

    The gate's descriptor is closed: while the child has it, the parent's lock would outlive the parent. Connections
    that could not be closed before are kept, unused, until the child ends.
    """
    global _mutex
    _mutex = threading.Lock()
    for database in _databases.values():
        database.forked = True
        database.gate.close_in_child()
        _left_behind.append(database)
    _databases.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
