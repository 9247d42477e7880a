"""The in-memory store: dicts as tables, an undo list as the transaction, the engine's rules on top.

`memory://` is a new, empty store each time it is opened. `memory://NAME` is one store for the whole process: it keeps
its sessions after its last handle is closed, until the process ends or `discard` drops it. Nothing reaches the disk.
The store passes the same contract tests as every adapter, and is the shortest example of an adapter.
"""

from __future__ import annotations

import copy
import os
import re
import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from outlast.core.errors import ConfigError, OutlastError, StoreUnavailable
from outlast.core.event_row import StoredEvent
from outlast.core.header import Delta
from outlast.store import process_identity
from outlast.store.engine.commit import apply_commit
from outlast.store.engine.transaction import HeaderRow, KeyRow, Transaction
from outlast.store.group_commit import PendingCommit
from outlast.store.log_store import LogStore
from outlast.store.port import Chunk, Query, Snapshot
from outlast.store.read.inspection import StoredKey
from outlast.store.read.read_view import (
    BLOB_PART,
    EventSlice,
    ListedSession,
    ReadMark,
    ReadView,
    fits,
    in_order,
    mark_of,
    place_in,
    place_of,
)

K = TypeVar("K")
V = TypeVar("V")


SCHEME = "memory://"
_NAME = re.compile(r"[A-Za-z0-9._-]{0,64}")


@dataclass
class Memory:
    """The tables. `ended` counts committed transactions, `undo` rolls the open one back."""

    sessions: dict[str, HeaderRow] = field(default_factory=dict[str, HeaderRow])
    events: dict[str, list[StoredEvent]] = field(default_factory=dict[str, list[StoredEvent]])
    keys: dict[tuple[str, str], KeyRow] = field(default_factory=dict[tuple[str, str], KeyRow])
    tips: dict[str, str] = field(default_factory=dict[str, str])
    chunks: dict[str, list[Chunk]] = field(default_factory=dict[str, list[Chunk]])
    route: dict[str, str] = field(default_factory=dict[str, str])
    blobs: dict[tuple[str, str], tuple[int, bytes]] = field(default_factory=dict[tuple[str, str], tuple[int, bytes]])
    snapshots: dict[str, list[Snapshot]] = field(default_factory=dict[str, list[Snapshot]])
    note: list[str] = field(default_factory=list[str])
    work: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    ended: int = 0
    undo: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    mutex: threading.RLock = field(default_factory=threading.RLock)

    def put(self, table: dict[K, V], key: K, value: V | None) -> None:
        """Set or remove an entry; `roll_back` restores the old one."""
        before = table.get(key)
        self.undo.append(lambda: table.pop(key, None) if before is None else table.__setitem__(key, before))
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def put_session(self, row: HeaderRow) -> None:
        before = self.sessions.get(row.session_id)
        was, now = (before.work_since if before is not None else None), row.work_since
        self.put(self.sessions, row.session_id, copy.copy(row))
        if was != now:
            self._move_work(row.session_id, was, now)
            self.undo.append(lambda: self._move_work(row.session_id, now, was))

    def _move_work(self, session_id: str, was: int | None, now: int | None) -> None:
        if was is not None:
            with suppress(ValueError):
                self.work.remove((was, session_id))
        if now is not None:
            insort(self.work, (now, session_id))

    def commit(self) -> None:
        self.undo.clear()
        self.ended += 1

    def roll_back(self) -> None:
        while self.undo:
            self.undo.pop()()


