"""The one connection that writes, and the pursuit of every outcome.

A lost connection decides nothing: the commit may or may not have reached the disk. So the same transaction is run again
with the same key, on a new connection, for a bounded time; the key is looked up under the header's lock, so it is
written once or found written. Only when the time is over is the outcome left unknown.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

import psycopg

from outlast.core.errors import OutlastError
from outlast.store.postgres import errors, migrate
from outlast.store.postgres.append_function import RecordTypes
from outlast.store.postgres.connection import PostgresConnection
from outlast.store.postgres.dsn import PostgresAddress
from outlast.store.postgres.failover_guard import AcknowledgedAppends

T = TypeVar("T")

FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5
MOST_COLLISIONS = 8
"""How often a transaction that the server rolled back (a deadlock, a lock timeout) is tried again."""


class UnsettledCommit(Exception):
    """The time is over. `unknown` tells whether a try may have been committed after all."""

    def __init__(self, cause: OutlastError, *, unknown: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.unknown = unknown


class PostgresWriter:
    """Not thread-safe; group commit lets one thread write at a time."""

    def __init__(self, address: PostgresAddress, link: PostgresConnection | None, types: RecordTypes) -> None:
        self.types = types
        self.memory = AcknowledgedAppends()
        self._address = address
        self._link: PostgresConnection | None = link

    def settle(self, work: Callable[[PostgresConnection, bool], T], collisions: int = MOST_COLLISIONS) -> T:
        """Run `work` until its outcome is known. Its flag says whether an earlier try may have been committed.

        Raises what `work` raises on purpose; `Unsettled` when the server stayed away; other faults of the database as
        `OutlastError`, and then nothing was written. A transaction that the server rolls back because of somebody
        else's is tried again so many times.
        """
        search = _OutcomeSearch(self._address, collisions)
        while True:
            link: PostgresConnection | None = None
            try:
                link = self._linked()
                return work(link, search.unknown)
            except psycopg.Error as error:
                gone = link is None or _is_gone(link, error)
                if gone:
                    self.hang_up()
                search.failed(error, gone=gone, decided=link is None or errors.is_certain(error))
            except OutlastError as error:
                if link is not None or not search.unknown:
                    raise
                search.kept_out(error)
            except BaseException:
                self.hang_up()  # interrupted: whatever the server was about to say is not for the next batch
                raise
            search.pause()

    def hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _linked(self) -> PostgresConnection:
        if self._link is None or self._link.closed:
            link = PostgresConnection.to(self._address)
            try:
                migrate.check_server(link, self._address)
                self.memory.compare(link)
            except BaseException:
                link.close()
                raise
            self._link = link
        return self._link


class _OutcomeSearch:
    """One pursuit of an outcome: how long it may take still, and what is known so far."""

    def __init__(self, address: PostgresAddress, collisions: int) -> None:
        self.unknown = False
        self._address = address
        self._end = time.monotonic() + address.retry_seconds
        self._collisions = collisions
        self._pause = FIRST_PAUSE

    def failed(self, error: psycopg.Error, *, gone: bool, decided: bool) -> None:
        """Take note of a try that failed; raise unless there is time for another, and a reason for it."""
        self.unknown = self.unknown or (gone and not decided)
        self._collisions -= errors.passes(error)
        worth_it = gone or (errors.passes(error) and self._collisions > 0)
        cause = errors.translation(error, self._address)
        if not worth_it and not self.unknown:
            raise cause from error
        if not worth_it or time.monotonic() >= self._end:
            raise UnsettledCommit(cause, unknown=self.unknown) from error

    def kept_out(self, error: OutlastError) -> None:
        """The server is there and does not let us write; with a commit in doubt that is no answer."""
        if time.monotonic() >= self._end:
            raise UnsettledCommit(error, unknown=self.unknown) from error

    def pause(self) -> None:
        time.sleep(self._pause * random.uniform(0.5, 1.5))  # noqa: S311 - to keep writers apart
        self._pause = min(self._pause * 2, LONGEST_PAUSE)


def _is_gone(link: PostgresConnection, error: psycopg.Error) -> bool:
    """Whether the connection is of no more use; what the server said on parting counts for nothing."""
    return link.closed or link.pgconn.status != psycopg.pq.ConnStatus.OK or errors.is_away(error)
