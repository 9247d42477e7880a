"""SQLite's own full-text search, used as plainly as can be: what a search can cost at least."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import apsw


class BareWords:
    """A table of texts and a trigram index over them; the newest matches with the words around them."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-65536")
        self._connection.execute(
            "CREATE TABLE docs (id INTEGER PRIMARY KEY, text TEXT);"
            "CREATE VIRTUAL TABLE words USING fts5 (text, content = 'docs', content_rowid = 'id', tokenize = 'trigram')"
        )

    def fill(self, texts: Iterable[str]) -> None:
        with self._connection:
            self._connection.executemany("INSERT INTO docs (text) VALUES (?)", ((text,) for text in texts))
            self._connection.execute("INSERT INTO words (words) VALUES ('rebuild')")

    def newest(self, query: str, limit: int) -> int:
        """How many of the newest matches there are, up to `limit`."""
        quoted = '"' + query.replace('"', '""') + '"'
        rows = self._connection.execute(
            "SELECT rowid, snippet(words, 0, '[', ']', '...', 24) FROM words WHERE words MATCH ? "
            "ORDER BY rowid DESC LIMIT ?",
            (quoted, limit),
        )
        return len(rows.fetchall())

    def close(self) -> None:
        self._connection.close()
