"""An event loop without time and without a network: one seed, one history.

Every process of the simulation has its own queue of things to do next, and dice decide whose turn it is: within one
process things happen in the order in which asyncio promises them, between processes in any. The clock stands while
anybody has something to do, and jumps to the next timer when nobody has. A process that is stopped keeps its queue, one
that is killed loses it, in the middle of whatever it was doing.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import base_events
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

MOST_IN_A_ROW = 6
THREAD_SECONDS = 0.001
LOOK_AGAIN_SECONDS = 0.2
PATIENCE_SECONDS = 15.0

HERE: ContextVar[Process | None] = ContextVar("HERE", default=None)
"""Who acts now; None is the world itself: the network, the store, the nemesis."""
NOWHERE = copy_context()
NOWHERE.run(HERE.set, None)


class Process:
    """Somebody who acts. `stopped_until` holds it, `cut` keeps it from the store, `skew` sets its wall clock."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.alive = True
        self.stopped_until = 0.0
        self.cut = False
        self.skew = 0
        self.reaches_store: Callable[[], bool] = lambda: True
        self.queue: deque[asyncio.Handle] = deque()
        self.context = copy_context()
        self.context.run(HERE.set, self)


class Stalled(Exception):
    """Nobody has anything to do, now or later."""


class SimulatedLoop(base_events.BaseEventLoop):
    """`steps` counts what was done; `trace` is a number that any difference between two runs would change."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.steps = 0
        self.trace = 0
        self._dice = random.Random(f"{seed} loop")
        self._moment = 0.0
        self._world = Process("world", "")
        self._processes: dict[str, Process] = {"world": self._world}
        self._buried: list[asyncio.Task[Any]] = []
        self._waiting: deque[asyncio.Handle] = self._ready  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        self._timers: list[asyncio.TimerHandle] = self._scheduled  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        self.set_task_factory(_named_task)

    # --- processes

    def add(self, process: Process) -> None:
        self._processes[process.name] = process

    def lives(self, name: str) -> bool:
        return name in self._processes

    def kill(self, process: Process) -> None:
        """It is gone, between two steps. Nothing of it runs any more: no handler, no `finally`."""
        process.alive = False
        self._processes.pop(process.name, None)
        # What is collected would be closed, and closing runs code. So it is kept.
        self._buried += [task for task in asyncio.all_tasks(self) if task.get_name() == process.name]
        process.queue.clear()

    def run_as(self, process: Process, work: Any) -> asyncio.Task[Any]:
        before = HERE.set(process)
        try:
            return self.create_task(work)
        finally:
            HERE.reset(before)

    # --- time

    def time(self) -> float:
        return self._moment

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """A thread: it takes a moment, and longer while its process does not reach the store."""
        future = self.create_future()
        here, until = HERE.get() or self._world, self._moment + PATIENCE_SECONDS

        def work() -> None:
            if future.cancelled():
                return
            if not here.reaches_store() and self._moment < until:
                self.call_later(LOOK_AGAIN_SECONDS, work)
                return
            try:
                result = func(*args)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - as an executor does: it is the caller's
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(THREAD_SECONDS * (0.5 + self._dice.random()), work)
        return future

    # --- one step

    def _run_once(self) -> None:
        self._sort_out()
        able = [one for one in self._processes.values() if one.queue and one.stopped_until <= self._moment]
        if not able:
            self._let_time_pass()
            return
        process = able[0] if len(able) == 1 else able[self._dice.randrange(len(able))]
        for _ in range(1 + self._dice.randrange(MOST_IN_A_ROW)):
            if not process.queue or not process.alive or process.stopped_until > self._moment:
                return
            handle = process.queue.popleft()
            if not handle.cancelled():
                self.steps += 1
                self.trace = hash((self.trace, process.name, self._moment))
                handle._run()
            self._sort_out()

    def _sort_out(self) -> None:
        """Everything that is due goes to the process that it belongs to; what belongs to a dead one goes nowhere."""
        while self._timers and self._timers[0].when() <= self._moment:
            timer = heapq.heappop(self._timers)
            timer._scheduled = False
            self._waiting.append(timer)
        while self._waiting:
            handle = self._waiting.popleft()
            owner = handle._context.get(HERE) or self._world
            if owner.alive:
                owner.queue.append(handle)

    def _let_time_pass(self) -> None:
        while self._timers and self._timers[0].cancelled():
            heapq.heappop(self._timers)._scheduled = False
        moments = [one.stopped_until for one in self._processes.values() if one.queue]
        if self._timers:
            moments.append(self._timers[0].when())
        if not moments:
            raise Stalled(f"after {self.steps} steps, at {self._moment:.3f} s")
        self._moment = max(self._moment, min(moments))

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """There is only one thread."""


def _named_task(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
    here = HERE.get()
    return asyncio.Task(work, loop=loop, name=here.name if here is not None else "world", **more)
