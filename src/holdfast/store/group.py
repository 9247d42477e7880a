"""Group commit: one sync for everybody who waits.

Leader and followers: a thread that finds nobody at work commits, for itself and for all that queued up meanwhile; the
others sleep until their outcome is there or the lead is handed to them. A lone caller pays no thread hop and no delay.
Async callers queue in the same line; a worker thread leads when no calling thread does.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable

from holdfast.core.errors import OutcomeUnknown, StoreUnavailable
from holdfast.store.port import Receipt
from holdfast.store.sealing import Commit

MAX_COMMITS = 256
LEAST_HALF = 24
MAX_BYTES = 1024 * 1024
CLOSED = "the store is closed; open it again"


class Entry:
    """A commit in the line, and how it ended."""

    __slots__ = ("commit", "error", "future", "gate", "leads", "receipts")

    def __init__(self, commit: Commit, future: asyncio.Future[list[Receipt]] | None = None) -> None:
        self.commit = commit
        self.future = future
        self.gate: threading.Lock | None = None
        self.leads = False
        self.receipts: list[Receipt] | None = None
        self.error: BaseException | None = None

    @property
    def decided(self) -> bool:
        return self.receipts is not None or self.error is not None

    def outcome(self) -> list[Receipt]:
        if self.error is not None:
            raise self.error
        assert self.receipts is not None
        return self.receipts


class GroupCommit:
    """`run` gets a batch and must decide every entry of it; it is never called by two threads at once."""

    def __init__(self, run: Callable[[list[Entry]], None], *, by_halves: bool = False) -> None:
        self._run = run
        self._by_halves = by_halves
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self._queue: deque[Entry] = deque()
        self._leading = False
        self._closed = False
        self._worker: threading.Thread | None = None
        self._worker_leads: queue.SimpleQueue[None] = queue.SimpleQueue()

    def submit(self, commit: Commit) -> list[Receipt]:
        entry = Entry(commit)
        with self._mutex:
            if self._closed:
                raise StoreUnavailable(CLOSED)
            if self._leading:
                entry.gate = threading.Lock()
                entry.gate.acquire()
                self._queue.append(entry)
            else:
                self._leading = True
        if entry.gate is None:  # nobody was at work, so nobody is in the line
            self._lead([entry])
        else:
            self._await_turn(entry)
            if not entry.decided:
                self._lead_once()
        return entry.outcome()

    async def submit_async(self, commit: Commit) -> list[Receipt]:
        future: asyncio.Future[list[Receipt]] = asyncio.get_running_loop().create_future()
        with self._mutex:
            if self._closed:
                raise StoreUnavailable(CLOSED)
            self._queue.append(Entry(commit, future))
            if not self._leading:
                self._leading = True
                self._let_worker_lead()
        return await future  # a caller that is cancelled cancels this, which is only its wish to know

    def close(self) -> None:
        """Take nothing more; return when everything handed in is decided."""
        with self._mutex:
            self._closed = True
            while self._leading or self._queue:
                self._idle.wait()
            worker, self._worker = self._worker, None
        if worker is not None:
            self._worker_leads.put(None)
            worker.join()

    def _await_turn(self, entry: Entry) -> None:
        assert entry.gate is not None
        try:
            entry.gate.acquire()
        except BaseException:
            # Interrupted (Ctrl-C) while waiting: the write stays in the line, but nobody must wait for us to lead.
            with self._mutex:
                entry.gate = None
                if entry.leads:
                    self._pass_on()
            raise

    def _lead_once(self) -> None:
        with self._mutex:
            batch = self._next_batch()
        self._lead(batch)

    def _lead(self, batch: list[Entry]) -> None:
        try:
            self._run(batch)
        finally:
            for entry in batch:
                if entry.receipts is None and entry.error is None:
                    entry.error = OutcomeUnknown("interrupted while committing", key=entry.commit.key)
            with self._mutex:
                if self._queue or self._closed:
                    self._pass_on()
                else:
                    self._leading = False
            if len(batch) > 1 or batch[0].future is not None or batch[0].gate is not None:
                _deliver(batch)

    def _next_batch(self) -> list[Entry]:
        # Where another process does the work, half of a long line goes first: its callers come back with their next
        # commits while the other half is being written, instead of everybody waiting for everybody.
        most = min(MAX_COMMITS, max(LEAST_HALF, (len(self._queue) + 1) // 2)) if self._by_halves else MAX_COMMITS
        batch = [self._queue.popleft()]
        size = batch[0].commit.size
        while self._queue and len(batch) < most and size + self._queue[0].commit.size <= MAX_BYTES:
            batch.append(self._queue.popleft())
            size += batch[-1].commit.size
        return batch

    def _pass_on(self) -> None:
        """Hand the lead to whoever waits; with the mutex held."""
        if not self._queue:
            self._leading = False
            self._idle.notify_all()
            return
        waiting = next((entry for entry in self._queue if entry.gate is not None), None)
        if waiting is None:  # async callers, and those that were interrupted while they waited
            self._let_worker_lead()
            return
        assert waiting.gate is not None
        waiting.leads = True
        # The leader's own write must be in the batch it takes.
        self._queue.remove(waiting)
        self._queue.appendleft(waiting)
        waiting.gate.release()

    def _let_worker_lead(self) -> None:
        self._start_worker()
        self._worker_leads.put(None)

    def _start_worker(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="holdfast-commit", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        while True:
            self._worker_leads.get()
            with self._mutex:
                if not self._queue:
                    if self._closed:
                        return
                    self._leading = False
                    self._idle.notify_all()
                    continue
            self._lead_once()


def _deliver(batch: list[Entry]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[Entry]] = {}
    for entry in batch:
        if entry.future is not None:
            by_loop.setdefault(entry.future.get_loop(), []).append(entry)
        elif entry.gate is not None and not entry.leads:
            entry.gate.release()
    for loop, entries in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, entries)


def _resolve(entries: list[Entry]) -> None:
    for entry in entries:
        assert entry.future is not None
        if entry.future.done():
            continue
        if entry.error is not None:
            entry.future.set_exception(entry.error)
        else:
            entry.future.set_result(entry.outcome())
