"""Base class of all adapters: encoding, group commit, verified reads across forks, claiming and following.

An adapter implements how a batch of commits becomes durable (`_run`), how rows are read in one snapshot (`_view`) and
how it notices commits of other processes (`_changed`). The meaning of each write is in `outlast.store.engine`.
"""

from __future__ import annotations

import hashlib
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

from outlast.core.errors import (
    AmbiguousSession,
    ConflictError,
    DamagedSession,
    InvalidInput,
    SessionBusy,
    SessionDeleted,
    SessionNotFound,
    StoreUnavailable,
)
from outlast.core.event_row import StoredEvent
from outlast.core.events import MessageAppended
from outlast.core.header import Header
from outlast.core.ids import ID_LENGTH, is_id, is_prefix
from outlast.store.claim import candidates, queue_in
from outlast.store.engine.commit import expired
from outlast.store.engine.encode import EncodedCommit, is_large, seal
from outlast.store.engine.fast_append import plain_append, plain_message
from outlast.store.engine.transaction import HeaderRow
from outlast.store.engine.validate import storable
from outlast.store.group_commit import GroupCommit, PendingCommit
from outlast.store.maintenance.gc import GarbageCollector
from outlast.store.notify import POLL_SECONDS, ChangeNotifier, brings_work, touched
from outlast.store.port import (
    Append,
    Batch,
    Chunk,
    Claim,
    Claimed,
    ClaimRequest,
    Holder,
    NewEvent,
    Page,
    Query,
    Receipt,
    Snapshot,
    Swept,
    WorkQueueStats,
    Write,
)
from outlast.store.process_identity import now_us
from outlast.store.read.read_view import ListedSession as ListedSession
from outlast.store.read.read_view import ReadView as ReadView
from outlast.store.read.read_view import cursor_at, page_of, position_in, public, wanted
from outlast.store.read.verified_log import VerifiedLog

FOLLOW_PAGE = 256
_DIGEST = re.compile(r"[0-9a-f]{64}")
NO_EVENTS: list[StoredEvent] = []


Progress = Callable[[int, int], None]
"""Called with the amount done and the total."""


