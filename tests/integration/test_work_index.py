"""Looking for work costs what there is to do, however many sessions are idle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from outlast.core import events as e
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import TextPart
from outlast.store import open_store
from outlast.store.files.directory import StoreDirectory
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Create, NewEvent, Query
from outlast.store.sqlite.list_statement import WITH_OLDEST_WORK, WITH_WORK
from outlast.store.sqlite.rows import SqliteRows
from tests.support.pg import PgServer

IDLE = 10_000
IDLE_FILES = 200
OLDEST = Query(pending=True, oldest_first=True)
NEWEST = Query(pending=True)


def new_id() -> str:
    return id_from(os.urandom(16))


def created(session_id: str) -> Create:
    return Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),))


def admitted(session_id: str) -> Append:
    return Append(session_id=session_id, events=(NewEvent(event=e.InputAdmitted(parts=(TextPart("please"),))),))


def filled(store: LogStore, idle: int) -> list[str]:
    """Many idle sessions, and three that wait: among them the one that was made first."""
    waiting = [new_id() for _ in range(3)]
    store.commit(created(waiting[0]))
    for _ in range(0, idle, 200):
        store.commit(*(created(new_id()) for _ in range(200)))
    store.commit(*(created(name) for name in waiting[1:]))
    for name in waiting:
        store.commit(admitted(name))
    return waiting


def found(store: LogStore, query: Query = OLDEST) -> list[str]:
    return [header.session_id for header in store.find(query).headers]


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LogStore, Path, list[str]]]:
    path = tmp_path_factory.mktemp("work") / "store.db"
    with open_store(f"sqlite:///{path}") as store:
        yield store, path, filled(store, IDLE)


def test_sqlite_reads_the_sessions_with_work_and_no_others(sqlite: tuple[LogStore, Path, list[str]]) -> None:
    store, path, waiting = sqlite
    assert found(store) == waiting
    assert found(store, NEWEST) == waiting[::-1]
    connection = apsw.Connection(str(path))
    steps = 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection.set_progress_handler(step, 10)
    for query in (OLDEST, NEWEST):
        steps = 0
        position = (0, "") if query.oldest_first else (2**62, "~")
        assert len(SqliteRows(connection).listed(query, position, 50)) == 3
        assert steps < 100  # steps of ten instructions each; looking at every session takes tens of thousands
    connection.close()


@pytest.mark.parametrize("statement", [WITH_OLDEST_WORK, WITH_WORK])
def test_sqlite_plans_no_scan(sqlite: tuple[LogStore, Path, list[str]], statement: str) -> None:
    _, path, _ = sqlite
    connection = apsw.Connection(str(path))
    names = ("owner", "at", "id", "state", "project", "mark", "base", "limit")
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", dict.fromkeys(names))]
    connection.close()
    assert plan[0].startswith("SEARCH w USING PRIMARY KEY")
    assert plan[1].startswith("SEARCH s USING INDEX")
    assert not [line for line in plan if line.startswith("SCAN")]


def test_postgres_reads_the_sessions_with_work_and_no_others(pg_server: PgServer) -> None:
    url = pg_server.create_database()
    database = url.split("/")[3].split("?")[0]
    with open_store(url) as store:
        waiting = filled(store, 0)
        clones = (
            "INSERT INTO outlast.sessions SELECT (jsonb_populate_record(s, jsonb_build_object('session_id', "
            "lpad(translate(n::text, '0123456789', 'abcdefghij'), 26, 'z'), 'work_since', null))).* "
            "FROM outlast.sessions s, generate_series(1, %s) n WHERE s.session_id = %s"
        )
        pg_server.sql(clones, IDLE, waiting[0], database=database)
        pg_server.sql("UPDATE outlast.sessions SET pending_count = 0 WHERE work_since IS NULL", database=database)
        for statistics in (False, True):
            if statistics:
                pg_server.sql("ANALYZE outlast.sessions", database=database)
            assert found(store) == waiting
            assert found(store, NEWEST) == waiting[::-1]
            for order in ("ORDER BY work_since, session_id", "ORDER BY updated_at DESC, session_id DESC"):
                read = plan_of(pg_server, database, order)
                assert {node["Index Name"] for node in read if "Index Name" in node} == {"sessions_with_work"}, read
                assert [node["Node Type"] for node in read if node["Node Type"] == "Seq Scan"] == [], read
                assert {node["Actual Rows"] for node in read} == {3}, read
                assert not any(node.get("Rows Removed by Filter") for node in read), read
    pg_server.drop_database(url)


def plan_of(server: PgServer, database: str, order: str) -> list[dict[str, Any]]:
    """The scans of the very statement, as it was carried out."""
    from outlast.store.postgres.rows import WITH_OLDEST_WORK, WITH_WORK

    oldest = "work_since" in order
    statement = (WITH_OLDEST_WORK if oldest else WITH_WORK).decode()
    assert order in statement
    position = (0, "") if oldest else (2**62, "~")
    values = ("local", *position, None, None, None, None, None, None, None, 50)
    [(told,)] = server.sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *values, database=database)
    return list(scans(told[0]["Plan"]))


def scans(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "Relation Name" in node or "Index Name" in node:
        yield node
    for below in node.get("Plans", ()):
        yield from scans(below)


def test_files_read_no_log_of_an_idle_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures: list[str] = []
    capture = StoreDirectory.capture

    def counted(self: StoreDirectory, session_id: str, *, sync: bool = True) -> Any:
        captures.append(session_id)
        return capture(self, session_id, sync=sync)

    url = f"files:///{tmp_path}/store"
    with open_store(url) as store:
        waiting = filled(store, IDLE_FILES)
        assert found(store) == waiting
        store.commit(admitted(waiting[1]))
        monkeypatch.setattr(StoreDirectory, "capture", counted)
        assert found(store) == waiting
        assert set(captures) <= {waiting[1]}
    captures.clear()
    with open_store(url) as store:  # from what the last process left in the index
        assert found(store, NEWEST) == [waiting[1], waiting[2], waiting[0]]
        assert captures == []


def test_work_of_another_process_is_found_in_a_files_store(tmp_path: Path) -> None:
    """Announced before it is written, so it is looked for once more a moment later."""
    url = f"files:///{tmp_path}/store"
    with open_store(url) as ours:
        waiting = filled(ours, 0)
        other = open_store(url)
        late = new_id()
        other.commit(created(late))
        assert found(ours) == waiting
        other.commit(admitted(late))
        assert found(ours) == [*waiting, late]
        other.close()
