"""Group commit: concurrent commits share one sync.

Leader and followers: a calling thread that finds no leader becomes the leader and commits its entry. Threads that come
meanwhile queue and sleep until their commit is decided or they become the next leader, which commits the queue as one
batch. A lone caller pays no thread hop and no delay. Async callers use the same queue; a worker thread leads when no
calling thread waits. How a batch becomes durable is the adapter's part (`run`).
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from outlast.core.errors import OutcomeUnknown, StoreUnavailable
from outlast.store.engine.encode import EncodedCommit
from outlast.store.port import Receipt

if TYPE_CHECKING:
    import asyncio

MAX_COMMITS = 256
LEAST_HALF = 24
MAX_BYTES = 1024 * 1024
CLOSED = "the store is closed; open it again"


class PendingCommit:
    """A queued commit and its outcome. `gate` is locked while the caller sleeps; `led` is the batch it leads."""

    __slots__ = ("commit", "error", "future", "gate", "led", "receipts")

    def __init__(self, commit: EncodedCommit, future: asyncio.Future[list[Receipt]] | None = None) -> None:
        self.commit = commit
        self.future = future
        self.gate: threading.Lock | None = None
        self.led: list[PendingCommit] | None = None
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
    """Queue and leader election. `run` receives a batch and must decide every entry; two threads never call it at once.
    `by_halves` limits a batch to half of a long queue (see `_next_batch`)."""

    def __init__(self, run: Callable[[list[PendingCommit]], None], *, by_halves: bool = False) -> None:
        self._run = run
        self._by_halves = by_halves
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self._queue: deque[PendingCommit] = deque()
        self._leader: PendingCommit | _CommitThread | None = None
        self._closed = False
        self._worker: threading.Thread | None = None
        self._worker_leads: queue.SimpleQueue[None] = queue.SimpleQueue()

    def submit(self, commit: EncodedCommit) -> list[Receipt]:
        entry = PendingCommit(commit)
        try:
            with self._mutex:
                if self._closed:
                    raise StoreUnavailable(CLOSED)
                if self._leader is None:  # without a leader the queue is empty
                    gate, self._leader = None, entry
                else:
                    gate = threading.Lock()
                    gate.acquire()
                    entry.gate = gate
                    self._queue.append(entry)
            if gate is None:
                self._lead([entry])
            else:
                gate.acquire()
                if not entry.decided:
                    self._lead_once()
        except BaseException:
            self._withdraw(entry)
            raise
        return entry.outcome()

    def submit_soon(self, commit: EncodedCommit) -> asyncio.Future[list[Receipt]]:
        """Queue a commit from a running event loop; the future receives the outcome.

        Cancelling the future does not withdraw the commit.
        """
        import asyncio  # imported late: commands without an event loop should start fast

        future: asyncio.Future[list[Receipt]] = asyncio.get_running_loop().create_future()
        with self._mutex:
            if self._closed:
                raise StoreUnavailable(CLOSED)
            self._queue.append(PendingCommit(commit, future))
            if self._leader is None:
                self._let_worker_lead()
        return future

    async def submit_async(self, commit: EncodedCommit) -> list[Receipt]:
        return await self.submit_soon(commit)

    def close(self) -> None:
        """Refuse new commits; return when all queued commits are decided."""
        with self._mutex:
            self._closed = True
            while self._leader is not None or self._queue:
                self._idle.wait()
            worker, self._worker = self._worker, None
        if worker is not None:
            self._worker_leads.put(None)
            worker.join()

    def _withdraw(self, entry: PendingCommit) -> None:
        """Clean up after a caller that was interrupted (Ctrl-C) at any point: its write stays queued, but it gives up
        the lead, and the entries of its batch receive their outcome."""
        led = entry.led or []
        self._hand_back(led)
        with self._mutex:
            entry.gate = None
            leader = self._leader
            if leader is entry:
                self._pass_on()
            elif leader is _WORKER:
                self._let_worker_lead()
            elif isinstance(leader, PendingCommit):
                _wake(leader)  # the interruption may have come before the wake-up
        _deliver(led)

    def _lead_once(self) -> None:
        with self._mutex:
            batch = self._next_batch()
        self._lead(batch)

    def _lead(self, batch: list[PendingCommit]) -> None:
        try:
            self._run(batch)
        except Exception as error:  # noqa: BLE001 - one commit's fault must not fail the others in the batch
            self._run_alone(batch, error)
        except BaseException:
            self._hand_back(batch)
            raise
        finally:
            for entry in batch:
                if entry.receipts is None and entry.error is None:
                    entry.error = OutcomeUnknown("interrupted while committing", key=entry.commit.key)
            with self._mutex:
                if self._queue or self._closed:
                    self._pass_on()
                else:
                    self._leader = None
            if len(batch) > 1 or batch[0].future is not None or batch[0].gate is not None:
                _deliver(batch)

    def _hand_back(self, batch: list[PendingCommit]) -> None:
        """After an interruption of the leader, put the undecided others back at the front of the queue."""
        with self._mutex:
            others = [entry for entry in batch[1:] if not entry.decided]
            batch[1:] = [entry for entry in batch[1:] if entry not in others]
            for entry in reversed(others):
                entry.commit.rerun = True
                if entry not in self._queue:
                    self._queue.appendleft(entry)

    def _run_alone(self, batch: list[PendingCommit], error: Exception) -> None:
        """After an unexpected error, run each undecided commit again by itself; its key prevents a double write."""
        for entry in batch:
            if entry.decided:
                continue
            entry.commit.rerun = True
            try:
                self._run([entry])
            except Exception as again:  # noqa: BLE001 - as above
                told = f"it is not known whether this was stored: {type(again).__name__}: {again}"
                entry.error = OutcomeUnknown(told, key=entry.commit.key)
                entry.error.__cause__ = error

    def _next_batch(self) -> list[PendingCommit]:
        # If another process does the work, commit half of a long queue: its callers can prepare their next commits
        # while the other half is being written.
        most = min(MAX_COMMITS, max(LEAST_HALF, (len(self._queue) + 1) // 2)) if self._by_halves else MAX_COMMITS
        batch: list[PendingCommit] = []
        size = 0
        for entry in self._queue:
            size += entry.commit.size
            if batch and (len(batch) == most or size > MAX_BYTES):
                break
            batch.append(entry)
        batch[0].led = batch  # set before dequeuing, so that an interrupted leader can always hand the batch back
        for _ in batch:
            self._queue.popleft()
        return batch

    def _pass_on(self) -> None:
        """Make a waiting entry the leader. The caller holds the mutex."""
        if not self._queue:
            self._leader = None
            self._idle.notify_all()
            return
        waiting = next((entry for entry in self._queue if entry.gate is not None), None)
        if waiting is None:  # only async callers and interrupted ones are left
            self._let_worker_lead()
            return
        # The leader's own write must be in its batch.
        self._queue.remove(waiting)
        self._queue.appendleft(waiting)
        self._leader = waiting
        _wake(waiting)

    def _let_worker_lead(self) -> None:
        self._leader = _WORKER
        self._start_worker()
        self._worker_leads.put(None)

    def _start_worker(self) -> None:
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="outlast-commit", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        while True:
            self._worker_leads.get()
            with self._mutex:
                if self._leader is not _WORKER:
                    if self._closed and self._leader is None and not self._queue:
                        return
                    continue  # duplicate wake-up
                if not self._queue:
                    self._leader = None
                    self._idle.notify_all()
                    continue
            self._lead_once()


class _CommitThread:
    """Marks the worker thread as the leader; it leads for callers that do not block a thread."""


_WORKER = _CommitThread()


def _wake(entry: PendingCommit) -> None:
    """Wake the entry's caller. Idempotent."""
    gate = entry.gate
    if gate is not None:
        if gate.locked():
            gate.release()
        entry.gate = None


def _deliver(batch: list[PendingCommit]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[PendingCommit]] = {}
    for entry in batch:
        if entry.future is not None:
            by_loop.setdefault(entry.future.get_loop(), []).append(entry)
        else:
            _wake(entry)
    for loop, entries in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, entries)


def _resolve(entries: list[PendingCommit]) -> None:
    for entry in entries:
        assert entry.future is not None
        if entry.future.done():
            continue
        if entry.error is not None:
            entry.future.set_exception(entry.error)
        else:
            entry.future.set_result(entry.outcome())
