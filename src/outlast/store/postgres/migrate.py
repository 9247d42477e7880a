"""Checks the server, and migrates the schema of a PostgreSQL store, including the data steps of migrations.

A data step runs after its migration's SQL, inside the same transaction, and sees the tables as that migration leaves
them. So it names the columns it reads: later ones do not exist yet, and until migration 6 the schema has its former
name (`former_name`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, LiteralString

import psycopg
from psycopg.pq import TransactionStatus

from outlast.core.errors import StoreUnavailable
from outlast.core.event_row import StoredEvent
from outlast.store.engine.transaction import HeaderRow
from outlast.store.maintenance.header_rebuild import refold
from outlast.store.maintenance.migrations import AppliedMigration, Migration, Progress, UpgradeProgress, outstanding
from outlast.store.postgres import append_function, errors, former_name
from outlast.store.postgres.connection import ANSWER_SECONDS, LONG_SECONDS, PostgresConnection
from outlast.store.postgres.dsn import PostgresAddress
from outlast.store.process_identity import now_us

OLDEST = 140_000
MIGRATION_LOCK = 0x486F6C64  # the same in all versions
SCHEMA = "outlast"

SETTINGS = (
    "SELECT current_setting('fsync'), current_setting('server_encoding'), current_setting('server_version_num')::int, "
    "pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean, pg_backend_pid()"
)
APPLIED = "SELECT number, checksum, min_reader FROM outlast.migrations ORDER BY number"
# CREATE TABLE accepts STORAGE since PostgreSQL 16; older servers need ALTER TABLE afterwards.
TAKES_STORAGE = 160_000
READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
OWN_TIMEOUTS = "SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)"
"""For the transaction of a migration, whatever the role has set: the process that migrates first may take a while."""
RECORD = "INSERT INTO outlast.migrations VALUES (%s, %s, %s, %s, %s)"


def check_server(link: PostgresConnection, address: PostgresAddress) -> None:
    """Refuse a server that may lose acknowledged commits or cannot store our data; also detects a pooler."""
    fsync, encoding, version, read_only, backend = _row(link, SETTINGS)
    link.is_direct = backend == link.pgconn.backend_pid  # a pooler reports pids of its own
    where = address.shown
    if fsync != "on" and not address.allow_unsafe:
        raise StoreUnavailable(
            f"{where} runs with fsync={fsync} and would lose acknowledged messages in a power cut; set fsync = on, "
            "or add outlast_allow_unsafe=1 to the URL for data that may be lost"
        )
    if version < OLDEST:
        raise StoreUnavailable(f"{where} is PostgreSQL {version // 10_000}; Outlast needs {OLDEST // 10_000} or newer")
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"the database at {where} has the encoding {encoding}, which cannot hold every text; "
            "create one with: createdb --encoding=UTF8 --template=template0"
        )
    if read_only:
        raise StoreUnavailable(f"{where} is read-only, a standby for example; use the primary server's address")


def migrate(
    link: PostgresConnection, address: PostgresAddress, watch: UpgradeProgress | None = None
) -> append_function.RecordTypes:
    """Apply the outstanding migrations; return the OIDs of the record types used by appends."""
    try:
        if outstanding("postgres", applied_in(link, address), address.shown):
            _migrate(link, address, watch or UpgradeProgress())
        return append_function.RecordTypes(*_row(link, append_function.TYPES))
    except psycopg.Error as error:
        raise errors.translation(error, address) from error


def applied(url: str) -> list[AppliedMigration]:
    """Return the migrations of the store at a URL, without changing it."""
    address = PostgresAddress.parse(url)
    try:
        with PostgresConnection.to(address) as link:
            return applied_in(link, address)
    except psycopg.Error as error:
        raise errors.translation(error, address) from error


def applied_in(link: PostgresConnection, address: PostgresAddress) -> list[AppliedMigration]:
    """Return the applied migrations, under either name of the schema."""
    try:
        return _applied_in(link, address)
    except psycopg.errors.UndefinedTable:  # renamed meanwhile; inside a transaction a retry is impossible
        if link.pgconn.transaction_status != TransactionStatus.IDLE:
            raise
    return _applied_in(link, address)


def _applied_in(link: PostgresConnection, address: PostgresAddress) -> list[AppliedMigration]:
    found = _schemas(link, address)
    if found.get(former_name.SCHEMA):
        return [AppliedMigration(*row) for row in link.execute(former_name.APPLIED).fetchall()]
    return [AppliedMigration(*row) for row in link.execute(APPLIED).fetchall()] if found.get(SCHEMA) else []


def _schemas(link: PostgresConnection, address: PostgresAddress) -> dict[str, bool]:
    """Return which of our schema names exists, and whether it has a `migrations` table. Raises if both exist."""
    found: dict[str, bool] = dict(link.execute(former_name.LOOK).fetchall())
    if len(found) > 1:
        raise former_name.refusal(address.shown)
    return found


def _migrate(link: PostgresConnection, address: PostgresAddress, watch: UpgradeProgress) -> None:
    """Apply all migrations in one transaction, one process at a time; the next process finds nothing left to do.

    READ COMMITTED makes it see commits made while it waited for the lock, whatever the database's default isolation.
    """
    link.answer_seconds = LONG_SECONDS
    with link.transaction():
        link.execute(READ_COMMITTED)
        link.execute(OWN_TIMEOUTS)
        link.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        todo = outstanding("postgres", applied_in(link, address), address.shown)
        if todo and todo[0].number < former_name.RENAMED_BY:
            _make_room(link, address)
        for migration in todo:
            _apply(link, migration, watch)
    link.answer_seconds = ANSWER_SECONDS


def _make_room(link: PostgresConnection, address: PostgresAddress) -> None:
    """Create the schema for the first migrations under its former name, or rename an empty `outlast` to it."""
    found = _schemas(link, address)
    if former_name.SCHEMA not in found:
        link.execute(former_name.TAKE if SCHEMA in found else former_name.CREATE)


def _apply(link: PostgresConnection, migration: Migration, watch: UpgradeProgress) -> None:
    if link.info.server_version < TAKES_STORAGE and migration.number == 1:
        link.execute(migration.sql.replace(" STORAGE EXTERNAL", "").encode())
        link.execute(former_name.STORAGE)
    else:
        link.execute(migration.sql.encode())
    if migration.number in AFTER:
        AFTER[migration.number](link, watch.filling)
    record = former_name.RECORD if migration.number < former_name.RENAMED_BY else RECORD
    link.execute(record, (migration.number, migration.name, migration.checksum, migration.min_reader, now_us()))


def _row(link: PostgresConnection, statement: LiteralString) -> tuple[Any, ...]:
    found = link.execute(statement).fetchone()
    assert found is not None
    return found


PAGE = 256
SESSIONS = "SELECT count(*) FROM holdfast.sessions WHERE deleted_at IS NULL"
NAMES = (
    "SELECT session_id FROM holdfast.sessions WHERE deleted_at IS NULL AND session_id > %s ORDER BY session_id LIMIT %s"
)
EVENTS_OF_KINDS = (
    "SELECT seq, kind, v, at, actor, turn, key, epoch, enc, body, hash, redacted FROM holdfast.events "
    "WHERE session_id = %s AND seq > %s AND seq <= %s AND kind = ANY(%s) ORDER BY seq LIMIT %s"
)
HEADER = (
    "SELECT base_id, base_seq, last_seq, imported_seq, estimated_tokens, plan_mode, requests, work_since "
    "FROM holdfast.sessions WHERE session_id = %s"
)
BLOB = "SELECT data FROM holdfast.blobs WHERE session_id = %s AND sha256 = %s ORDER BY chunk"
FILL = (
    "UPDATE holdfast.sessions SET estimated_tokens = %s, plan_mode = %s, requests = %s, work_since = %s "
    "WHERE session_id = %s"
)


def fill_headers(link: PostgresConnection, progress: Progress | None) -> None:
    """Fill the header fields of migration 4."""
    [(total,)] = link.execute(SESSIONS).fetchall()
    past, done, after = _PostgresHistory(link), 0, ""
    while names := [name for (name,) in link.execute(NAMES, (after, PAGE)).fetchall()]:
        after = names[-1]
        for name in names:
            row = past.row(name)
            if row is not None and refold(row, past):
                values = (row.estimated_tokens, row.plan_mode, row.requests, row.work_since, row.session_id)
                link.execute(FILL, values)
        done += len(names)
        if progress is not None:
            progress(done, total)


class _PostgresHistory:
    """Stored sessions, in the form that `refold` reads."""

    def __init__(self, link: PostgresConnection) -> None:
        self._link = link

    def row(self, session_id: str) -> HeaderRow | None:
        found = self._link.execute(HEADER, (session_id,)).fetchone()
        if found is None:
            return None
        base_id, base_seq, last_seq, imported_seq, *filled = found
        row = HeaderRow(
            session_id=session_id, base_id=base_id, base_seq=base_seq, last_seq=last_seq, imported_seq=imported_seq
        )
        row.estimated_tokens, row.plan_mode, row.requests, row.work_since = filled
        return row

    def events(self, row: HeaderRow, kinds: tuple[str, ...], upto: int) -> Iterator[StoredEvent]:
        after = row.base_seq
        while True:
            values = (row.session_id, after, upto, list(kinds), PAGE)
            found = self._link.execute(EVENTS_OF_KINDS, values, binary=True).fetchall()
            yield from (StoredEvent(row.session_id, *event) for event in found)
            if len(found) < PAGE:
                return
            after = found[-1][0]

    def blob(self, row: HeaderRow, sha256: str) -> bytes:
        found = self._link.execute(BLOB, (row.session_id, sha256), binary=True).fetchall()
        return b"".join(data for (data,) in found)


AFTER: dict[int, Callable[[PostgresConnection, Progress | None], None]] = {4: fill_headers}
"""Data steps by migration number."""
