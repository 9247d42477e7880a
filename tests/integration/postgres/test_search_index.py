"""Search with `pg_trgm`: the same answers, by way of its index. The server that the tests bring along does not have the
extension, so this needs a PostgreSQL of the machine's own that does."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from outlast.app.sessions.search import rebuild, search
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.postgres.search_index import FIND, pattern
from outlast.store.verify import verify
from tests.contract import test_search as exam
from tests.support.pg import PgServer

INDEXES = "SELECT indexdef FROM pg_indexes WHERE indexname = 'docs_trigrams'"
MORE = (
    "INSERT INTO outlast_search.docs (session_id, seq, at, role, part, text, folded) "
    "SELECT %s, 1000 + n, 0, 'user', 0, 'hay', 'hay ' || md5(n::text) FROM generate_series(1, 20000) n"
)


@pytest.fixture(scope="module")
def server() -> Iterator[PgServer]:
    if shutil.which("pg_config") is None:
        pytest.skip("needs a PostgreSQL with pg_trgm: no pg_config here")
    programs = _asked("--bindir")
    control = _asked("--sharedir") / "extension" / "pg_trgm.control"
    if not control.exists() or not (programs / "initdb").exists():
        pytest.skip("needs a PostgreSQL with pg_trgm: the one that pg_config tells of has none")
    with closing(PgServer(programs)) as server:
        yield server


def _asked(word: str) -> Path:
    done = subprocess.run(["pg_config", word], capture_output=True, text=True, timeout=30, check=True)
    return Path(done.stdout.strip())


class Database:
    """An empty one of a locale, which decides what counts as a letter there."""

    def __init__(self, server: PgServer, locale: str) -> None:
        self._server = server
        self._name = "trigrams"
        self.url = server.url(self._name)
        server.sql(f"CREATE DATABASE {self._name} TEMPLATE template0 ENCODING UTF8 LOCALE '{locale}'")

    def sql(self, statement: str, *values: object) -> list[str]:
        return [row[0] for row in self._server.sql(statement, *values, database=self._name)]

    def drop(self) -> None:
        self._server.drop_database(self.url)


@pytest.fixture(params=["C.UTF-8"])
def database(request: pytest.FixtureRequest, server: PgServer) -> Iterator[Database]:
    database = Database(server, request.param)
    yield database
    database.drop()


@pytest.fixture
def store(database: Database, request: pytest.FixtureRequest) -> Iterator[LogStore]:
    """A store in a database that has the extension, in one schema or another."""
    schema = "elsewhere" if "UTF" in request.node.name else "public"
    database.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    database.sql(f"CREATE EXTENSION pg_trgm SCHEMA {schema}")
    with closing(open_store(database.url)) as opened:
        yield opened


@pytest.mark.parametrize("database", ["C.UTF-8", pytest.param("C", marks=pytest.mark.soak)], indirect=True)
def test_a_thousand_random_queries_find_by_trigrams_what_a_plain_scan_finds(
    store: LogStore, database: Database
) -> None:
    # What is never chosen looks costly enough to be compiled, which takes longer than to look.
    for setting in ("enable_seqscan = off", "enable_indexscan = off", "jit = off"):
        database.sql(f"ALTER DATABASE trigrams SET {setting}")
    exam.test_a_thousand_random_queries_find_what_a_plain_scan_finds(store)
    assert len(database.sql(INDEXES)) == 1


def test_a_longer_query_is_answered_by_the_index(store: LogStore, database: Database) -> None:
    session = exam.said(store, "hay", "The NeeDle is here")
    assert len(search(store, "hay").hits) == 1
    database.sql(MORE, session.session_id)
    database.sql("VACUUM ANALYZE outlast_search.docs")
    [hit] = search(store, "needle").hits
    assert (hit.session_id, hit.snippet.match) == (session.session_id, "NeeDle")
    plan = database.sql(f"EXPLAIN {FIND}", pattern("needle"), "local", 2**62, 10)
    assert any("docs_trigrams" in line for line in plan), plan


def test_an_extension_that_comes_later_is_used_once_the_index_is_made_anew(database: Database) -> None:
    with closing(open_store(database.url)) as store:
        exam.said(store, "the needle is here")
        assert len(search(store, "needle").hits) == 1
        database.sql("CREATE EXTENSION pg_trgm")
        assert (len(search(store, "needle").hits), database.sql(INDEXES)) == (1, [])
        rebuild(store)
        assert len(search(store, "needle").hits) == 1
        [told] = database.sql(INDEXES)
        assert "gin_trgm_ops" in told


def test_an_older_server_keeps_a_store_too(database: Database) -> None:
    """The machine's own server is often older than the one that the tests bring along."""
    stored = "SELECT attstorage::text FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s"
    with closing(open_store(database.url)) as store:
        exam.said(store, "x" * 70_000, "y")
        assert database.sql(stored, "outlast.events", "body") == ["e"]
        assert database.sql(stored, "outlast.blobs", "data") == ["e"]
        assert [finding.line() for finding in verify(store, deep=True).findings] == []
