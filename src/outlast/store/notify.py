"""Change notification: wakes followers and workers when the store may have changed.

A notification is a hint without content: the follower then reads from its own cursor. A commit of this process
notifies the followers of the sessions it wrote to at once. Commits of other processes are found by polling `changed`
every few milliseconds while anything waits. Workers that wait for work are not woken by what a driver writes into its
own turn, which is most writes. `touched` and `brings_work` decide whom a batch of commits wakes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from outlast.core.errors import OutcomeUnknown
from outlast.store.engine.encode import EncodedCommit
from outlast.store.engine.fast_append import PlainAppend
from outlast.store.group_commit import PendingCommit
from outlast.store.port import Append, Create, Delete, Release, Restore

if TYPE_CHECKING:
    import asyncio

POLL_SECONDS = 0.01
IDLE_SECONDS = 0.05
"""Poll interval while workers wait for work and no session is followed."""


class Subscription:
    """One follower's registration for a session."""

    def __init__(self, notifier: ChangeNotifier) -> None:
        self._notifier = notifier
        self.rung = 0
        self.futures: set[asyncio.Future[None]] = set()

    def now(self) -> int:
        """The number of notifications so far; take it before reading, then pass it to `wait`."""
        return self.rung

    def wait(self, since: int, timeout: float | None) -> bool:
        """Sleep until there is a notification after `since`; False on timeout."""
        return self._notifier.sleep(lambda: self.rung != since, timeout)

    async def wait_async(self, since: int, timeout: float | None) -> bool:
        return await self._notifier.sleep_async(self.futures, lambda: self.rung != since, timeout)


class ChangeNotifier:
    """Wakes the waiters of this process. `minds_work` tells whether any caller has asked for work. A change found by
    `changed` also counts as possible work, unless other processes announce work themselves (`tells_work`)."""

    def __init__(
        self, changed: Callable[[], bool], poll_seconds: float = POLL_SECONDS, *, tells_work: bool = False
    ) -> None:
        self._changed = changed
        self._poll_seconds = poll_seconds
        self._tells_work = tells_work
        self._condition = threading.Condition()
        self.minds_work = False
        self._worked = 0
        self._listeners = 0
        self._ears: dict[str, set[Subscription]] = {}
        self._idle: set[asyncio.Future[None]] = set()
        self._poller: threading.Thread | None = None
        self._closed = False

    @property
    def is_heard(self) -> bool:
        """Whether any session is followed."""
        return bool(self._ears)

    @contextmanager
    def ear(self, session_id: str) -> Generator[Subscription]:
        """Subscribe to a session. Subscribe before the first read: no later notification is missed."""
        ear = Subscription(self)
        with self._condition:
            self._ears.setdefault(session_id, set()).add(ear)
        try:
            yield ear
        finally:
            with self._condition:
                ears = self._ears[session_id]
                ears.discard(ear)
                if not ears:
                    del self._ears[session_id]

    def work(self) -> int:
        """The number of work notifications so far; take it before claiming, then pass it to `await_work`."""
        self.minds_work = True
        return self._worked

    async def await_work(self, since: int, timeout: float | None) -> bool:
        return await self.sleep_async(self._idle, lambda: self._worked != since, timeout)

    def ring(self, sessions: Collection[str] | None = None, *, work: bool = True) -> None:
        """Notify the followers of these sessions (None: of all), and with `work` the workers that wait for work."""
        self._worked += work  # first: a worker checks this counter after it has registered as a listener
        if not self._ears and not self._listeners:
            return
        with self._condition:
            futures = self._rung(sessions)
            if work:
                futures += self._idle
                self._idle.clear()
            self._condition.notify_all()
        for future in futures:
            loop = future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, future)

    def _rung(self, sessions: Collection[str] | None) -> list[asyncio.Future[None]]:
        named = self._ears if sessions is None else self._ears.keys() & set(sessions)
        futures: list[asyncio.Future[None]] = []
        for ear in [ear for name in named for ear in self._ears[name]]:
            ear.rung += 1
            futures += ear.futures
            ear.futures.clear()
        return futures

    def sleep(self, rung: Callable[[], bool], timeout: float | None) -> bool:
        with self._condition:
            self._listen()
            try:
                return self._condition.wait_for(lambda: rung() or self._closed, timeout)
            finally:
                self._listeners -= 1

    async def sleep_async(
        self, sleepers: set[asyncio.Future[None]], rung: Callable[[], bool], timeout: float | None
    ) -> bool:
        import asyncio  # imported late: commands without an event loop should start fast

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._condition:
            self._listen()
            if rung() or self._closed:
                self._listeners -= 1
                return True
            sleepers.add(future)
        try:
            async with asyncio.timeout(timeout):  # not wait_for: it loses a cancel that coincides with a notification
                await future
        except TimeoutError:
            return False
        finally:
            with self._condition:
                self._listeners -= 1
                sleepers.discard(future)
        return True

    def close(self) -> None:
        with self._condition:
            self._closed = True
            poller = self._poller
        self.ring()
        if poller is not None and poller is not threading.current_thread():
            poller.join()

    def _listen(self) -> None:
        self._listeners += 1
        if self._poller is None and not self._closed:
            self._poller = threading.Thread(target=self._poll, name="outlast-follow", daemon=True)
            self._poller.start()

    def _poll(self) -> None:
        pause = threading.Event()
        idle = 0
        while True:
            pause.wait(self._poll_seconds if self._ears else max(self._poll_seconds, IDLE_SECONDS))
            with self._condition:
                idle = 0 if self._listeners else idle + 1
                # A follower waits again right after it has read: keep the thread for a while between its waits.
                if self._closed or idle > 100:
                    self._poller = None
                    return
            if self._changed():
                self.ring(work=not self._tells_work)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def touched(batch: Iterable[PendingCommit]) -> set[str] | None:
    """The sessions that the batch wrote to; None if they are not known."""
    found: set[str] = set()
    for entry in batch:
        if entry.receipts is None:
            if isinstance(entry.error, OutcomeUnknown):
                return None
            continue  # refused: nothing was written
        if not isinstance(entry.commit, PlainAppend) and _spreads(entry.commit):
            return None
        found.update(receipt.session_id for receipt in entry.receipts if receipt.session_id)
    return found


def _spreads(commit: EncodedCommit) -> bool:
    """Whether the commit may have changed sessions that it does not name."""
    return any(isinstance(sealed.write, Delete) for sealed in commit.writes)


def brings_work(commit: EncodedCommit) -> bool:
    """Whether the commit may leave work for a driver: a door wrote, or a driver released a turn it has not ended."""
    if isinstance(commit, PlainAppend):
        return False
    ended = any(event.kind == "TurnEnded" for sealed in commit.writes for event in sealed.events)
    return any(
        isinstance(sealed.write, Create | Restore)
        or (isinstance(sealed.write, Append) and sealed.write.lease is None)
        or (isinstance(sealed.write, Release) and not ended)
        for sealed in commit.writes
    )
