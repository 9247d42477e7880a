"""Search index of a SQLite store: a separate database next to it, `<store>.search`, which may be removed at any time.

Each slice of a text is indexed by all pieces of one, two and three characters of its folded text. They are made here
and not by a tokenizer, so that every script and query length works alike. A longer query must match all of its pieces,
and each candidate is then compared with the query itself. Writes are not synced carefully: a lost index is rebuilt.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from operator import add
from pathlib import Path

import apsw

from outlast.core.header import Header
from outlast.store.search.documents import SearchDocument, folded
from outlast.store.search.index import IndexMatch, IndexPosition

VERSION = 2
BUSY_MS = 30_000
ENDINGS = ("", "-wal", "-shm")
CACHE_KIB = 16_384
SETTLED_NS = 100_000_000
"""Minimum age of a file's mtime before it can reveal later changes: file system clocks are coarse."""

SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value);
CREATE TABLE sessions (
    sid INTEGER PRIMARY KEY, session_id TEXT NOT NULL UNIQUE, start INTEGER NOT NULL, upto INTEGER NOT NULL,
    hash BLOB NOT NULL, part INTEGER NOT NULL, owner_id TEXT NOT NULL, root_id TEXT NOT NULL, title TEXT,
    state TEXT NOT NULL, updated_at INTEGER NOT NULL, project_key TEXT, project_root TEXT,
    project_fingerprint TEXT, rotated_to TEXT
);
CREATE TABLE docs (
    id INTEGER PRIMARY KEY, sid INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, role TEXT NOT NULL,
    turn TEXT, text TEXT NOT NULL, part INTEGER NOT NULL
);
CREATE UNIQUE INDEX docs_by_session ON docs (sid, seq, part);
CREATE VIRTUAL TABLE pieces USING fts5 (text, tokenize = 'ascii', detail = none, content = '', columnsize = 0);
INSERT INTO pieces (pieces, rank) VALUES ('secure-delete', 1);
"""
FIND = (
    "SELECT s.session_id, d.seq, d.at, d.role, d.turn, d.text, d.part, s.owner_id, s.root_id, s.title, s.state, "
    "s.updated_at, s.project_key, s.project_root, s.project_fingerprint, s.rotated_to "
    "FROM pieces CROSS JOIN docs d ON d.id = pieces.rowid CROSS JOIN sessions s ON s.sid = d.sid "
    "WHERE pieces MATCH ? AND s.owner_id = ? ORDER BY pieces.rowid DESC"
)
PUT_SESSION = (
    "INSERT INTO sessions VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session_id) "
    "DO UPDATE SET start = excluded.start, upto = excluded.upto, hash = excluded.hash, part = excluded.part, "
    "owner_id = excluded.owner_id, "
    "root_id = excluded.root_id, title = excluded.title, state = excluded.state, updated_at = excluded.updated_at, "
    "project_key = excluded.project_key, project_root = excluded.project_root, "
    "project_fingerprint = excluded.project_fingerprint, rotated_to = excluded.rotated_to"
)
PUT_DOC = "INSERT OR IGNORE INTO docs VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)"
POSITIONS = "SELECT session_id, start, upto, hash, part FROM sessions"
POSITION = "SELECT start, upto, hash, part FROM sessions WHERE session_id = ?"
PUT_PIECES = "INSERT INTO pieces (rowid, text) VALUES (?, ?)"
DOCS = "SELECT id FROM docs WHERE sid = ?1 AND (?2 IS NULL OR seq = ?2)"
DOC_TEXT = "SELECT text FROM docs WHERE id = ?"
DROP_DOCS = "DELETE FROM docs WHERE sid = ?1 AND (?2 IS NULL OR seq = ?2)"
DROP_PIECES = "INSERT INTO pieces (pieces, rowid, text) VALUES ('delete', ?, ?)"

_LETTERS = {code: 0xF0000 + code for code in range(128) if not chr(code).isalnum()}
"""Maps ASCII characters at which the tokenizer would split to private-use characters, which it keeps in words."""


def pieces_of(text: str) -> str:
    """Return each distinct piece of one to three characters of a folded text, separated by spaces."""
    letters = text.translate(_LETTERS)
    pairs = list(map(add, letters, letters[1:]))
    return " ".join({*letters, *pairs, *map(add, pairs, letters[2:])})


def pieces_for(query: str) -> str:
    """Return the FTS5 expression that every document containing this folded query matches."""
    letters = query.translate(_LETTERS)
    size = min(len(letters), 3)
    wanted = {letters[at : at + size] for at in range(len(letters) - size + 1)}
    return " AND ".join(f'"{piece}"' for piece in wanted)


def shelf_path(store: Path) -> Path:
    return store.with_name(store.name + ".search")


class SqliteSearchIndex:
    """Serves one or many searches. Any method may raise `apsw.Error` if the index is damaged; remove it then."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        execute = self._connection.execute
        self._connection.set_busy_timeout(BUSY_MS)
        settings = {
            "journal_mode": "wal",
            "synchronous": 1,
            "secure_delete": 1,
            "temp_store": 2,
            "cache_size": -CACHE_KIB,
        }
        for name, value in settings.items():
            self._connection.pragma(name, value)
        if self._connection.pragma("user_version") == VERSION:
            return
        with self._writing():
            if self._connection.pragma("user_version") == VERSION:
                return  # another process created it meanwhile
            if execute("SELECT count(*) FROM sqlite_schema").get:
                raise apsw.CorruptError("another version made it")
            execute(SCHEMA)
            self._connection.pragma("user_version", VERSION)

    @contextmanager
    def _writing(self) -> Generator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    # --- following the log

    def current(self, fingerprint: str) -> int | None:
        noted = self._connection.execute("SELECT value FROM meta WHERE name = 'token'").get
        if noted != fingerprint:
            return None
        return self._connection.execute("SELECT value FROM meta WHERE name = 'events'").get

    def remember(self, fingerprint: str, events: int) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO meta VALUES ('token', ?), ('events', ?)", (fingerprint, events)
        )

    def known(self) -> Mapping[str, IndexPosition]:
        rows = self._connection.execute(POSITIONS)
        return {name: IndexPosition(start, upto, hashed, part) for name, start, upto, hashed, part in rows}

    def position(self, session_id: str) -> IndexPosition | None:
        row = self._connection.execute(POSITION, (session_id,)).fetchone()
        return None if row is None else IndexPosition(*row)

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
        execute = self._connection.execute
        pieces = [pieces_of(folded(document.text)) for document in documents]  # before the lock: it takes long
        with self._writing():
            if self.position(header.session_id) != expected:
                return False
            sid = self._sid(header.session_id)
            if anew and sid is not None:
                self._drop_docs(sid, None)
            facts = (header.owner_id, header.root_id or header.session_id, header.title, header.state)
            project = (header.project_key, header.project_root, header.project_fingerprint, header.rotated_to)
            execute(PUT_SESSION, (header.session_id, *place, *facts, header.updated_at, *project))
            sid = self._sid(header.session_id)
            for document, indexed in zip(documents, pieces, strict=True):
                execute(PUT_DOC, (sid, *document[1:]))
                if self._connection.changes():  # 0 if it was inserted before
                    execute(PUT_PIECES, (self._connection.last_insert_rowid(), indexed))
            for name, seq in gone:
                if (holder := self._sid(name)) is not None:
                    self._drop_docs(holder, seq)
        return True

    def _sid(self, session_id: str) -> int | None:
        return self._connection.execute("SELECT sid FROM sessions WHERE session_id = ?", (session_id,)).get

    def _drop_docs(self, sid: int, seq: int | None) -> None:
        """Delete one document of a session, or all if `seq` is None, together with its pieces in the FTS5 index."""
        for (number,) in self._connection.execute(DOCS, (sid, seq)).fetchall():
            text = self._connection.execute(DOC_TEXT, (number,)).get
            self._connection.execute(DROP_PIECES, (number, pieces_of(folded(text))))
        self._connection.execute(DROP_DOCS, (sid, seq))

    def drop(self, session_ids: Iterable[str]) -> None:
        with self._writing():
            for session_id in session_ids:
                sid = self._sid(session_id)
                if sid is not None:
                    self._drop_docs(sid, None)
                    self._connection.execute("DELETE FROM sessions WHERE sid = ?", (sid,))
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # the WAL held the deleted text too

    # --- finding

    def found(self, query: str, owner_id: str) -> Iterator[IndexMatch]:
        held: IndexMatch | None = None
        for row in self._connection.execute(FIND, (pieces_for(query), owner_id)):
            if query in folded(row[5]):
                match = IndexMatch(SearchDocument(*row[:7]), *row[7:])
                if held is not None and held.document[:2] != match.document[:2]:
                    yield held
                held = match  # the slices of an event come last to first
        if held is not None:
            yield held

    def close(self) -> None:
        self._connection.close()


class SqliteSearchProvider:
    """`SearchProvider` of the SQLite store at this path."""

    trouble = (apsw.Error, OSError, UnicodeDecodeError)
    _passing = (
        apsw.BusyError,
        apsw.LockedError,
        apsw.FullError,
        apsw.ReadOnlyError,
        apsw.CantOpenError,
        apsw.PermissionsError,
        apsw.InterruptError,
        OSError,
    )

    def __init__(self, store: Path) -> None:
        self._store = store
        self.path = shelf_path(store)

    def exists(self) -> bool:
        return self.path.exists()

    def is_broken(self, error: Exception) -> bool:
        return not isinstance(error, self._passing)

    def open(self) -> SqliteSearchIndex:
        return SqliteSearchIndex(self.path)

    def fingerprint(self) -> str | None:
        """Inode, size and time of the store's files; None if they changed so recently that it could miss a change."""
        found: list[tuple[int, int, int]] = []
        for path in (self._store, self._store.with_name(self._store.name + "-wal")):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        newest = max((changed for _, _, changed in found), default=0)
        return repr(found) if time.time_ns() - newest > SETTLED_NS else None

    def remove(self) -> None:
        for ending in ENDINGS:
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
