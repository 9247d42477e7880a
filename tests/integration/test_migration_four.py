"""A store of schema 3 gets what migration 4 adds: the same headers as if this version had written it all."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from outlast.core import events as e
from outlast.core.header import REQUESTS, Header
from outlast.core.messages import TextPart, Usage
from outlast.doors.cli import main
from outlast.store import open_store
from outlast.store.doctor.schema_status import schema_of
from outlast.store.engine.transaction import HeaderRow
from outlast.store.files.header_cache import CachedHeader
from outlast.store.files.line import encode
from outlast.store.lineage import fork
from outlast.store.log_store import LogStore
from outlast.store.maintenance import migrations
from outlast.store.port import Append, Create, Delete, NewEvent, Query, Redact, Restore
from outlast.store.verify import verify
from tests.support.pg import PgServer
from tests.unit.store.populated import new_id, populate

ADDED = ("estimated_tokens", "plan_mode", "requests", "work_since")
TABLES = ("sessions", "events", "keys", "lineage", "chunks", "routes", "blobs", "snapshots")
LARGE = "a question that lies in a blob " * 4_000


def lived(store: LogStore) -> dict[str, str]:
    """One of everything, and sessions that have something to say about the new fields."""
    names = populate(store)

    def begin(what: str, *events: e.Event, **settings: Any) -> str:
        name = names[what] = new_id()
        news = tuple(NewEvent(event=event, turn="t") for event in (e.SessionCreated(settings=settings), *events))
        store.commit(Create(header=Header(session_id=name), events=news))
        return name

    plan = e.RuntimeStateChanged(changes={"workflow_mode": "plan"})
    asked = e.InputAdmitted(parts=(TextPart("x" * 400),))
    begin("waits", asked, e.InputAdmitted(parts=(TextPart(LARGE),)))
    begin("plans", asked, plan, e.TurnStarted(inputs=[2]), plan_mode=False)
    begin("settings", plan_mode=True)
    begin("asked for", e.BoundaryRequested(what="clear"), e.BoundaryRequested(what="compact"), e.HistoryCleared())
    answered = e.AssistantReplied(attempt_seq=1, parts=(TextPart("y"),), usage=Usage(input_tokens=7))
    begin("answered", asked, answered, e.TurnEnded(outcome="done", answered=[2]))
    begin("ended", asked, e.SessionClosed())
    hidden = begin("hidden", asked, plan, e.BoundaryRequested(what="rewind"))
    for seq in (2, 3, 4):
        store.commit(Redact(session_id=hidden, seq=seq, actor="user"))
    child = names["child"] = new_id()
    store.commit(fork(store.head(hidden), child), Append(session_id=child, events=(NewEvent(event=asked),)))
    gone = begin("gone", asked)
    store.commit(Delete(session_id=gone, actor="user"))
    return names


def imported(store: LogStore, names: dict[str, str], origin: LogStore) -> None:
    """A session from elsewhere with an open request, which nobody carries out here."""
    name = new_id()
    request = (e.SessionCreated(), e.BoundaryRequested(what="clear"), e.InputAdmitted(parts=(TextPart("hm"),)))
    news = tuple(NewEvent(event=event) for event in request)
    origin.commit(Create(header=Header(session_id=name), events=news))
    store.commit(Restore(header=Header(session_id=name), events=tuple(origin.read(name))))
    names["imported"] = name


def added(store: LogStore, names: dict[str, str]) -> dict[str, list[object]]:
    gone = ("deleted", "gone")
    heads = {what: store.head(name) for what, name in names.items() if what not in gone}
    return {what: [getattr(head, name) for name in ADDED] for what, head in heads.items()}


def waiting(store: LogStore) -> list[str]:
    return [header.session_id for header in store.find(Query(pending=True, oldest_first=True)).headers]


def first_three(dialect: str) -> list[migrations.Migration]:
    return [migration for migration in migrations.migrations(dialect) if migration.number <= 3]


def older_sqlite(new: Path, old: Path) -> None:
    """The same rows under schema 3, with the headers that it knew."""
    with closing(apsw.Connection(str(old))) as connection:
        connection.execute("PRAGMA page_size = 2048; PRAGMA journal_mode = wal").fetchall()
        connection.pragma("application_id", 0x486F6C64)
        connection.execute("ATTACH ? AS new", (str(new),))
        for one in first_three("sqlite"):
            connection.execute(one.sql).fetchall()
            connection.execute("INSERT INTO migrations SELECT * FROM new.migrations WHERE number = ?", (one.number,))
        for table in TABLES:
            columns = connection.execute("SELECT name FROM main.pragma_table_info(?)", (table,)).fetchall()
            names = ", ".join(str(name) for (name,) in columns)
            connection.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM new.{table}")  # noqa: S608
        for sid, header in connection.execute("SELECT sid, header FROM main.sessions").fetchall():
            assert isinstance(header, bytes)
            fields = msgspec.json.decode(header)
            data = msgspec.json.encode({name: value for name, value in fields.items() if name not in ADDED})
            values = (data, zlib.crc32(data), sid)
            connection.execute("UPDATE main.sessions SET header = ?, crc = ? WHERE sid = ?", values)


def older_postgres(server: PgServer, new: str, old: str, tables: tuple[str, ...] = TABLES) -> None:
    server.sql("CREATE SCHEMA holdfast", database=old)
    for migration in first_three("postgres"):
        server.sql(migration.sql, database=old)
        values = (migration.number, migration.name, migration.checksum, migration.min_reader)
        server.sql("INSERT INTO holdfast.migrations VALUES (%s, %s, %s, %s, 0)", *values, database=old)
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"
    for table in tables:
        names = ", ".join(name for (name,) in server.sql(columns, f"holdfast.{table}", database=old))
        for row in server.sql(f"SELECT {names} FROM outlast.{table}", database=new):  # noqa: S608 - names of ours
            marks = ", ".join(["%s"] * len(row))
            server.sql(f"INSERT INTO holdfast.{table} ({names}) VALUES ({marks})", *row, database=old)  # noqa: S608


@pytest.fixture(params=["sqlite", "postgres"])
def upgraded(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[str, dict[str, str], dict[str, list[object]], list[str]]]:
    """A store of schema 3, its sessions, and what this version's own headers say."""
    server: PgServer | None = request.getfixturevalue("pg_server") if request.param == "postgres" else None
    url = server.create_database() if server else f"sqlite:///{tmp_path}/new.db"
    with open_store(url) as store, open_store(f"sqlite:///{tmp_path}/origin.db") as origin:
        names = lived(store)
        imported(store, names, origin)
        told, work = added(store, names), waiting(store)
    if server is None:
        older_sqlite(tmp_path / "new.db", tmp_path / "old.db")
        yield f"sqlite:///{tmp_path}/old.db", names, told, work
        return
    old = server.create_database()
    source, target = (place.split("/")[3].split("?")[0] for place in (url, old))
    older_postgres(server, source, target)
    yield old, names, told, work
    for place in (url, old):
        server.drop_database(place)


