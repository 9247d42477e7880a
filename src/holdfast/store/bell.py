"""The bell: rung whenever the store may have changed, so that followers look again.

It is a hint, never a message: whoever hears it reads from its own cursor. A commit of this process rings at once;
changes of other processes are found by `changed`, asked every few milliseconds while somebody waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

POLL_SECONDS = 0.01


class Bell:
    def __init__(self, changed: Callable[[], bool], poll_seconds: float = POLL_SECONDS) -> None:
        self._changed = changed
        self._poll_seconds = poll_seconds
        self._condition = threading.Condition()
        self._rung = 0
        self._listeners = 0
        self._futures: set[asyncio.Future[None]] = set()
        self._poller: threading.Thread | None = None
        self._closed = False

    def now(self) -> int:
        """How often it was rung; pass it to `wait` after having looked."""
        return self._rung

    def ring(self) -> None:
        self._rung += 1  # first, because a listener counts itself before it looks at this
        if not self._listeners:
            return
        with self._condition:
            self._condition.notify_all()
            futures, self._futures = self._futures, set()
        for future in futures:
            loop = future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, future)

    def wait(self, since: int, timeout: float | None) -> bool:
        """Sleep until it was rung after `since`; False when the time is over."""
        with self._condition:
            self._listen()
            try:
                return self._condition.wait_for(lambda: self._rung != since or self._closed, timeout)
            finally:
                self._listeners -= 1

    async def wait_async(self, since: int, timeout: float | None) -> bool:
        import asyncio  # here and not above: commands that run no loop want to start quickly

        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._condition:
            self._listen()
            if self._rung != since or self._closed:
                self._listeners -= 1
                return True
            self._futures.add(future)
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            return False
        finally:
            with self._condition:
                self._listeners -= 1
                self._futures.discard(future)
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
            self._poller = threading.Thread(target=self._poll, name="holdfast-follow", daemon=True)
            self._poller.start()

    def _poll(self) -> None:
        pause = threading.Event()
        idle = 0
        while True:
            pause.wait(self._poll_seconds)
            with self._condition:
                idle = 0 if self._listeners else idle + 1
                # A follower that reads listens again in a moment: do not start a thread for each of its waits.
                if self._closed or idle > 100:
                    self._poller = None
                    return
            if self._changed():
                self.ring()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
