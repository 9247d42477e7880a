"""Connections of this process to one database file: writer, readers, `WriterLock`, checkpoints and migrations.

Each process has one `SqliteDatabase` per real path, however many stores are open on it: SQLite's locks belong to the
process, and two writers in one process would only block each other.
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
from outlast.store.sqlite.file_guard import FileGuard
from outlast.store.sqlite.rows import Acknowledged, First, Heads
from outlast.store.sqlite.writer_lock import WriterLock

CHECKPOINT_PAGES = 1_000  # SQLite's default: syncing a WAL that is overwritten is faster than one that grows
MUCH = 256 * 1024  # bytes
FORCED_PAGES = 32_768  # 64 MiB
FORCED_WAIT_MS = 200
MAX_IDLE_READERS = 8
MAX_HEADS = 1_024
MAX_ACKNOWLEDGED = 4_096
COPIED_AT_ONCE = 1_024  # pages
GATE_SECONDS = 30.0
FORK_WAIT_SECONDS = 2.0

_databases: dict[Path, SqliteDatabase] = {}
_mutex = threading.Lock()
_left_behind: list[SqliteDatabase] = []
_carried: set[tuple[int, int] | None] = set()
"""Files that were in use during a fork: the child inherited SQLite's in-memory record of their locks."""


class SqliteDatabase:
    """Get it from `shared`; the constructor opens, checks and migrates the database."""

    def __init__(self, path: Path, watch: UpgradeProgress | None = None) -> None:
        self.path = path
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
        self.acknowledged: Acknowledged = {}
        self._first: First | None = None
        self._heads_at = 0
        setup.check_version()
        setup.create(path)
        self.files = FileGuard(path)
        self._refuse_inherited()
        setup.check_file_system(path)
        self.writer = self._open_writer()  # before the lock file: leave no file next to a foreign database
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
            self.files.close()
            raise
        self.files.opened()

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
            with contextlib.suppress(apsw.Error):  # pages that were not checkpointed stay in the WAL
                self.writer.close(force=True)
            self.gate.close()
            self.files.close()

    # --- writing

    def ready(self) -> apsw.Connection:
        """Return the writer's connection, safe to write with.

        Frames that a recovery found in the WAL may never have reached the disk: after a failed sync, pages only look
        written. Later frames, and pages checkpointed from them, could be lost with them. So the WAL is rewritten in
        place after a failed commit, and once after opening, because another process may have left it in that state.
        Until then nothing is checkpointed into the database, not even on close.
        """
        if self._failed:
            self.writer.close(force=True)
            self.writer = self._open_writer()
            self.files.opened()
            self._failed = self._sound = False
            self._forget_heads(self._heads)  # data_version values are per connection
        if self.writer.in_transaction:  # an earlier batch was interrupted
            self.writer.execute("ROLLBACK")
        if not self._sound:
            self.writer.execute("BEGIN IMMEDIATE")  # keeps out all writers, even those that bypass `WriterLock`
            try:
                setup.rewrite_log(self.path)
            finally:
                self.writer.execute("ROLLBACK")
            self.writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            self._sound = True
        return self.writer

    def take_heads(self) -> tuple[Heads, First | None]:
        """Return the cached headers, or nothing if another connection has committed since; call inside a transaction.

        The cache is emptied: the caller changes the headers, and may put them back only after the commit.
        """
        heads, self._heads = self._heads, {}
        if heads and self.writer.data_version() == self._heads_at:
            return heads, self._first
        self._forget_heads(heads)
        return {}, None

    def _forget_heads(self, heads: Heads) -> None:
        """Empty the cache, but remember which events were acknowledged: the file must still contain them."""
        self._heads = {}
        for session_id, (sid, row) in heads.items():
            self.acknowledged.pop(session_id, None)
            self.acknowledged[session_id] = (sid, row.last_seq, row.head_hash)
        while len(self.acknowledged) > MAX_ACKNOWLEDGED:
            del self.acknowledged[next(iter(self.acknowledged))]

    def keep_heads(self, heads: Heads, first: First | None) -> None:
        """Cache the headers after the commit, so that the next batch need not read them."""
        if len(heads) <= MAX_HEADS:
            self._heads, self._first, self._heads_at = heads, first, self.writer.data_version()

    def distrust(self) -> None:
        """Mark the connection as unreliable after a failed commit or rollback; the next `ready` replaces it."""
        self._failed = True
        self.writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def checkpoint(self, written: int) -> None:
        """Checkpoint between batches: regularly, and by force once the WAL exceeds 64 MiB.

        The WAL's length is checked every 31 batches, and after each batch that wrote at least 256 KiB.
        """
        self._unlooked += 1
        if (self._unlooked < CHECKPOINT_PAGES // 32 and written < MUCH) or self._failed or not self._sound:
            return
        self._unlooked = 0
        pages, _ = self.writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        if pages < self._checkpoint_at - CHECKPOINT_PAGES:  # the WAL was restarted
            self._checkpoint_at = CHECKPOINT_PAGES
        if pages < self._checkpoint_at:
            return
        # An active reader can prevent the WAL from being emptied: retry after more pages, not with every batch.
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

    def _refuse_inherited(self) -> None:
        """Refuse a file whose locks SQLite believes this child holds; the kernel leaves them with the parent."""
        if self.files.inode in _carried:
            raise StoreUnavailable(
                f"{self.path} was in use at the moment this process was forked, and its locks do not pass to a child; "
                "fork when no thread reads or writes, or start a new process (multiprocessing: spawn)"
            )

    def _open_writer(self) -> apsw.Connection:
        connection = setup.connect(self.path)
        try:
            self._identify(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _identify(self, connection: apsw.Connection) -> None:
        """Retry while another process switches a new database to WAL mode: SQLite does not wait for that."""
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
        """Yield a connection inside a read transaction."""
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
        """Return a number that changes after every commit by any connection of any process."""
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
        """Close every connection: SQLite would otherwise believe that the child holds the parent's locks.

        The parent reopens them on demand. All of this object's locks stay held until `after_fork_in_parent`.
        """
        free = self.writing.acquire(timeout=FORK_WAIT_SECONDS)
        self._watching.acquire()
        self._readers_lock.acquire()
        if free and self._readers_lock.wait_for(lambda: self._reading == 0, FORK_WAIT_SECONDS):
            self._close_readers()
            with contextlib.suppress(apsw.Error):  # closed before an earlier fork and not reopened since
                self.distrust()
                self.writer.close(force=True)
        else:
            _carried.add(self.files.inode)  # a thread is reading or writing: the child must not open this store
        self._held = free

    def after_fork_in_parent(self) -> None:
        self._readers_lock.release()
        self._watching.release()
        if self._held:
            self.writing.release()
        _carried.discard(self.files.inode)

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
            # By SQL: `table_exists` answers from this connection's cached schema, which may be stale.
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
        """Check the free disk space and copy the database; does nothing for a new, empty one."""
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
        from outlast.store.sqlite.migrate import AFTER  # imported here because upgrades are rare

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
    """Make a consistent copy while other processes write; it is synced before it is renamed to `target`.

    `progress` receives the number of pages copied and the total.
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
            # If the caller opened a transaction, this read starts its snapshot: all steps then copy the same state.
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
    """Disown the parent's databases: the child must open stores of its own.

    The descriptor of `WriterLock` is closed: while the child has it open, the parent's lock would outlive the parent.
    Connections that could not be closed before the fork are kept, unused, until the child ends.
    """
    global _mutex
    _mutex = threading.Lock()
    for database in _databases.values():
        database.forked = True
        database.gate.close_in_child()
        _left_behind.append(database)
    _databases.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
