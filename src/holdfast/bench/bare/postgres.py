"""One table, one INSERT a message, each its own transaction, through psycopg like our own store."""

from __future__ import annotations

import psycopg

from holdfast.bench.messages import plain

TABLE = (
    "CREATE TABLE IF NOT EXISTS messages "
    "(session text NOT NULL, n bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (session, n))"
)
INSERT = "INSERT INTO messages VALUES (%b, %b, %b)"


class BarePostgres:
    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(TABLE)
        self._count = 0

    def append(self, session: str) -> None:
        """Durable on return. psycopg prepares the statement by itself once it is used often."""
        self._count += 1
        self.connection.execute(INSERT, (session, self._count, plain()))

    def close(self) -> None:
        self.connection.close()
