"""Search index of a PostgreSQL store: tables in a separate schema, `outlast_search`, which may be dropped at any time.

Needs no extension: the query is matched against the documents with LIKE. If `pg_trgm` is already installed, a trigram
index makes longer queries fast; its candidates are still compared with the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql

from outlast.core.errors import StoreUnavailable
from outlast.core.header import Header
from outlast.store.postgres import errors
from outlast.store.postgres.connection import LONG_SECONDS, PostgresConnection
from outlast.store.postgres.dsn import PostgresAddress
from outlast.store.search.documents import SearchDocument, folded
from outlast.store.search.index import IndexMatch, IndexPosition

LOCK = 0x486F6C65  # advisory lock: one writer at a time
PAGE = 50
OTHERS = ("42P01", "42703", "42804")  # missing table or column, or another type: made by another version
FIRST = 2**63 - 1

TABLES = """
CREATE SCHEMA IF NOT EXISTS outlast_search;
CREATE TABLE IF NOT EXISTS outlast_search.sessions (
    session_id text COLLATE "C" PRIMARY KEY, start bigint NOT NULL, upto bigint NOT NULL, hash bytea NOT NULL,
    part bigint NOT NULL, owner_id text NOT NULL, root_id text NOT NULL, title text, state text NOT NULL,
    updated_at bigint NOT NULL, project_key text, project_root text, project_fingerprint text, rotated_to text
);
CREATE TABLE IF NOT EXISTS outlast_search.docs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, session_id text COLLATE "C" NOT NULL, seq bigint NOT NULL,
    at bigint NOT NULL, role text NOT NULL, turn text, text text NOT NULL, folded text COLLATE "C" NOT NULL,
    part bigint NOT NULL, UNIQUE (session_id, seq, part)
);
"""
POSITION = "SELECT start, upto, hash, part FROM outlast_search.sessions WHERE session_id = %s"
THERE = "SELECT to_regclass('outlast_search.docs') IS NOT NULL AND to_regclass('outlast_search.sessions') IS NOT NULL"
TRIGRAMS = (
    "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_trgm'"
)
INDEX = sql.SQL("CREATE INDEX IF NOT EXISTS docs_trigrams ON outlast_search.docs USING gin (folded ")
PUT_SESSION = (
    "INSERT INTO outlast_search.sessions VALUES (%s, %s, %s, %b, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
    "ON CONFLICT (session_id) DO UPDATE SET start = excluded.start, upto = excluded.upto, hash = excluded.hash, "
    "part = excluded.part, owner_id = excluded.owner_id, root_id = excluded.root_id, title = excluded.title, "
    "state = excluded.state, updated_at = excluded.updated_at, project_key = excluded.project_key, "
    "project_root = excluded.project_root, project_fingerprint = excluded.project_fingerprint, "
    "rotated_to = excluded.rotated_to"
)
PUT_DOC = (
    "INSERT INTO outlast_search.docs (session_id, seq, at, role, turn, text, part, folded) "
    "VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (session_id, seq, part) DO NOTHING"
)
FIND = (
    "SELECT d.id, d.session_id, d.seq, d.at, d.role, d.turn, d.text, d.part, s.owner_id, s.root_id, s.title, s.state, "
    "s.updated_at, s.project_key, s.project_root, s.project_fingerprint, s.rotated_to "
    "FROM outlast_search.docs d JOIN outlast_search.sessions s USING (session_id) "
    "WHERE d.folded LIKE %s AND s.owner_id = %s AND d.id < %s ORDER BY d.id DESC LIMIT %s"
)
DROP_DOCS = "DELETE FROM outlast_search.docs WHERE session_id = %s AND (%s::bigint IS NULL OR seq = %s)"


def pattern(query: str) -> str:
    """Return a LIKE pattern that matches the text literally, anywhere."""
    escaped = query.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


class PostgresSearchIndex:
    def __init__(self, link: PostgresConnection) -> None:
        self._link = link
        with self._link.transaction():
            self._lock()
            found = link.execute(THERE).fetchone()
            if found is None or not found[0]:
                self._make()

    def _lock(self) -> None:
        self._link.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))

    def _make(self) -> None:
        self._link.execute(TABLES)
        extension = self._link.execute(TRIGRAMS).fetchone()
        if extension is not None:
            operators = sql.Identifier(extension[0], "gin_trgm_ops")
            self._link.execute(sql.Composed([INDEX, operators, sql.SQL(")")]))

    def known(self) -> Mapping[str, IndexPosition]:
        rows = self._link.execute("SELECT session_id, start, upto, hash, part FROM outlast_search.sessions").fetchall()
        return {name: IndexPosition(start, upto, bytes(hashed), part) for name, start, upto, hashed, part in rows}

    def position(self, session_id: str) -> IndexPosition | None:
        row = self._link.execute(POSITION, (session_id,)).fetchone()
        return None if row is None else IndexPosition(row[0], row[1], bytes(row[2]), row[3])

    def current(self, fingerprint: str) -> int | None:
        return None  # a database server has no cheap fingerprint

    def remember(self, fingerprint: str, events: int) -> None:
        pass

    def put(
        self,
        header: Header,
        place: IndexPosition,
        documents: list[SearchDocument],
        *,
        expected: IndexPosition | None,
        anew: bool,
        gone: list[tuple[str, int]],
    ) -> bool:
        with self._link.transaction():
            self._lock()
            if self.position(header.session_id) != expected:
                return False
            if anew:
                self._link.execute(DROP_DOCS, (header.session_id, None, None))
            facts = (header.owner_id, header.root_id or header.session_id, header.title, header.state)
            project = (header.project_key, header.project_root, header.project_fingerprint, header.rotated_to)
            self._link.execute(PUT_SESSION, (header.session_id, *place, *facts, header.updated_at, *project))
            rows: list[tuple[Any, ...]] = [(*document, folded(document.text)) for document in documents]
            if rows:
                with self._link.cursor() as cursor:
                    cursor.executemany(PUT_DOC, rows)
            for name, seq in gone:
                self._link.execute(DROP_DOCS, (name, seq, seq))
        return True

    def drop(self, session_ids: Iterable[str]) -> None:
        names = list(session_ids)
        with self._link.transaction():
            self._lock()
            self._link.execute("DELETE FROM outlast_search.docs WHERE session_id = ANY(%s)", (names,))
            self._link.execute("DELETE FROM outlast_search.sessions WHERE session_id = ANY(%s)", (names,))

    def found(self, query: str, owner_id: str) -> Iterator[IndexMatch]:
        last, held = FIRST, None
        while True:
            page = self._link.execute(FIND, (pattern(query), owner_id, last, PAGE)).fetchall()
            for row in page:
                match = IndexMatch(SearchDocument(*row[1:8]), *row[8:])
                if held is not None and held.document[:2] != match.document[:2]:
                    yield held
                held = match  # the slices of an event come last to first
            if len(page) < PAGE:
                break
            last = page[-1][0]
        if held is not None:
            yield held

    def close(self) -> None:
        self._link.close()


class PostgresSearchProvider:
    trouble = (psycopg.Error, StoreUnavailable)

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address

    def exists(self) -> bool:
        with closing(PostgresConnection.to(self._address)) as link:
            found = link.execute(THERE).fetchone()
        return found is not None and bool(found[0])

    def is_broken(self, error: Exception) -> bool:
        return isinstance(error, psycopg.Error) and (errors.is_damage(error) or error.sqlstate in OTHERS)

    def open(self) -> PostgresSearchIndex:
        link = PostgresConnection.to(self._address, LONG_SECONDS)
        try:
            return PostgresSearchIndex(link)
        except BaseException:
            link.close()
            raise

    def fingerprint(self) -> str | None:
        return None

    def remove(self) -> None:
        with closing(PostgresConnection.to(self._address, LONG_SECONDS)) as link:
            link.execute("DROP SCHEMA IF EXISTS outlast_search CASCADE")
