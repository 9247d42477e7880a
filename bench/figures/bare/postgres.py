"""One table, one INSERT a message, each its own transaction, through psycopg like our own store."""

from __future__ import annotations

import itertools

import psycopg

from bench.figures.messages import plain

TABLE = (
    "CREATE TABLE IF NOT EXISTS messages "
    "(session text NOT NULL, n bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (session, n))"
)
INSERT = "INSERT INTO messages VALUES (%b, %b, %b)"
_numbers = itertools.count(1)  # for all connections, which may write the same session


class BarePostgres:
    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(TABLE)

    def append(self, session: str) -> None:
        """Durable on return. psycopg prepares the statement by itself once it is used often."""
        self.connection.execute(INSERT, (session, next(_numbers), plain()))

    def close(self) -> None:
        self.connection.close()
