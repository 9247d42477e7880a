"""Migrations of both databases: they add up to the schema file, refuse what is not ours, and never stop half-way."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from outlast.core.errors import OutlastError, SchemaTooNew, StoreUnavailable
from outlast.core.events import SessionCreated
from outlast.core.header import Header
from outlast.store import open_store
from outlast.store.doctor.schema_status import schema_of
from outlast.store.maintenance import migrations
from outlast.store.maintenance.migrations import Migration
from outlast.store.port import Create, NewEvent
from tests.support.pg import PgServer, eventually

SESSION = "a" * 26
ONLY_POSTGRES = {(6, "outlast", 6)}
"""Renames the schema; the other databases have none."""
ONLY_SQLITE = {(6, "titles", 6)}
"""PostgreSQL keeps the titles in a column of their own."""

PG_SCHEMA = """
SELECT 'column', c.relname, c.relkind::text, a.attname, a.attnum::text, format_type(a.atttypid, a.atttypmod),
    a.attnotnull::text, a.attstorage::text, a.attcollation::regcollation::text, a.attgenerated::text,
    pg_get_expr(d.adbin, d.adrelid)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'outlast'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL SELECT 'index', indexname, indexdef, '', '', '', '', '', '', '', '' FROM pg_indexes
    WHERE schemaname = 'outlast'
UNION ALL SELECT 'table', relname, reloptions::text, '', '', '', '', '', '', '', '' FROM pg_class
    WHERE relnamespace = 'outlast'::regnamespace
UNION ALL SELECT 'constraint', conname, pg_get_constraintdef(oid), '', '', '', '', '', '', '', '' FROM pg_constraint
    WHERE connamespace = 'outlast'::regnamespace
UNION ALL SELECT 'function', proname, pg_get_functiondef(oid), '', '', '', '', '', '', '', '' FROM pg_proc
    WHERE pronamespace = 'outlast'::regnamespace