class MemoryRows(Transaction, ReadView):
    """Implements `Transaction` for the engine and `ReadView` for readers."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._seen: dict[str, HeaderRow] = {}

    # --- headers

    def lease_clock(self) -> tuple[int, str]:
        return process_identity.boot_ms(), "the store"

    def header(self, session_id: str) -> HeaderRow | None:
        if session_id not in self._seen:
            found = self._memory.sessions.get(session_id)
            if found is None:
                return None
            self._seen[session_id] = copy.copy(found)
        return self._seen[session_id]

    def create(self, row: HeaderRow) -> None:
        self._memory.put(self._memory.events, row.session_id, [])
        self.save(row)

    def save(self, row: HeaderRow) -> None:
        self._seen[row.session_id] = row
        self._memory.put_session(row)

    # --- events and keys

    def append(self, row: HeaderRow, events: list[StoredEvent]) -> None:
        log = self._memory.events[row.session_id]
        count = len(log)
        self._memory.undo.append(lambda: log.__delitem__(slice(count, None)))
        log += events
        self.save(row)

    def restore(
        self, row: HeaderRow, events: list[StoredEvent], deltas: Mapping[int, Delta], keys: Sequence[tuple[str, KeyRow]]
    ) -> None:
        self.append(row, [event._replace(redacted=event.seq in deltas) for event in events])
        for key, found in keys:
            self.put_key(row.root_id, key, found)

    def rows(self, session_id: str, after: int, upto: int) -> list[StoredEvent]:
        log = self._memory.events.get(session_id, [])
        first = log[0].seq if log else 1
        return log[max(0, after + 1 - first) : max(0, upto + 1 - first)]

    def key(self, scope: str, key: str) -> KeyRow | None:
        return self._memory.keys.get((scope, key))

    def put_key(self, scope: str, key: str, row: KeyRow) -> None:
        self._memory.put(self._memory.keys, (scope, key), row)

    def forget_keys(self, session_id: str, keys: Sequence[tuple[str, str]]) -> None:
        for scope, key in keys:
            found = self.key(scope, key)
            if found is not None and found.session_id == session_id:
                self._memory.put(self._memory.keys, (scope, key), None)

    def tip(self, root_id: str) -> str | None:
        return self._memory.tips.get(root_id)

    def put_tip(self, root_id: str, session_id: str) -> None:
        self._memory.put(self._memory.tips, root_id, session_id)

    def drop_events(self, session_id: str, after: int) -> None:
        kept = [row for row in self._memory.events[session_id] if row.seq <= after]
        self._memory.put(self._memory.events, session_id, kept)

    def blank(self, session_id: str, seq: int, digest: bytes) -> None:
        log = [
            row._replace(body=digest, redacted=True) if row.seq == seq else row
            for row in self._memory.events[session_id]
        ]
        self._memory.put(self._memory.events, session_id, log)

    def forks(self, session_id: str) -> list[HeaderRow]:
        found = (self.header(name) for name, row in self._memory.sessions.items() if row.base_id == session_id)
        return [row for row in found if row is not None]

    # --- drafts

    def chunks(self, session_id: str, after: int) -> list[Chunk]:
        return [chunk for chunk in self._memory.chunks.get(session_id, []) if chunk.n > after]

    def put_chunk(self, session_id: str, chunk: Chunk) -> None:
        before = self._memory.chunks.get(session_id, []) if chunk.n > 1 else []
        self._memory.put(self._memory.chunks, session_id, [*before, chunk])

    def drop_chunks(self, session_id: str) -> None:
        if session_id in self._memory.chunks:
            self._memory.put(self._memory.chunks, session_id, None)

    # --- routes, blobs, snapshots

    def route(self, route: str) -> str | None:
        return self._memory.route.get(route)

    locked_route = route  # a writer already holds the mutex

    def put_route(self, route: str, session_id: str | None) -> None:
        self._memory.put(self._memory.route, route, session_id)

    def move_routes(self, from_session_id: str, to_session_id: str | None) -> None:
        for route in [name for name, leads in self._memory.route.items() if leads == from_session_id]:
            self._memory.put(self._memory.route, route, to_session_id)

    def blob(self, session_id: str, sha256: str) -> bytes | None:
        found = self._memory.blobs.get((session_id, sha256))
        return found[1] if found is not None else None

    def blob_part(self, session_id: str, sha256: str, number: int) -> bytes | None:
        data = self.blob(session_id, sha256)
        return None if data is None else data[number * BLOB_PART : (number + 1) * BLOB_PART] or None

    def put_blob(self, session_id: str, sha256: str, data: bytes) -> None:
        self._memory.put(self._memory.blobs, (session_id, sha256), (self.clock(), data))

    def blobs(self, session_id: str) -> dict[str, int]:
        return {name: at for (owner, name), (at, _) in self._memory.blobs.items() if owner == session_id}

    def drop_blobs(self, session_id: str, keep: set[str]) -> None:
        for name in self.blobs(session_id).keys() - keep:
            self._memory.put(self._memory.blobs, (session_id, name), None)

    def snapshot(self, session_id: str, at_most: int) -> Snapshot | None:
        found = [one for one in self._memory.snapshots.get(session_id, []) if one.seq <= at_most]
        return max(found, key=lambda one: one.seq, default=None)

    def put_snapshot(self, session_id: str, seq: int, fold_version: int, state: bytes) -> None:
        kept = [one for one in self._memory.snapshots.get(session_id, []) if one.seq != seq]
        made = Snapshot(seq=seq, fold_version=fold_version, state=state)
        self._memory.put(self._memory.snapshots, session_id, [*kept, made])

    def drop_snapshots(self, session_id: str) -> None:
        self._memory.put(self._memory.snapshots, session_id, None)

    def put_note(self, text: str) -> None:
        self._memory.note[:] = [text]

    def note(self) -> str | None:
        return self._memory.note[0] if self._memory.note else None

    # --- lists

    def listed(self, query: Query, position: tuple[int, str], limit: int) -> list[ListedSession]:
        if query.pending and query.oldest_first:
            places = self._memory.work[bisect_right(self._memory.work, position) :]
            found = (self._memory.sessions[name] for _, name in places)
            rows: list[ListedSession] = []
            for row in found:
                if fits(row, query):
                    rows.append(ListedSession(row.session_id, row.work_since or 0, row))
                    if len(rows) == limit:
                        break
            return rows
        every = [row for row in self._memory.sessions.values() if fits(row, query)]
        return in_order([ListedSession(row.session_id, place_of(row, query), row) for row in every], query, position)[
            :limit
        ]

    def marks(self) -> list[ReadMark]:
        return [mark_of(row) for row in self._memory.sessions.values()]

    def with_prefix(self, prefix: str, owner_id: str, limit: int) -> list[str]:
        sessions = self._memory.sessions.values()
        named = (row for row in sessions if row.session_id.startswith(prefix) and row.owner_id == owner_id)
        return sorted(row.session_id for row in named if row.deleted_at is None)[:limit]

    # --- housekeeping and inspection

    def old_keys(self, cursor: str, deleted_before: int, limit: int) -> EventSlice:
        places = [place for place in sorted(self._memory.keys) if place > tuple(place_in(cursor, ["", ""]))]
        rows = [(self._memory.keys[place].session_id, place) for place in places[:limit]]
        found = [(owner, place if self._was_deleted(owner, deleted_before) else None) for owner, place in rows]
        return EventSlice.of(found, list(places[limit - 1]) if len(places) > limit else None, more=len(places) > limit)

    def _was_deleted(self, session_id: str, before: int) -> bool:
        row = self._memory.sessions.get(session_id)
        return row is not None and row.deleted_at is not None and row.deleted_at < before

    def old_blobs(self, cursor: str, after: int, before: int, limit: int) -> EventSlice:
        places = [place for place in sorted(self._memory.blobs) if place > tuple(place_in(cursor, ["", ""]))]
        found: list[tuple[str, tuple[str, str] | None]] = []
        for owner, name in places[:limit]:
            is_old = after <= self._memory.blobs[(owner, name)][0] < before
            lives = self._memory.sessions[owner].deleted_at is None
            found.append((owner, (name, "") if is_old and lives else None))
        return EventSlice.of(found, list(places[limit - 1]) if len(places) > limit else None, more=len(places) > limit)

    def everything(self) -> tuple[list[str], list[str]]:
        return sorted(self._memory.sessions), []

    def scan(self, session_id: str) -> Iterator[StoredEvent]:
        yield from self._memory.events.get(session_id, [])

    def keys_of(self, session_ids: Collection[str]) -> list[StoredKey]:
        return [StoredKey(*place, row) for place, row in self._memory.keys.items() if row.session_id in session_ids]

    def blobs_of(self, session_id: str) -> list[str]:
        return sorted(self.blobs(session_id))

    def routes(self, prefix: str = "") -> list[tuple[str, str]]:
        return sorted((route, leads) for route, leads in self._memory.route.items() if route.startswith(prefix))

    def lineages(self) -> list[tuple[str, str]]:
        return sorted(self._memory.tips.items())


_named: dict[str, Memory] = {}


def memory_at(url: str) -> Memory:
    """The tables for a URL: new ones for `memory://`, the process-wide ones for `memory://NAME`."""
    name = name_of(url)
    return _named.setdefault(name, Memory()) if name else Memory()


def name_of(url: str) -> str:
    """The NAME of `memory://NAME`; empty for `memory://`. `ConfigError` for any other URL."""
    name = url.removeprefix(SCHEME)
    if not url.startswith(SCHEME) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"'{url}' is not a store: use memory://, or memory://NAME with letters, digits, '.', '_', '-'"
        )
    return name


def is_open(url: str) -> bool:
    """Whether this process has a store with this name."""
    return name_of(url) in _named


def discard(url: str) -> None:
    """Drop the sessions of `memory://NAME`. Open handles keep their data."""
    _named.pop(name_of(url), None)


os.register_at_fork(after_in_child=_named.clear)  # the parent would never see writes to the child's copy


class MemoryStore(LogStore):
    """A handle on tables in memory. Any number of handles in this process can share them."""

    def __init__(self, memory: Memory, url: str = SCHEME) -> None:
        super().__init__(url)
        self.memory = memory
        self._heard = memory.ended
        self._pid = os.getpid()

    def _usable(self) -> None:
        super()._usable()
        if os.getpid() != self._pid:
            raise StoreUnavailable("this store was opened before a fork; open a store in the child process")

    def _run(self, batch: list[PendingCommit]) -> None:
        for entry in batch:
            try:
                entry.receipts = self.carry_out(entry.commit)
            except OutlastError as error:
                entry.error = error

    def carry_out(self, commit: Any) -> Any:
        """Apply one commit in one transaction."""
        with self.memory.mutex:
            try:
                receipts = apply_commit(MemoryRows(self.memory), commit)
            except BaseException:
                self.memory.roll_back()
                raise
            self.memory.commit()
            return receipts

    @contextmanager
    def _view(self) -> Generator[MemoryRows]:
        with self.memory.mutex:
            yield MemoryRows(self.memory)

    def _changed(self) -> bool:
        changed, self._heard = self.memory.ended != self._heard, self.memory.ended
        return changed

    def _close(self) -> None:
        """Keep the tables: other handles may use them."""
