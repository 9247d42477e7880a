"""The turns of one claimed session in a pool: their slot, their context, and what they report to the pool."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from outlast.app.logging_setup import log_event
from outlast.app.workers.contexts import WorkerContexts
from outlast.app.workers.metrics import Metrics
from outlast.app.workers.turn_slots import TurnSlot
from outlast.core.event_row import StoredEvent
from outlast.core.events import Event, TurnEnded, TurnStarted
from outlast.core.state import SessionState
from outlast.runtime.driver import Driver
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.observer import NullObserver

_log = logging.getLogger("outlast.workers")


class PoolTurn(NullObserver):
    """Observes the turns of one driver: counts and logs the events it writes, keeps its permission mode up to date, and
    frees the slot while a turn waits for a person."""

    def __init__(self, contexts: WorkerContexts, metrics: Metrics, slot: TurnSlot, ttl_ms: int) -> None:
        self.slot = slot
        self._contexts = contexts
        self._metrics = metrics
        self._ttl_ms = ttl_ms
        self._driver: Driver | None = None
        self._context: TurnContext | None = None

    async def build(self, driver: Driver) -> TurnContext:
        """Build the context for this driver's turns, with this object as the observer."""
        self._driver = driver
        context = await self._contexts.build(driver)
        self._context = replace(context, ttl_ms=self._ttl_ms, observer=self)
        return self._context

    def event_written(self, stored: StoredEvent, event: Event) -> None:
        self._metrics.wrote(stored, event)
        facts = {"session": stored.session_id, "seq": stored.seq, "turn": stored.turn}
        if isinstance(event, TurnStarted):
            log_event(_log, logging.INFO, "turn.started", **facts)
        elif isinstance(event, TurnEnded):
            log_event(_log, logging.INFO, "turn.ended", **facts, outcome=event.outcome)

    def state_changed(self, state: SessionState) -> None:
        assert self._driver is not None
        assert self._context is not None
        self._contexts.keep_mode(self._driver.session_id, self._context, state)

    def waiting_for_person(self) -> AbstractAsyncContextManager[None]:
        return self.slot.released()

    def position(self) -> dict[str, str | int | None]:
        """The driver's session, seq and turn, as fields for a log line."""
        assert self._driver is not None
        state = self._driver.state
        turn = state.turn.turn if state.turn is not None else None
        return {"session": self._driver.session_id, "seq": state.last_seq, "turn": turn}
