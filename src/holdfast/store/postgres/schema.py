"""Is this a server that can keep our promises, and are the tables in it ours?"""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg

from holdfast.core.errors import StoreUnavailable
from holdfast.store.host import now_us
from holdfast.store.migrations import Applied, Migration, Watch, outstanding
from holdfast.store.postgres import appending, faults
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.link import ANSWER_SECONDS, LONG_SECONDS, Link

OLDEST = 140_000
MIGRATION_LOCK = 0x486F6C64  # "Hold"

SETTINGS = (
    "SELECT current_setting('fsync'), current_setting('server_encoding'), current_setting('server_version_num')::int, "
    "pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean, pg_backend_pid()"
)
# From the tables themselves: `to_regclass` may answer from before the migration lock was waited for.
HAS_SCHEMA = (
    "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'holdfast'), EXISTS (SELECT FROM pg_class c "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'holdfast' AND c.relname = 'migrations')"
)
APPLIED = "SELECT number, checksum, min_reader FROM holdfast.migrations ORDER BY number"
# A table is created with its columns' storage only since PostgreSQL 16; before, it is told afterwards.
TAKES_STORAGE = 160_000
STORAGE = """
ALTER TABLE holdfast.events ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE holdfast.chunks ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE holdfast.blobs ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE holdfast.snapshots ALTER COLUMN state SET STORAGE EXTERNAL;
"""
RECORD = "INSERT INTO holdfast.migrations VALUES (%s, %s, %s, %s, %s)"


def check_server(link: Link, address: Address) -> None:
    """Refuse a server that may lose what it has acknowledged, or cannot store what we write."""
    fsync, encoding, version, read_only, backend = _row(link, SETTINGS)
    link.is_direct = backend == link.pgconn.backend_pid  # a pooler gives out numbers of its own
    where = address.shown
    if fsync != "on" and not address.allow_unsafe:
        raise StoreUnavailable(
            f"{where} runs with fsync={fsync} and would lose acknowledged messages in a power cut; set fsync = on, "
            "or add holdfast_allow_unsafe=1 to the URL for data that may be lost"
        )
    if version < OLDEST:
        raise StoreUnavailable(f"{where} is PostgreSQL {version // 10_000}; Holdfast needs {OLDEST // 10_000} or newer")
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"the database at {where} has the encoding {encoding}, which cannot hold every text; "
            "create one with: createdb --encoding=UTF8 --template=template0"
        )
    if read_only:
        raise StoreUnavailable(f"{where} is read-only, a standby for example; use the primary server's address")


def migrate(link: Link, address: Address, watch: Watch | None = None) -> appending.Types:
    """Bring the tables up to date, and tell the numbers of the record types that appends are sent in."""
    try:
        if outstanding("postgres", applied_in(link), address.shown):
            _migrate(link, address, watch or Watch())
        return appending.Types(*_row(link, appending.TYPES))
    except psycopg.Error as error:
        raise faults.translation(error, address) from error


def applied(url: str) -> list[Applied]:
    """Which migrations the store at a URL has, read without changing it."""
    address = Address.parse(url)
    try:
        with Link.to(address) as link:
            return applied_in(link)
    except psycopg.Error as error:
        raise faults.translation(error, address) from error


def applied_in(link: Link) -> list[Applied]:
    _, has_table = _row(link, HAS_SCHEMA)
    return [Applied(*row) for row in link.execute(APPLIED).fetchall()] if has_table else []


def _migrate(link: Link, address: Address, watch: Watch) -> None:
    """All of them in one transaction, by one process at a time; whoever comes second finds nothing left to do."""
    link.answer_seconds = LONG_SECONDS
    with link.transaction():
        link.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        todo = outstanding("postgres", applied_in(link), address.shown)
        has_schema, _ = _row(link, HAS_SCHEMA)
        if todo and not has_schema:
            link.execute("CREATE SCHEMA holdfast")
        for migration in todo:
            _apply(link, migration, watch)
    link.answer_seconds = ANSWER_SECONDS


def _apply(link: Link, migration: Migration, watch: Watch) -> None:
    from holdfast.store.postgres.upgrading import AFTER  # here and not above: a store is upgraded once

    if link.info.server_version < TAKES_STORAGE and migration.number == 1:
        link.execute(migration.sql.replace(" STORAGE EXTERNAL", "").encode())
        link.execute(STORAGE)
    else:
        link.execute(migration.sql.encode())
    if migration.number in AFTER:
        AFTER[migration.number](link, watch.filling)
    link.execute(RECORD, (migration.number, migration.name, migration.checksum, migration.min_reader, now_us()))


def _row(link: Link, statement: LiteralString) -> tuple[Any, ...]:
    found = link.execute(statement).fetchone()
    assert found is not None
    return found
