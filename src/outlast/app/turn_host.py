"""Turn host: runs the turns of a session in this process, for an agent and for a worker pool.

It opens a driver (or reopens the last one), has the turn context built once, and runs the runner to its end. It knows
nothing of terminals, slots or back-off: its caller decides what to do with an outcome or an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from outlast.core.errors import ModelError, OutlastError
from outlast.core.state import SessionState
from outlast.runtime.clock import SystemClock
from outlast.runtime.driven_turns import DrivenTurn
from outlast.runtime.driver import Driver
from outlast.runtime.runner import Runner
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore
from outlast.store.port import LEASE_MS, Lease, Release

BuildContext = Callable[[Driver], Awaitable[TurnContext]]
"""Builds the turn context for this driver's session, from its current state."""


class HeldLease(NamedTuple):
    """A lease the caller claimed, and the clock's monotonic time at which the caller requested it."""

    lease: Lease
    asked: float


class TurnOutcome(NamedTuple):
    """Result of a run. `driver` has released its lease; `opened_at` is the seq it started at; `error` is the error of
    the last turn. With `left` a turn stays open for the next process."""

    driver: Driver
    opened_at: int
    answer: str
    error: ModelError | None
    left: bool


class TurnHost:
    """Runs turns of one store's sessions. `runners` holds the active ones, by the session id they started with."""

    def __init__(self, store: LogStore, *, ttl_ms: int = LEASE_MS) -> None:
        self.store = store
        self.clock = SystemClock()
        self.runners: dict[str, Runner] = {}
        self._ttl_ms = ttl_ms
        self._closed = False

    def close(self) -> None:
        """Make runs that start from now on leave their session to the next process. Active runs are not affected."""
        self._closed = True

    async def run(
        self,
        session_id: str,
        build: BuildContext,
        *,
        held: HeldLease | None = None,
        last: Driver | None = None,
        while_chosen: bool = False,
    ) -> TurnOutcome:
        """Answer the session's inputs until none is left. Raises `SessionBusy` if another process drives it, and
        `StaleLease` if another process took it over.

        `last` is the driver of an earlier run: its state of the same session is reused. `held` is released whatever
        happens. With `while_chosen` the run ends when another model or persona is chosen: the next run builds its
        context with them.
        """
        with DrivenTurn() as driven:  # from here on: a process that dies now had claimed this session, too
            return await self._run(session_id, build, driven, held=held, last=last, while_chosen=while_chosen)

    async def _run(
        self,
        session_id: str,
        build: BuildContext,
        driven: DrivenTurn,
        *,
        held: HeldLease | None,
        last: Driver | None,
        while_chosen: bool,
    ) -> TurnOutcome:
        driver, context = await self._prepared(session_id, build, held, last)
        runner = Runner(self.store, session_id, context, driver, driven)
        if while_chosen:
            runner.outdated = _changed_since(driver.state)
        opened_at = driver.state.last_seq
        self.runners[session_id] = runner
        if self._closed:
            runner.leave()
        try:
            driver = await runner.drain()
        finally:
            del self.runners[session_id]
        return TurnOutcome(driver, opened_at, runner.answer, runner.error, runner.left)

    def running_context(self, session_id: str) -> TurnContext | None:
        """The context of the session's turn that runs in this process; None if none runs."""
        return next((runner.context for runner in self.runners.values() if runner.session_id == session_id), None)

    async def _prepared(
        self, session_id: str, build: BuildContext, held: HeldLease | None, last: Driver | None
    ) -> tuple[Driver, TurnContext]:
        try:
            driver = await self._opened(session_id, last)
            if held is not None:
                driver.adopt(*held)
            return driver, await build(driver)
        except BaseException:
            if held is not None:
                with suppress(OutlastError):  # the lease expires by itself
                    await asyncio.shield(self.store.commit_async(Release(lease=held.lease)))
            raise

    async def _opened(self, session_id: str, last: Driver | None) -> Driver:
        if last is not None and last.session_id == session_id:
            return await last.opened_again(self.clock, self._ttl_ms)
        return await Driver.open(self.store, session_id, self.clock, self._ttl_ms)


def _changed_since(begun: SessionState) -> Callable[[SessionState], bool]:
    chosen = (begun.model, begun.persona)
    return lambda state: (state.model, state.persona) != chosen
