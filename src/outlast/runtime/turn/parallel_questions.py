"""Questions of sub-agents that run side by side: the user is asked one question at a time, in the order of asking.

Each question is durable before it waits here, so another door may answer it meanwhile. The parent's turn counts as
waiting for a person only while every one of its running sub-agents waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace

from outlast.runtime.turn.approvals import Answerer, Question
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.observer import TurnObserver


class ParallelQuestions:
    """What sub-agents that run side by side share. `context` is the parent's turn context for them."""

    def __init__(self, parent: TurnContext) -> None:
        self._observer = parent.observer
        self._asking = asyncio.Lock()
        self._changing = asyncio.Lock()
        self._running = 0
        self._waiting = 0
        self._aside: AbstractAsyncContextManager[None] | None = None
        answerer = self._one_at_a_time(parent.answerer) if parent.answerer is not None else None
        self.context = replace(parent, answerer=answerer, observer=_BranchObserver(parent.observer, self))

    def _one_at_a_time(self, answerer: Answerer) -> Answerer:
        async def ask(question: Question) -> str:
            async with self._asking:
                return await answerer(question)

        return ask

    @contextmanager
    def branch(self) -> Generator[None]:
        """Count a sub-agent as running inside this block."""
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    @asynccontextmanager
    async def waiting(self) -> AsyncGenerator[None]:
        self._waiting += 1
        await self._settle()
        try:
            yield
        except BaseException as error:
            self._waiting -= 1
            await self._leave(error)
            raise
        self._waiting -= 1
        await self._settle()

    async def settle(self) -> None:
        """Compare again after a branch has ended: the others may all be waiting now."""
        await self._settle()

    async def _settle(self) -> None:
        async with self._changing:
            everyone = 0 < self._running <= self._waiting
            if everyone and self._aside is None:
                aside = self._observer.waiting_for_person()
                await aside.__aenter__()
                self._aside = aside
            elif not everyone:
                await self._come_back(None)

    async def _leave(self, error: BaseException) -> None:
        """The branch was stopped while it waited: its turn ends, and needs nothing of what it gave up."""
        async with self._changing:
            await self._come_back(error)

    async def _come_back(self, error: BaseException | None) -> None:
        aside, self._aside = self._aside, None
        if aside is None:
            return
        try:
            await aside.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)
        except BaseException as raised:
            if raised is not error:
                raise


class _BranchObserver:
    """Passes everything to the parent's observer, except that waiting is counted over all branches."""

    def __init__(self, observer: TurnObserver, questions: ParallelQuestions) -> None:
        self.model_event = observer.model_event
        self.model_waits = observer.model_waits
        self.call_output = observer.call_output
        self.event_written = observer.event_written
        self.state_changed = observer.state_changed
        self.waiting_for_person = questions.waiting