ORDER BY 1, 2, 3, 4
"""
SQLITE_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"


class SqlitePlace:
    """A SQLite store that a test may look into."""

    dialect = "sqlite"
    newest = migrations.newest("sqlite")

    def __init__(self, folder: Path) -> None:
        self.path = folder / "store.db"
        self.url = f"sqlite:///{self.path}"

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(self.path))
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def tables(self) -> list[tuple[Any, ...]]:
        return self.run(SQLITE_SCHEMA)

    another = "CREATE TABLE extra (n int);"
    broken = "CREATE TABLE extra (n int); SELECT nonsense FROM nowhere;"
    sessions = "SELECT count(*) FROM sessions"

    def slow(self) -> str:
        return (
            "CREATE TABLE extra (n INTEGER); INSERT INTO extra "
            "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 500000000) SELECT n FROM c;"
        )

    def is_at_it(self) -> bool:
        log = self.path.with_name("store.db-wal")
        return log.exists() and log.stat().st_size > 100_000


class PostgresPlace:
    """The same for PostgreSQL."""

    dialect = "postgres"
    newest = migrations.newest("postgres")

    def __init__(self, server: PgServer) -> None:
        self._server = server
        self.url = server.create_database()
        self.name = self.url.split("/")[3].split("?")[0]

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        tables = sql.replace("migrations", "outlast.migrations")
        return self._server.sql(tables, database=self.name)

    def tables(self) -> list[tuple[Any, ...]]:
        return self._server.sql(PG_SCHEMA, database=self.name)

    another = "CREATE TABLE outlast.extra (n int);"
    broken = "CREATE TABLE outlast.extra (n int); SELECT nonsense FROM nowhere;"
    sessions = "SELECT count(*) FROM outlast.sessions"

    def slow(self) -> str:
        return "CREATE TABLE outlast.extra (n int); SELECT pg_sleep(2);"

    def is_at_it(self) -> bool:
        query = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND wait_event = 'PgSleep'"
        return bool(self._server.sql(query, self.name))


Place = SqlitePlace | PostgresPlace


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, pg_server: PgServer) -> Iterator[Place]:
    if request.param == "sqlite":
        yield SqlitePlace(tmp_path)
        return
    place = PostgresPlace(pg_server)
    yield place
    pg_server.drop_database(place.url)


def extra(place: Place, sql: str, min_reader: int = 1) -> Migration:
    return Migration(place.newest + 1, "extra", sql, hashlib.sha256(sql.encode()).hexdigest(), min_reader)


def also(monkeypatch: pytest.MonkeyPatch, place: Place, *more: Migration) -> None:
    """As if this Outlast had more migrations."""
    known = (*migrations.migrations(place.dialect), *more)

    def fake(dialect: str) -> tuple[Migration, ...]:
        return known

    monkeypatch.setattr("outlast.store.maintenance.migrations.migrations", fake)
    monkeypatch.setattr("outlast.store.doctor.schema_status.migrations", fake)


def create(place: Place) -> None:
    with open_store(place.url) as store:
        store.commit(Create(header=Header(session_id=SESSION), events=(NewEvent(event=SessionCreated()),)))


def sql_file(dialect: str, name: str) -> str:
    return resources.files("outlast.store").joinpath("sql", dialect, name).read_text(encoding="utf-8")


def test_both_databases_have_the_same_migrations() -> None:
    named = [
        [(migration.number, migration.name, migration.min_reader) for migration in migrations.migrations(dialect)]
        for dialect in ("sqlite", "postgres")
    ]
    shared = [found for found in named[0] if found not in ONLY_SQLITE]
    assert shared == [found for found in named[1] if found not in ONLY_POSTGRES]
    assert set(named[0]) >= ONLY_SQLITE
    assert set(named[1]) >= ONLY_POSTGRES
    assert [number for number, *_ in named[0]] == list(range(1, len(named[0]) + 1))
    assert [number for number, *_ in named[1]] == list(range(1, len(named[1]) + 1))


def test_the_migrations_add_up_to_the_schema_file(place: Place, tmp_path: Path, pg_server: PgServer) -> None:
    create(place)
    other = SqlitePlace(tmp_path / "other") if place.dialect == "sqlite" else PostgresPlace(pg_server)
    if isinstance(other, SqlitePlace):
        other.path.parent.mkdir()
        other.run(sql_file("sqlite", "schema.sql"))
        assert other.tables() == place.tables()
    else:
        pg_server.sql(sql_file("postgres", "schema.sql"), database=other.name)
        assert other.tables() == place.tables()
        pg_server.drop_database(other.url)
    assert len(place.tables()) > 8


def test_a_schema_that_only_newer_versions_may_use_is_refused(place: Place) -> None:
    create(place)
    place.run("INSERT INTO migrations VALUES (9999, 'future', 'x', 9999, 0)")
    with pytest.raises(SchemaTooNew, match=f"has schema 9999, this Outlast knows {place.newest}: upgrade") as told:
        open_store(place.url)
    assert "\n" not in str(told.value)


def test_a_newer_schema_that_this_version_may_still_use_is_used(place: Place) -> None:
    create(place)
    place.run("INSERT INTO migrations VALUES (9999, 'future', 'x', 1, 0)")
    with open_store(place.url) as store:
        assert store.head(SESSION).last_seq == 1


def test_a_migration_of_other_content_is_refused(place: Place) -> None:
    create(place)
    place.run("UPDATE migrations SET checksum = 'other' WHERE number = 1")
    with pytest.raises(StoreUnavailable, match="migration 1 was applied with other content"):
        open_store(place.url)


def test_a_second_migration_is_applied_once_and_keeps_what_was_there(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(place)
    also(monkeypatch, place, extra(place, place.another))
    for _ in range(2):
        with open_store(place.url) as store:
            assert store.head(SESSION).last_seq == 1
    assert [row[0] for row in place.run("SELECT number FROM migrations ORDER BY number")] == list(
        range(1, place.newest + 2)
    )
    schema = schema_of(place.url)
    assert (schema.version, schema.applied[0], schema.outstanding) == (place.newest + 1, "0001_log", [])
    assert schema.applied[-1] == f"{place.newest + 1:04d}_extra"


def test_a_migration_that_fails_leaves_the_old_schema(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    create(place)
    before = place.tables()
    with monkeypatch.context() as patched:
        also(patched, place, extra(place, place.broken))
        with pytest.raises(OutlastError):
            open_store(place.url)
    assert place.tables() == before
    with open_store(place.url) as store:
        assert store.head(SESSION).last_seq == 1


KILLED = """
import sys
from outlast.store import open_store
from outlast.store.maintenance import migrations
from outlast.store.maintenance.migrations import Migration
known = (*migrations.migrations(sys.argv[2]), Migration(99, "extra", sys.argv[3], "x", 1))
migrations.migrations = lambda dialect: known
open_store(sys.argv[1])
"""


def test_a_process_killed_in_the_middle_of_a_migration_leaves_the_old_schema(place: Place) -> None:
    create(place)
    before = place.tables()
    with subprocess.Popen([sys.executable, "-c", KILLED, place.url, place.dialect, place.slow()]) as process:
        try:
            eventually(place.is_at_it, 30)
        finally:
            process.send_signal(signal.SIGKILL)
    with open_store(place.url) as store:
        assert store.head(SESSION).last_seq == 1
    eventually(lambda: not isinstance(place, PostgresPlace) or not place.is_at_it())
    assert place.tables() == before


def test_before_a_second_migration_sqlite_makes_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = SqlitePlace(tmp_path)
    create(place)
    with monkeypatch.context() as patched:
        also(patched, place, extra(place, "CREATE TABLE extra (n int);"))
        open_store(place.url).close()
    [backup] = tmp_path.glob(f"store.db.before-{place.newest + 1:04d}.*")
    assert backup.stat().st_mode & 0o777 == 0o600
    with open_store(f"sqlite:///{backup}") as store:
        assert store.head(SESSION).last_seq == 1
    with pytest.raises(apsw.SQLError):
        apsw.Connection(str(backup)).execute("SELECT * FROM extra")


OPEN = """
import sys
from outlast.core.ids import id_from
from outlast.core.events import SessionCreated
from outlast.core.header import Header
from outlast.store import open_store
from outlast.store.port import Create, NewEvent
import os
sys.stdin.readline()
with open_store(sys.argv[1]) as store:
    store.commit(Create(header=Header(session_id=id_from(os.urandom(16))), events=(NewEvent(event=SessionCreated()),)))