def test_the_headers_of_schema_3_are_filled_from_their_logs(
    upgraded: tuple[str, dict[str, str], dict[str, list[object]], list[str]],
) -> None:
    url, names, told, work = upgraded
    assert schema_of(url).version == 3
    with open_store(url) as store:
        found = added(store, names)
        assert found == told
        assert found["waits"][:2] == [100 + (len(LARGE) + 3) // 4, False]
        assert [found[what][2] for what in ("asked for", "imported")] == [REQUESTS["compact"], 0]
        assert [found[what][1] for what in ("plans", "settings", "child", "answered")] == [True, True, True, False]
        assert waiting(store) == work
        assert [finding.line() for finding in verify(store, deep=True).damage] == []
        store.commit(Append(session_id=names["waits"], events=(NewEvent(event=e.InputWithdrawn(inputs=[2, 3])),)))
        assert names["waits"] not in waiting(store)
        assert [finding.line() for finding in verify(store).damage] == []
    dialect = "sqlite" if url.startswith("sqlite") else "postgres"
    assert schema_of(url).version == migrations.newest(dialect)


def test_before_an_upgrade_of_postgres_a_dump_is_advised(
    pg_server: PgServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = pg_server.create_database()
    older_postgres(pg_server, "postgres", url.split("/")[3].split("?")[0], tables=())
    for command, told in (("version", "run `pg_dump` first"), ("upgrade", "schema 3 -> "), ("version", "none")):
        assert main(["db", command, "--store", url]) == 0
        assert told in capsys.readouterr().out
    pg_server.drop_database(url)


def test_a_damaged_session_does_not_keep_a_store_from_being_upgraded(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/new.db") as store:
        names = lived(store)
        told = added(store, names)
    old = tmp_path / "old.db"
    older_sqlite(tmp_path / "new.db", old)
    with closing(apsw.Connection(str(old))) as connection:
        connection.execute("UPDATE sessions SET crc = crc + 1 WHERE session_id = ?", (names["waits"],))
        spoil = "UPDATE events SET body = X'28B52FFD00' FROM sessions s WHERE id = s.sid << 32 | 3 AND s.session_id = ?"
        connection.execute(spoil, (names["plans"],))
    with open_store(f"sqlite:///{old}") as store:
        assert store.find(Query()).damaged == [names["waits"]]
        del names["waits"], told["waits"], told["plans"]
        found = added(store, names)
        assert found.pop("plans")[0] == 100
        assert found == told


def test_a_files_store_believes_no_note_that_an_older_version_left(tmp_path: Path) -> None:
    url = f"files:///{tmp_path}/store"
    with open_store(url) as store:
        names = lived(store)
        told = added(store, names)
    for path, changed in ((tmp_path / "a", _of_an_older_version), (tmp_path / "b", shutil.rmtree)):
        shutil.copytree(tmp_path / "store", path)
        changed(path / "index")
        with open_store(f"files:///{path}") as store:
            assert added(store, names) == told
            assert [finding.line() for finding in verify(store).damage] == []


def _of_an_older_version(index: Path) -> None:
    """Notes without the new fields, with checksums that fit."""
    notes = [
        msgspec.json.decode(line, type=CachedHeader) for line in (index / "headers.jsonl").read_bytes().splitlines()
    ]
    for note in notes:
        note.version = 0
        for name in ADDED:
            setattr(note.row, name, getattr(HeaderRow(session_id=""), name))
    (index / "headers.jsonl").write_bytes(b"".join(map(encode, notes)))
