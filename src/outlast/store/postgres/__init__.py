"""PostgreSQL store: one database shared by any number of processes and machines."""

from __future__ import annotations

import os
import random
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from outlast.core.errors import MissingExtra, OutcomeUnknown, OutlastError, StoreUnavailable

try:
    import psycopg
except ImportError:
    raise MissingExtra("postgres", "a postgresql:// store") from None

from outlast.core.event_row import StoredEvent
from outlast.core.header import Header
from outlast.store.engine.encode import EncodedCommit
from outlast.store.group_commit import PendingCommit
from outlast.store.log_store import LogStore, Progress, _Cursor  # pyright: ignore[reportPrivateUsage]
from outlast.store.maintenance.migrations import UpgradeProgress
from outlast.store.notify import brings_work, touched
from outlast.store.port import (
    Append,
    Batch,
    Claimed,
    ClaimRequest,
    Holder,
    Page,
    Query,
    Receipt,
    Snapshot,
    WorkQueueStats,
)
from outlast.store.postgres import errors, migrate
from outlast.store.postgres.append_function import append, is_plain
from outlast.store.postgres.batch import BatchStep, carry_out, steps_of
from outlast.store.postgres.claim import PostgresClaims, queue_of
from outlast.store.postgres.connection import PostgresConnection
from outlast.store.postgres.dsn import PostgresAddress
from outlast.store.postgres.inspection import PostgresView
from outlast.store.postgres.notify import NotifyConnection
from outlast.store.postgres.pool import ReadPool
from outlast.store.postgres.writer import MOST_COLLISIONS, PostgresWriter, UnsettledCommit

__all__ = ["PostgresStore"]

P = ParamSpec("P")
T = TypeVar("T")

LOOK_SECONDS = 1.0
RETRY_READ_SECONDS = 0.1


class ServerAway(StoreUnavailable):
    """The server went away in the middle of a read; reads may simply be repeated."""