class LogStore(ABC):
    """An open store, as `open_store` returns it. Implements `outlast.store.port.Store`."""

    url: str
    compress = True
    poll_seconds = POLL_SECONDS
    writes_elsewhere = False
    """Whether another process (a database server) does the work of a commit."""
    knows_plain = False
    """Whether `_run` has a fast path for `PlainAppend`."""
    sessions_at_once = 256
    """How many sessions to inspect with one view."""
    timed: Callable[[float, int], None] | None = None
    """Called after each batch with its duration in seconds and its number of commits."""
    rotate_after_bytes: int | None = None
    """Size at which a live segment is sealed; only the files store has segments."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._group = GroupCommit(self._run_and_ring, by_halves=self.writes_elsewhere)
        self._notifier = ChangeNotifier(self._changed, self.poll_seconds, tells_work=self.writes_elsewhere)
        self._garbage_collector = GarbageCollector(self.commit, self._reading)
        self._closed = False
        self._before_close: list[Callable[[], None]] = []

    # --- what an adapter does

    @abstractmethod
    def _run(self, batch: list[PendingCommit]) -> None:
        """Set durable receipts or an error on every entry. Called by one thread at a time."""

    @abstractmethod
    def _view(self) -> AbstractContextManager[ReadView]: ...

    @abstractmethod
    def _changed(self) -> bool:
        """Whether another process may have committed since the last call."""

    @abstractmethod
    def _close(self) -> None: ...

    def storage_path(self, session_id: str) -> Path | None:
        """The file that holds the session's newest events, if the adapter has one."""
        return None

    def backup(self, target: Path, progress: Progress | None = None) -> str:
        """Make a consistent copy at an unused path while other processes write; return the URL that opens the copy."""
        raise StoreUnavailable("this store cannot copy itself; use its own tools")

    def _usable(self) -> None:
        """Raise if this handle cannot be used (any more)."""
        if self._closed:
            raise StoreUnavailable("the store is closed; open it again")

    # --- writing

    def commit(self, *writes: Write) -> list[Receipt]:
        self._usable()
        return self._group.submit(self._seal(writes))

    def append(self, session_id: str, event: MessageAppended, *, actor: str, touch: bool = True) -> list[Receipt]:
        """Same as `commit` of one `Append` that contains only this message."""
        plain = plain_message(session_id, event, actor, touch) if self.knows_plain else None
        if plain is None:
            new = NewEvent(event=event, actor=actor)
            return self.commit(Append(session_id=session_id, events=(new,), touch=touch))
        self._usable()
        return self._group.submit(plain)

    def append_async(
        self, session_id: str, event: MessageAppended, *, actor: str, touch: bool = True
    ) -> Awaitable[list[Receipt]]:
        """`append` without blocking the event loop."""
        plain = plain_message(session_id, event, actor, touch) if self.knows_plain else None
        if plain is None:
            new = NewEvent(event=event, actor=actor)
            return self.commit_async(Append(session_id=session_id, events=(new,), touch=touch))
        self._usable()
        return self._group.submit_soon(plain)

    async def commit_async(self, *writes: Write) -> list[Receipt]:
        self._usable()
        if not is_large(writes):
            return await self._group.submit_async(self._seal(writes))
        import asyncio

        return await self._group.submit_async(await asyncio.to_thread(self._seal, writes))

    def _seal(self, writes: tuple[Write, ...]) -> EncodedCommit:
        plain = plain_append(writes[0]) if self.knows_plain and len(writes) == 1 else None
        return seal(writes, compress=self.compress) if plain is None else plain

    def _run_and_ring(self, batch: list[PendingCommit]) -> None:
        began = time.perf_counter()
        try:
            self._run(batch)
        finally:
            if self.timed is not None:
                self.timed(time.perf_counter() - began, len(batch))
            notifier = self._notifier
            work = notifier.minds_work and any(brings_work(entry.commit) for entry in batch)
            notifier.ring(touched(batch) if notifier.is_heard else (), work=work)
            if time.monotonic() >= self._garbage_collector.due:
                self._garbage_collector.start()

    def claim(self, wanted: ClaimRequest) -> list[Claimed]:
        """Claim the candidates one by one: with a single writer, concurrent callers delay each other only briefly."""
        with self._reading() as view:
            found = list(candidates(view, wanted))
        claimed: list[Claimed] = []
        for session_id, was_held in found:
            try:
                [receipt] = self.commit(
                    Claim(session_id=session_id, token=wanted.token, holder=wanted.holder, ttl_ms=wanted.ttl_ms)
                )
            except (SessionBusy, SessionNotFound):
                continue  # another worker claimed it first, or it was deleted
            assert receipt.lease is not None
            claimed.append(Claimed(receipt.lease, was_held))
        return claimed

    async def claim_async(self, wanted: ClaimRequest) -> list[Claimed]:
        import asyncio

        return await asyncio.to_thread(self.claim, wanted)

    def work_heard(self) -> int:
        return self._notifier.work()

    async def await_work(self, since: int, timeout: float) -> bool:
        return await self._notifier.await_work(since, timeout)

    def sweep(self, now: int | None = None) -> Swept:
        self._usable()
        return self._garbage_collector.step(now_us() if now is None else now)

    # --- reading

    def head(self, session_id: str) -> Header:
        with self._reading() as view:
            return public(_live(view, session_id))

    def holder(self, session_id: str) -> Holder | None:
        with self._reading() as view:
            row = _live(view, session_id)
            if row.lease_token is None:
                return None
            late = expired(row, *view.lease_clock())
        return Holder(holder=row.lease_holder or "?", epoch=row.epoch, since=row.lease_since, expired=late)

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
        with self._reading() as view:
            log = VerifiedLog(view, _live(view, session_id))
            last = log.row.last_seq if before is None else min(before - 1, log.row.last_seq)
            pages = (
                log.backwards(max(after, 0), last, limit) if newest_first else log.forwards(max(after, 0), last, limit)
            )
            found: list[StoredEvent] = []
            for page in pages:
                found += page if kinds is None else [event for event in page if event.kind in kinds]
                if limit is not None and len(found) >= limit:
                    return found[:limit]
            return found

    def find(self, query: Query) -> Page:
        if query.limit < 1:
            raise InvalidInput("limit must be at least 1")
        if query.oldest_first and not query.pending:
            raise InvalidInput("only those with work can be listed oldest first: ask for pending=True")
        position = position_in(query.cursor, oldest_first=query.oldest_first)
        if not all(storable(name) for name in _names(query) if name):
            return Page(headers=[])  # no store can hold this name, so no session has it
        headers: list[Header] = []
        damaged: list[str] = []
        every = query.title is None and query.prefix is None and query.pending is None
        with self._reading() as view:
            while True:
                rows = view.listed(query, position, query.limit + 1)
                if every and not headers and None not in [listed.row for listed in rows]:
                    return page_of(rows, query.limit, damaged)
                for listed in rows:
                    if len(headers) == query.limit:
                        return Page(headers=headers, cursor=cursor_at(*position), damaged=damaged)
                    position = (listed.at, listed.session_id)
                    if listed.row is None:
                        damaged.append(listed.session_id)
                    elif wanted(listed.row, query):
                        headers.append(public(listed.row))
                if len(rows) <= query.limit:
                    return Page(headers=headers, damaged=damaged)

    def resolve(self, prefix: str, *, owner_id: str = "local") -> str:
        if not is_prefix(prefix):
            raise SessionNotFound(
                f"'{prefix}' is not a session id: give at least 6 of its {ID_LENGTH} characters (a-z, 2-7)"
            )
        with self._reading() as view:
            matches = view.with_prefix(prefix, owner_id, 11) if storable(owner_id) else []
        if not matches:
            raise SessionNotFound(f"no session begins with {prefix}; `outlast sessions list` shows the existing ones")
        if len(matches) > 1:
            raise AmbiguousSession(prefix, matches)
        return matches[0]

    def queue(self, *, owner_id: str = "local") -> WorkQueueStats:
        with self._reading() as view:
            return queue_in(view, owner_id)

    def tip(self, session_id: str) -> str:
        with self._reading() as view:
            row = _live(view, session_id)
            return (view.tip(row.root_id) if row.rotated_to else None) or session_id

    def route(self, route: str) -> str | None:
        with self._reading() as view:
            return view.route(route) if storable(route) else None

    def routes(self, prefix: str = "") -> list[tuple[str, str]]:
        with self._reading() as view:
            return view.routes(prefix) if storable(prefix) else []

    def blob(self, session_id: str, sha256: str) -> bytes:
        with self._reading() as view:
            row = _there(view, session_id)
            data = _blob(view, row, sha256) if _DIGEST.fullmatch(sha256) else None
        if data is None:
            if row.deleted_at is not None:
                raise SessionDeleted(f"session {session_id} was deleted")
            raise DamagedSession(session_id, None, f"blob {_named(sha256)} is missing")
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DamagedSession(session_id, None, f"blob {sha256} does not match its name")
        return data

    def snapshot(self, session_id: str, *, at_most: int | None = None) -> Snapshot | None:
        with self._reading() as view:
            row = _live(view, session_id)
            return view.snapshot(session_id, row.last_seq if at_most is None else at_most)

    # --- following

    def follow(
        self, session_id: str, *, after: int = 0, chunk: int = 0, timeout: float | None = None
    ) -> Iterator[Batch]:
        cursor = _Cursor(session_id, after, chunk)
        with self._notifier.ear(session_id) as ear:
            while True:
                heard = ear.now()
                batch = self._look(cursor)
                if batch is not None:
                    yield batch
                    cursor.rest()
                if cursor.over:
                    return
                if batch is None and not ear.wait(heard, cursor.patience(timeout)):
                    return

    async def follow_async(
        self, session_id: str, *, after: int = 0, chunk: int = 0, timeout: float | None = None
    ) -> AsyncIterator[Batch]:
        import asyncio  # imported late: commands without an event loop should start fast

        cursor = _Cursor(session_id, after, chunk)
        with self._notifier.ear(session_id) as ear:
            while True:
                heard = ear.now()
                batch = await asyncio.to_thread(self._look, cursor)
                if batch is not None:
                    yield batch
                    cursor.rest()
                if cursor.over:
                    return
                if batch is None and not await ear.wait_async(heard, cursor.patience(timeout)):
                    return

    def _look(self, cursor: _Cursor) -> Batch | None:
        """Return what is new after the cursor and advance the cursor; None if nothing is new."""
        session_id = cursor.session_id
        try:
            with self._reading() as view:
                row = _live(view, session_id)
                if cursor.seq > row.last_seq:
                    raise ConflictError(
                        f"session {session_id} has no event {cursor.seq}; its last one is {row.last_seq}"
                    )
                events = next(VerifiedLog(view, row).forwards(cursor.seq, row.last_seq, FOLLOW_PAGE), NO_EVENTS)
                caught_up = cursor.seq + len(events) == row.last_seq
                chunks = view.chunks(session_id, 0 if events else cursor.chunk) if caught_up else []
        except SessionDeleted:
            cursor.over = True
            return None
        return cursor.move(events, chunks, row.last_seq)

    @property
    def closed(self) -> bool:
        return self._closed

    def inspect(self) -> AbstractContextManager[ReadView]:
        """A view of the raw, unchecked rows: for verification, search and administration, not for ordinary reads."""
        return self._reading()

    def before_close(self, stop: Callable[[], None]) -> None:
        """Call `stop` at the beginning of `close`: it ends a thread that reads this store."""
        self._before_close.append(stop)

    def close(self) -> None:
        while self._before_close:
            self._before_close.pop()()
        if not self._closed:
            self._garbage_collector.close()
            self._group.close()
            self._closed = True
            self._notifier.close()
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def _reading(self) -> AbstractContextManager[ReadView]:
        self._usable()
        return self._view()


