"""The writing connection: runs a transaction and retries it until its outcome is known.

When the connection is lost, the commit may or may not have reached the disk. So the same transaction is retried with
the same key on a new connection, for a limited time. The key is looked up under the header's lock, so the commit is
either written once or found already written. The outcome stays unknown only if the time runs out.
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
"""How often a transaction may be rolled back by the server (deadlock, lock timeout) before it fails."""


class UnsettledCommit(Exception):
    """Retrying has ended without success. `unknown` tells whether an attempt may have been committed."""

    def __init__(self, cause: OutlastError, *, unknown: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.unknown = unknown


class PostgresWriter:
    """Not thread-safe; the caller (group commit, `PostgresClaims`) lets one thread write at a time."""

    def __init__(self, address: PostgresAddress, link: PostgresConnection | None, types: RecordTypes) -> None:
        self.types = types
        self.memory = AcknowledgedAppends()
        self._address = address
        self._link: PostgresConnection | None = link

    def settle(self, work: Callable[[PostgresConnection, bool], T], collisions: int = MOST_COLLISIONS) -> T:
        """Run `work` until its outcome is known. Its flag says whether an earlier attempt may have been committed.

        Raises the `OutlastError` that `work` raises; `UnsettledCommit` if the server stays unreachable; other database
        errors as `OutlastError`, and then nothing was written. `collisions` limits how often a transaction is retried
        after the server rolled it back because of another transaction.
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
                self.hang_up()  # interrupted: the next batch must not receive this answer
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
    """State of the retries of one transaction: deadline, collisions left, and whether the outcome is in doubt."""

    def __init__(self, address: PostgresAddress, collisions: int) -> None:
        self.unknown = False
        self._address = address
        self._end = time.monotonic() + address.retry_seconds
        self._collisions = collisions
        self._pause = FIRST_PAUSE

    def failed(self, error: psycopg.Error, *, gone: bool, decided: bool) -> None:
        """Record a failed attempt; raise unless another attempt is useful and there is time for it."""
        self.unknown = self.unknown or (gone and not decided)
        self._collisions -= errors.passes(error)
        worth_it = gone or (errors.passes(error) and self._collisions > 0)
        cause = errors.translation(error, self._address)
        if not worth_it and not self.unknown:
            raise cause from error
        if not worth_it or time.monotonic() >= self._end:
            raise UnsettledCommit(cause, unknown=self.unknown) from error

    def kept_out(self, error: OutlastError) -> None:
        """Handle a reachable server that refuses us while a commit is in doubt: raise only after the deadline."""
        if time.monotonic() >= self._end:
            raise UnsettledCommit(error, unknown=self.unknown) from error

    def pause(self) -> None:
        time.sleep(self._pause * random.uniform(0.5, 1.5))  # noqa: S311 - to keep writers apart
        self._pause = min(self._pause * 2, LONGEST_PAUSE)


def _is_gone(link: PostgresConnection, error: psycopg.Error) -> bool:
    """Whether the connection is unusable, whatever error the server sent with the disconnect."""
    return link.closed or link.pgconn.status != psycopg.pq.ConnStatus.OK or errors.is_away(error)