"""


def test_processes_that_open_a_fresh_store_at_once_all_get_it(place: Place) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", OPEN, place.url], stdin=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        process.communicate(b"\n", timeout=60)
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert place.run("SELECT count(*) FROM migrations") == [(len(migrations.migrations(place.dialect)),)]
    assert place.run(place.sessions) == [(4,)]


def test_a_postgres_session_archived_by_an_older_version_has_still_ended(
    pg_server: PgServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Migration 2 finds in the log what the header of version 1 did not say."""
    place = PostgresPlace(pg_server)
    first = migrations.migrations("postgres")[:1]
    pg_server.sql("CREATE SCHEMA holdfast; " + first[0].sql, database=place.name)
    record = "INSERT INTO holdfast.migrations VALUES (1, 'log', %s, 1, 0)"
    pg_server.sql(record, first[0].checksum, database=place.name)
    lives = {"a": ["SessionEnded"], "b": ["SessionEnded", "SessionReopened"], "c": [], "d": ["SessionRotated"]}
    for letter, kinds in lives.items():
        pg_server.sql(
            "INSERT INTO holdfast.sessions SELECT (jsonb_populate_record(null::holdfast.sessions, %s)).*",
            _archived(letter * 26, len(kinds) + 1),
            database=place.name,
        )
        for seq, kind in enumerate([*kinds, "SessionArchived"], 1):
            pg_server.sql(
                "INSERT INTO holdfast.events (session_id, seq, v, at, kind, actor, enc, hash, body) "
                "VALUES (%s, %s, 1, 0, %s, 'user', 'plain', '', '{}')",
                letter * 26,
                seq,
                kind,
                database=place.name,
            )
    with open_store(place.url) as store:
        assert {letter: store.head(letter * 26).has_ended for letter in lives} == {
            "a": True,
            "b": False,
            "c": False,
            "d": True,
        }
    pg_server.drop_database(place.url)


def _archived(session_id: str, last_seq: int) -> str:
    counts = ("base_seq", "depth", "message_count", "input_tokens", "output_tokens", "pending_count", "boundary_seq")
    times = ("created_at", "updated_at", "epoch", "lease_since", "lease_expires", "activity")
    texts = {"session_id": session_id, "owner_id": "local", "root_id": session_id, "state": "archived"}
    numbers = dict.fromkeys((*counts, *times), 0) | {"last_seq": last_seq}
    return msgspec.json.encode({**texts, **numbers, "titled": False, "head_hash": "\\x"}).decode()
