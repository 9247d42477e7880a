"""Pool of connections for reads: at most eight, each used by one thread at a time, each read in one snapshot."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from outlast.core.errors import StoreUnavailable
from outlast.store.postgres import errors
from outlast.store.postgres.connection import READ_SECONDS, PostgresConnection
from outlast.store.postgres.dsn import PostgresAddress
from outlast.store.postgres.inspection import BEGIN, PostgresView

MOST = 8
WAIT_SECONDS = 30.0


class ReadPool:
    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._idle: list[PostgresConnection] = []
        self._mutex = threading.Lock()
        self._free = threading.Semaphore(MOST)
        self._closed = False

    @contextmanager
    def view(self) -> Generator[PostgresView]:
        """Yield a read view of one snapshot. Raises `psycopg.Error` if the server becomes unreachable."""
        with self.link() as link:
            yield PostgresView(link)

    @contextmanager
    def link(self) -> Generator[PostgresConnection]:
        """Yield a connection inside a read-only transaction of one snapshot."""
        if not self._free.acquire(timeout=WAIT_SECONDS):
            raise StoreUnavailable(f"all {MOST} connections for reading are in use; read less at once")
        try:
            link = self._begun()
            try:
                yield link
            finally:
                self._give_back(link)
        finally:
            self._free.release()

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    def _begun(self) -> PostgresConnection:
        """Return a connection inside a transaction; an idle connection that has died is replaced."""
        with self._mutex:
            link = self._idle.pop() if self._idle else None
        if link is not None:
            try:
                link.execute(BEGIN)
            except psycopg.Error as error:
                link.close()
                if not errors.is_away(error):
                    raise
            else:
                return link
        link = PostgresConnection.to(self._address, READ_SECONDS)
        try:
            link.execute(BEGIN)
        except BaseException:
            link.close()
            raise
        return link

    def _give_back(self, link: PostgresConnection) -> None:
        try:
            if not link.closed:
                link.execute("ROLLBACK")
        except psycopg.Error:
            link.close()
        with self._mutex:
            if not self._closed and not link.closed:
                self._idle.append(link)
                return
        link.close()