class _Cursor:
    """How far a follower has read."""

    def __init__(self, session_id: str, seq: int, chunk: int) -> None:
        self.session_id = session_id
        self.seq, self.chunk, self.over = max(seq, 0), max(chunk, 0), False
        self.rest()

    def rest(self) -> None:
        """Restart the idle timeout."""
        self._idle_since = time.monotonic()

    def patience(self, timeout: float | None) -> float | None:
        """Seconds left until the idle timeout, which activity in other sessions does not extend."""
        return None if timeout is None else max(0.0, self._idle_since + timeout - time.monotonic())

    def move(self, events: list[StoredEvent], chunks: list[Chunk], last_seq: int) -> Batch | None:
        if not events and not chunks:
            return None
        if events:
            self.seq, self.chunk = events[-1].seq, 0
            # A SessionRotated that a fork inherited ended the parent's stream, not this one.
            self.over = any(row.kind == "SessionRotated" and row.session_id == self.session_id for row in events)
        if chunks:
            self.chunk = chunks[-1].n
        return Batch(events=events, chunks=chunks, last_seq=last_seq)


def _names(query: Query) -> tuple[str | None, ...]:
    return query.owner_id, query.state, query.project_key, query.project_fingerprint, query.base_id


def _there(view: ReadView, session_id: str) -> HeaderRow:
    """The row of a session, tombstones included."""
    row = view.header(session_id) if is_id(session_id) else None
    if row is None:
        raise SessionNotFound(f"no session {_named(session_id)}; `outlast sessions list` shows the existing ones")
    return row


def _named(text: str) -> str:
    """A caller-given id or blob name, made safe for an error message."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")[:80]


def _blob(view: ReadView, row: HeaderRow, sha256: str) -> bytes | None:
    """A blob of the session or of the sessions it inherits from."""
    data = view.blob(row.session_id, sha256)
    while data is None and row.base_id is not None:
        row = _there(view, row.base_id)
        data = view.blob(row.session_id, sha256)
    return data


def _live(view: ReadView, session_id: str) -> HeaderRow:
    row = _there(view, session_id)
    if row.deleted_at is not None:
        raise SessionDeleted(f"session {session_id} was deleted")
    return row
