"""A fresh place for a store of each kind."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from outlast.store.memory import discard
from tests.support.pg import PgServer, pg_server, shared_server

__all__ = ["pg_server", "store_url", "store_urls"]


KINDS = ("sqlite", "files", "postgres", "memory")


@contextmanager
def place(kind: str, folder: Path) -> Generator[str]:
    """The URL of an empty store."""
    match kind:
        case "sqlite":
            yield f"sqlite:///{folder}/store.db"
        case "files":
            yield f"files:///{folder}/store"
        case "memory":
            url = f"memory://{next(_numbers)}"
            yield url
            discard(url)
        case _:
            url = _emptied_database()
            yield url


TABLES = """SELECT schemaname || '.' || tablename FROM pg_tables
    WHERE schemaname NOT IN ('pg_catalog', 'information_schema') AND tablename <> 'migrations'"""


def _emptied_database() -> str:
    """One database a process, emptied: a new one for each of some hundred tests would take most of their time."""
    server = shared_server()
    if server not in _databases:
        _databases[server] = server.create_database()
    url = _databases[server]
    name = url.split("/")[3].split("?")[0]
    tables = [table for (table,) in server.sql(TABLES, database=name)]
    if tables:
        server.sql("; ".join(f"DELETE FROM {table}" for table in tables), database=name)  # noqa: S608 - its own names
    return url


_databases: dict[PgServer, str] = {}
_numbers = itertools.count(1)


def _server(request: pytest.FixtureRequest, kind: str) -> None:
    if kind == "postgres":
        request.getfixturevalue("pg_server")


@pytest.fixture(params=KINDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store; each test that asks for it runs on all four."""
    _server(request, request.param)
    with place(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def store_urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """One empty store of each kind, for tests that compare them."""
    with ExitStack() as places:
        for kind in KINDS:
            _server(request, kind)
        yield [places.enter_context(place(kind, tmp_path)) for kind in KINDS]
