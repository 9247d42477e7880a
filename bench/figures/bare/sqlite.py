"""One table, one INSERT and COMMIT a message, WAL and `synchronous=FULL`, through apsw like our own store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from bench.figures.messages import plain

TABLE = (
    "CREATE TABLE IF NOT EXISTS messages (session TEXT NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL, "
    "PRIMARY KEY (session, n)) WITHOUT ROWID"
)
INSERT = "INSERT INTO messages VALUES (?, ?, ?)"
SESSIONS = (
    "CREATE TABLE sessions (session TEXT PRIMARY KEY, owner TEXT NOT NULL, title TEXT, state TEXT NOT NULL, "
    "model TEXT, messages INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL)"
)
BY_ACTIVITY = "CREATE INDEX by_activity ON sessions (owner, updated_at)"
NEWEST = "SELECT * FROM sessions WHERE owner = ? ORDER BY updated_at DESC LIMIT ?"
LAST = "SELECT n, body FROM messages WHERE session = ? ORDER BY n DESC LIMIT ?"


class BareSqlite:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = apsw.Connection(str(path))
        self.connection.set_busy_timeout(30_000)
        self.connection.execute("PRAGMA journal_mode=WAL").fetchall()
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute(TABLE)
        self._count = 0

    def append(self, session: str) -> None:
        """Durable on return: outside a transaction, SQLite commits each statement."""
        self._count += 1
        self.connection.execute(INSERT, (session, self._count, plain()))

    def resume(self, session: str) -> None:
        """Go on after the last message of a session."""
        self._count = self.connection.execute("SELECT max(n) FROM messages WHERE session = ?", (session,)).get or 0

    def fill_sessions(self, ids: list[str]) -> None:
        rows = [(name, "local", "Title of a session", "active", "a:b", 7, at, at) for at, name in enumerate(ids)]
        self.connection.execute(SESSIONS)
        self.connection.execute(BY_ACTIVITY)
        with self.connection:
            self.connection.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def fill_messages(self, ids: list[str], each: int) -> None:
        with self.connection:
            for name in ids:
                self.connection.executemany(INSERT, [(name, n, plain()) for n in range(1, each + 1)])

    def newest(self, limit: int) -> int:
        return len(self.newest_rows(limit))

    def newest_rows(self, limit: int) -> list[tuple[Any, ...]]:
        return self.connection.execute(NEWEST, ("local", limit)).fetchall()

    def opened(self, session: str, limit: int) -> tuple[tuple[Any, ...], list[tuple[Any, ...]]]:
        """A session's row and its last messages, newest last."""
        row = self.connection.execute("SELECT * FROM sessions WHERE session = ?", (session,)).fetchall()[0]
        return row, self.connection.execute(LAST, (session, limit)).fetchall()[::-1]

    def wal_bytes(self) -> int:
        """Looked at by name only: opening SQLite's files beside SQLite would drop its locks."""
        return self.path.with_name(self.path.name + "-wal").stat().st_size

    def close(self) -> None:
        self.connection.close()
