"""The bell: rung whenever the store may have changed, so that followers look again.

It is a hint, never a message: whoever hears it reads from its own cursor. A commit of this process rings at once, for
those who follow the sessions that it wrote to; changes of other processes are found by `changed`, asked every few
milliseconds while somebody waits. Those who look for work sleep through what a driver writes into its own turn: most of
what is written.

What is told about a batch of commits, to followers and workers, here and in other processes. Hints, not facts.
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
"""As often it is looked while somebody waits for work, and nobody follows anything."""


class Subscription:
    """Whoever follows one session."""

    def __init__(self, notifier: ChangeNotifier) -> None:
        self._bell = notifier
        self.rung = 0
        self.futures: set[asyncio.Future[None]] = set()

    def now(self) -> int:
        """How often it was rung; pass it to `wait` after having looked."""
        return self.rung

    def wait(self, since: int, timeout: float | None) -> bool:
        """Sleep until it was rung after `since`; False when the time is over."""
        return self._bell.sleep(lambda: self.rung != since, timeout)

    async def wait_async(self, since: int, timeout: float | None) -> bool:
        return await self._bell.sleep_async(self.futures, lambda: self.rung != since, timeout)


class ChangeNotifier:
    """`minds_work` tells whether anybody here looks for work at all. What `changed` finds may be work, too, unless
    others tell of theirs (`tells_work`)."""

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
        """Whether anybody follows anything."""
        return bool(self._ears)

    @contextmanager
    def ear(self, session_id: str) -> Generator[Subscription]:
        """To be had before the first look: what is rung from then on is heard."""
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
        """How often it was rung for work; pass it to `await_work` after having looked."""
        self.minds_work = True
        return self._worked

    async def await_work(self, since: int, timeout: float | None) -> bool:
        return await self.sleep_async(self._idle, lambda: self._worked != since, timeout)

    def ring(self, sessions: Collection[str] | None = None, *, work: bool = True) -> None:
        """For those who follow these sessions, or any; and for `work` unless it is known that there is none new."""
        self._worked += work  # first, because who sleeps looks at this after having lain down
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
        import asyncio  # here and not above: commands that run no loop want to start quickly

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._condition:
            self._listen()
            if rung() or self._closed:
                self._listeners -= 1
                return True
            sleepers.add(future)
        try:
            async with asyncio.timeout(timeout):  # not wait_for: it forgets a cancel that comes together with a ring
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
                # A follower that reads listens again in a moment: do not start a thread for each of its waits.
                if self._closed or idle > 100:
                    self._poller = None
                    return
            if self._changed():
                self.ring(work=not self._tells_work)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def touched(batch: Iterable[PendingCommit]) -> set[str] | None:
    """The sessions that something was written to; None when that cannot be told."""
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
    """Whether it may have changed sessions that it does not name."""
    return any(isinstance(sealed.write, Delete) for sealed in commit.writes)


def brings_work(commit: EncodedCommit) -> bool:
    """Whether there may be something to drive after it: a door wrote, or a driver let go of what it has not ended."""
    if isinstance(commit, PlainAppend):
        return False
    ended = any(event.kind == "TurnEnded" for sealed in commit.writes for event in sealed.events)
    return any(
        isinstance(sealed.write, Create | Restore)
        or (isinstance(sealed.write, Append) and sealed.write.lease is None)
        or (isinstance(sealed.write, Release) and not ended)
        for sealed in commit.writes
    )