class PostgresStore(LogStore):
    poll_seconds = 0.05
    writes_elsewhere = True

    def __init__(self, url: str, watch: UpgradeProgress | None = None) -> None:
        self._address = PostgresAddress.parse(url)
        self._forked = False
        self._looked_at = 0.0
        self._writer = self._open(watch)
        self._claims = PostgresClaims(PostgresWriter(self._address, None, self._writer.types))
        self._pool = ReadPool(self._address)
        super().__init__(self._address.shown)
        self._wakeups = NotifyConnection(self._address, self._notifier.ring)
        _open_stores.add(self)

    @property
    def address(self) -> PostgresAddress:
        return self._address

    def _open(self, watch: UpgradeProgress | None) -> PostgresWriter:
        """Connect, check the server and migrate, so that problems are reported when the store is opened."""
        try:
            link = PostgresConnection.to(self._address)
        except psycopg.Error as error:
            raise errors.translation(error, self._address) from error
        try:
            migrate.check_server(link, self._address)
            return PostgresWriter(self._address, link, migrate.migrate(link, self._address, watch))
        except BaseException:
            link.close()
            raise

    def backup(self, target: Path, progress: Progress | None = None) -> str:
        raise StoreUnavailable(
            f"{self.url} is copied with PostgreSQL's own tools: pg_dump --schema=outlast, or pg_basebackup"
        )

    def _usable(self) -> None:
        if self._forked:
            raise StoreUnavailable("this store was opened before a fork; open it again in the child process")
        super()._usable()

    # --- writing

    def _run(self, batch: list[PendingCommit]) -> None:
        for step in steps_of(batch) if len(batch) > 1 else (BatchStep(is_plain(batch[0].commit), batch),):
            if step.plain:
                self._append(step.entries)
            else:
                self._carry_out(step.entries)
        written = [entry.commit for entry in batch if entry.receipts]
        if written:
            self._wakeups.announce(touched(batch), work=any(brings_work(commit) for commit in written))

    def claim(self, wanted: ClaimRequest) -> list[Claimed]:
        self._usable()
        return self._claims.claim(wanted)

    def _append(self, entries: list[PendingCommit]) -> None:
        """Append with the SQL function; commits it did not write go to the engine, which determines the reason."""
        if len(entries) > 1:
            entries = sorted(entries, key=_session)
        commits = [entry.commit for entry in entries]
        types = self._writer.types

        def work(link: PostgresConnection, again: bool) -> dict[int, int]:
            self._refuse_forgotten(commits, again)
            return append(link, commits, types, again=again)

        try:
            written = self._writer.settle(work, _collisions(entries))
        except UnsettledCommit as unsettled:
            _leave(entries, unsettled)
            return
        except OutlastError:
            self._take_apart(entries)
            return
        others: list[PendingCommit] = []
        for place, entry in enumerate(entries):
            if place in written:
                entry.receipts = [_receipt(entry, written[place])]
                self._remember(entry.commit, entry.receipts)
            else:
                others.append(entry)
        if others:
            self._carry_out(others)

    def _take_apart(self, entries: list[PendingCommit]) -> None:
        """Run each commit on its own: a commit that fails, or whose session is locked, must not affect the others."""
        if len(entries) == 1:
            self._carry_out(entries)
            return
        for entry in entries:
            self._append([entry])

    def _carry_out(self, entries: list[PendingCommit]) -> None:
        """Run all commits through the engine in one transaction; if one is refused, run each in its own."""
        commits = [entry.commit for entry in entries]

        def work(link: PostgresConnection, again: bool) -> list[list[Receipt]]:
            self._refuse_forgotten(commits, again)
            return carry_out(link, commits, again=again)

        try:
            done = self._writer.settle(work, _collisions(entries))
        except UnsettledCommit as unsettled:
            _leave(entries, unsettled)
        except OutlastError as error:
            if len(entries) == 1:
                entries[0].error = error
                return
            for entry in entries:
                self._carry_out([entry])
        else:
            for entry, receipts in zip(entries, done, strict=True):
                entry.receipts = receipts
                self._remember(entry.commit, receipts)

    def _refuse_forgotten(self, commits: list[EncodedCommit], again: bool) -> None:
        """Refuse sessions that lost acknowledged events on the server, as found when the connection was opened."""
        for commit in commits:
            commit.rerun = commit.rerun or again  # stays set: an earlier attempt may have been committed
        self._writer.memory.check(commits)

    def _remember(self, commit: EncodedCommit, receipts: list[Receipt]) -> None:
        for sealed, receipt in zip(commit.writes, receipts, strict=True):
            if receipt.first_seq and sealed.key is not None and not receipt.replayed:
                self._writer.memory.keep(receipt.session_id, receipt.first_seq, sealed.key)

    # --- reading: retries while the server restarts

    def head(self, session_id: str) -> Header:
        return self._patiently(super().head, session_id)

    def holder(self, session_id: str) -> Holder | None:
        return self._patiently(super().holder, session_id)

    def read(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        kinds: frozenset[str] | None = None,
        newest_first: bool = False,
    ) -> list[StoredEvent]:
        return self._patiently(
            super().read, session_id, after=after, before=before, limit=limit, kinds=kinds, newest_first=newest_first
        )

    def find(self, query: Query) -> Page:
        return self._patiently(super().find, query)

    def resolve(self, prefix: str, *, owner_id: str = "local") -> str:
        return self._patiently(super().resolve, prefix, owner_id=owner_id)

    def queue(self, *, owner_id: str = "local") -> WorkQueueStats:
        return self._patiently(self._queue, owner_id)

    def _queue(self, owner_id: str) -> WorkQueueStats:
        self._usable()
        with self._translated(), self._pool.link() as link:
            return queue_of(link, owner_id)

    def tip(self, session_id: str) -> str:
        return self._patiently(super().tip, session_id)

    def route(self, route: str) -> str | None:
        return self._patiently(super().route, route)

    def routes(self, prefix: str = "") -> list[tuple[str, str]]:
        return self._patiently(super().routes, prefix)

    def blob(self, session_id: str, sha256: str) -> bytes:
        return self._patiently(super().blob, session_id, sha256)

    def snapshot(self, session_id: str, *, at_most: int | None = None) -> Snapshot | None:
        return self._patiently(super().snapshot, session_id, at_most=at_most)

    def _look(self, cursor: _Cursor) -> Batch | None:
        return self._patiently(super()._look, cursor)

    def _patiently(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        end = time.monotonic() + self._address.retry_seconds
        while True:
            try:
                return read(*args, **kwargs)
            except ServerAway:
                if time.monotonic() >= end:
                    raise
            time.sleep(RETRY_READ_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311 - to keep readers apart

    @contextmanager
    def _view(self) -> Generator[PostgresView]:
        with self._translated(), self._pool.view() as rows:
            yield rows

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except psycopg.Error as error:
            told = errors.translation(error, self._address)
            raise (ServerAway(str(told)) if errors.is_away(error) else told) from error

    def _changed(self) -> bool:
        """True once a second, to find commits of other processes whose notification was lost."""
        if self._forked:
            return False
        self._wakeups.listen()
        now = time.monotonic()
        if now < self._looked_at + LOOK_SECONDS:
            return False
        self._looked_at = now
        return True

    def _close(self) -> None:
        _open_stores.discard(self)
        self._wakeups.close()
        self._pool.close()
        self._claims.close()
        self._writer.hang_up()

    def forget(self) -> None:
        """Disable the store in a forked child, which must neither use nor close the parent's connections."""
        self._forked = True


def _session(entry: PendingCommit) -> str:
    write = entry.commit.writes[0].write
    assert isinstance(write, Append)
    return write.session_id


def _collisions(entries: list[PendingCommit]) -> int:
    """Return how many lock collisions to tolerate: few for a batch, so that one locked session delays no others."""
    return MOST_COLLISIONS if len(entries) == 1 else 2


def _receipt(entry: PendingCommit, seq: int) -> Receipt:
    return Receipt(session_id=_session(entry), seq=seq, first_seq=seq - len(entry.commit.writes[0].events) + 1)


def _leave(entries: list[PendingCommit], unsettled: UnsettledCommit) -> None:
    """Set the error of entries whose retry time is over: not written, or outcome unknown."""
    for entry in entries:
        if unsettled.unknown:
            key = next((sealed.key for sealed in entry.commit.writes if sealed.key is not None), None)
            entry.error = OutcomeUnknown(f"it is not known whether this was stored: {unsettled.cause}", key=key)
        else:
            entry.error = unsettled.cause


_open_stores: weakref.WeakSet[PostgresStore] = weakref.WeakSet()
_left_behind: list[PostgresStore] = []


def _after_fork_in_child() -> None:
    for store in list(_open_stores):
        store.forget()
        _left_behind.append(store)
    _open_stores.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
