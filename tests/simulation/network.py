"""Between a process and the store: messages that take their time, get lost, or arrive while the answer does not.

A commit is sent, carried out, and answered. Whoever hears no answer sends the same again under its key, as the adapter
of PostgreSQL does, and gives up after a while: refused if it never got through to anybody, unknown otherwise.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from outlast.core.errors import OutcomeUnknown, OutlastError, StoreUnavailable
from outlast.store.engine.encode import EncodedCommit
from outlast.store.memory import Memory, MemoryStore
from outlast.store.notify import brings_work
from outlast.store.port import Receipt, Write
from outlast.store.read.read_view import ReadView
from tests.simulation.loop import NOWHERE, Process, SimulatedLoop

PURSUED_SECONDS = 15.0
NOTICED_SECONDS = 0.5
AGAIN_SECONDS = 0.2
BELL_SECONDS = 0.1
POLL_SECONDS = 1.0


class Network:
    """The store's machine and the ways to it. `down` while it restarts; `loss` is how many messages get lost."""

    def __init__(self, loop: SimulatedLoop, memory: Memory, seed: int, loss: float = 0.002) -> None:
        self.loop = loop
        self.memory = memory
        self.down = False
        self.loss = loss
        self.commits = 0
        self.lost = 0
        self.dice = random.Random(f"{seed} network")
        self._bells: dict[str, Bell] = {}
        self._ringing: bool | None = None

    def delay(self) -> float:
        """Half a millisecond, and sometimes much more."""
        return 0.0005 + (self.dice.expovariate(8) if self.dice.random() < 0.01 else self.dice.random() * 0.002)

    def passes(self, process: Process) -> bool:
        return not (self.down or process.cut)

    def drops(self) -> bool:
        dropped = self.dice.random() < self.loss
        self.lost += dropped
        return dropped

    # --- the bell: a hint that something changed, which may be lost

    def listen(self, process: Process) -> Bell:
        process.reaches_store = lambda: self.passes(process)
        notifier = self._bells[process.name] = Bell(self.loop)
        return notifier

    def forget(self, process: Process) -> None:
        self._bells.pop(process.name, None)

    def ring_soon(self, work: bool) -> None:
        if self._ringing is None:
            self.loop.call_later(BELL_SECONDS, self._ring, context=NOWHERE)
        self._ringing = bool(self._ringing) or work

    def _ring(self) -> None:
        work, self._ringing = bool(self._ringing), None
        for notifier in list(self._bells.values()):
            if not self.drops():
                notifier.ring(work=work)


class Sending:
    """One commit on its way, whoever still waits for it. A process's commits go one after the other."""

    def __init__(self, store: SimulatedStore, commit: EncodedCommit) -> None:
        self.outcome: asyncio.Future[list[Receipt]] = store.network.loop.create_future()
        self.outcome.add_done_callback(self._over)
        self._store, self._commit, self._net = store, commit, store.network
        self._process = store.process
        self._until = self._net.loop.time() + PURSUED_SECONDS
        self._maybe = False
        store.line.append(self)
        if len(store.line) == 1:
            self._send()

    def _over(self, outcome: asyncio.Future[list[Receipt]]) -> None:
        outcome.exception()  # looked at, so that nobody warns of it: the caller may be gone
        self._store.line.popleft()
        if self._store.line:
            self._store.line[0]._send()

    def _send(self) -> None:
        if self._net.loop.time() > self._until:
            self._give_up()
        elif not self._net.passes(self._process):
            self._net.loop.call_later(AGAIN_SECONDS, self._send)
        else:
            self._commit.rerun = self._maybe
            self._net.loop.call_later(self._net.delay(), self._arrive, context=NOWHERE)

    def _arrive(self) -> None:
        if not self._net.passes(self._process) or self._net.drops():
            self._no_answer()
            return
        self._net.commits += 1
        try:
            receipts: list[Receipt] | None = self._store.carry_out(self._commit)
            error: OutlastError | None = None
        except OutlastError as refusal:
            receipts, error = None, refusal
        self._net.ring_soon(brings_work(self._commit))
        self._net.loop.call_later(self._net.delay(), self._answer, receipts, error, context=NOWHERE)

    def _answer(self, receipts: list[Receipt] | None, error: OutlastError | None) -> None:
        if not self._process.alive:
            return
        if not self._net.passes(self._process) or self._net.drops():
            self._no_answer()
        elif not self.outcome.done():
            if error is not None:
                self.outcome.set_exception(error)
            else:
                self.outcome.set_result(receipts or [])

    def _no_answer(self) -> None:
        self._maybe = True
        self._net.loop.call_later(NOTICED_SECONDS, self._send, context=self._process.context)

    def _give_up(self) -> None:
        if self.outcome.done():
            return
        if self._maybe:
            self.outcome.set_exception(OutcomeUnknown("nobody answered; it may be stored", key=self._commit.key))
        else:
            self.outcome.set_exception(StoreUnavailable("the store cannot be reached"))


class SimulatedStore(MemoryStore):
    """What one process has open."""

    def __init__(self, network: Network, process: Process) -> None:
        super().__init__(network.memory)
        self.network = network
        self.process = process
        self._garbage_collector.due = float("inf")
        self._notifier: Any = network.listen(process)
        self.line: deque[Sending] = deque()

    async def commit_async(self, *writes: Write) -> list[Receipt]:
        self._usable()
        # Shielded: a caller that is cancelled withdraws nothing.
        return await asyncio.shield(Sending(self, self._seal(writes)).outcome)

    def commit(self, *writes: Write) -> list[Receipt]:
        """In a thread, and so at once; it gets there or it does not."""
        self._usable()
        self._reach()
        commit = self._seal(writes)
        self.network.commits += 1
        try:
            return self.carry_out(commit)
        finally:
            self.network.ring_soon(brings_work(commit))

    def _reading(self) -> AbstractContextManager[ReadView]:
        self._reach()
        return super()._reading()

    def _reach(self) -> None:
        if not self.network.passes(self.process):
            raise StoreUnavailable("the store cannot be reached")


class Bell:
    """The store's bell on simulated time."""

    minds_work = True

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._rung = self._worked = 0
        self._sleepers: dict[asyncio.Future[bool], bool] = {}

    @contextmanager
    def ear(self, session_id: str) -> Generator[Bell]:
        """Here everybody hears everything."""
        yield self

    def now(self) -> int:
        return self._rung

    def work(self) -> int:
        return self._worked

    def ring(self, *, work: bool = True) -> None:
        self._rung += 1
        self._worked += work
        for future, minds_all in list(self._sleepers.items()):
            if (work or minds_all) and not future.done():
                future.set_result(True)

    def wait(self, since: int, timeout: float | None) -> bool:
        return self._rung != since

    async def wait_async(self, since: int, timeout: float | None) -> bool:
        return self._rung != since or await self._sleep(timeout, minds_all=True)

    async def await_work(self, since: int, timeout: float | None) -> bool:
        return self._worked != since or await self._sleep(timeout, minds_all=False)

    async def _sleep(self, timeout: float | None, *, minds_all: bool) -> bool:
        """Until it rings, or until it is time to look without having heard anything."""
        future: asyncio.Future[bool] = self._loop.create_future()
        self._sleepers[future] = minds_all
        is_poll = timeout is None or timeout > POLL_SECONDS
        seconds = POLL_SECONDS if timeout is None or is_poll else timeout
        timer = self._loop.call_later(seconds, lambda: future.done() or future.set_result(is_poll))
        try:
            return await future
        finally:
            timer.cancel()
            del self._sleepers[future]

    def close(self) -> None:
        self.ring()
