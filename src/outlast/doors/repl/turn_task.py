"""Admits input durably and runs turns in this process while input is unanswered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from outlast.core.errors import ConflictError, ModelError, OutlastError, SessionBusy
from outlast.core.events import Delivery
from outlast.core.messages import Part
from outlast.doors.repl.input.attachments import typed
from outlast.doors.repl.launch import NO_MODEL, ReplSession

STOP_SECONDS = 0.7
LEAVE_SECONDS = 10.0


class TurnTask:
    """Drives the session of a ReplSession. `say` shows the user one sentence."""

    def __init__(self, repl_session: ReplSession, say: Callable[[str], None]) -> None:
        self.repl_session = repl_session
        self._say = say
        self._driving: asyncio.Task[None] | None = None
        self._leaves = False

    @property
    def is_running(self) -> bool:
        return self._driving is not None and not self._driving.done()

    async def admit(
        self, parts: str | tuple[Part, ...], delivery: Delivery | None = None, *, key: str | None = None
    ) -> None:
        """Store an input durably. While a turn runs it steers that turn unless `delivery` says otherwise. Two inputs
        with the same key are stored once.
        """
        if delivery is None:
            delivery = Delivery.STEER if self.is_running else Delivery.QUEUE
        await self.repl_session.admit(parts, delivery=delivery, key=key)

    def wake(self) -> None:
        """Run turns until no input is unanswered. Does nothing if they already run or no model is set."""
        if self.is_running or self.repl_session.start.model == NO_MODEL:
            return
        self._driving = asyncio.ensure_future(self._drive())

    async def _drive(self) -> None:
        agent = self.repl_session.agent
        while True:
            try:
                self.repl_session.record_owner()
                await agent.resume()
            except SessionBusy:
                self._say("another process drives this session: it will answer, and you see it here")
                return
            except ModelError:
                return  # the TurnEnded event already reported it
            except OutlastError as error:
                self._say(str(error))
                return
            if self._leaves or not agent.session.state.unanswered:
                return

    async def stop(self) -> list[str]:
        """Stop the running turn within a second; return the texts it had not read yet, which are withdrawn."""
        if not self.is_running or self._driving is None:
            return []
        taken_back = await self._taken_back()
        await self.repl_session.service.interrupt(self.repl_session.session_id, "the user pressed stop")
        done, _ = await asyncio.wait([self._driving], timeout=STOP_SECONDS)
        if not done:
            self._driving.cancel()
            await asyncio.wait([self._driving], timeout=10)
        return taken_back

    async def _taken_back(self) -> list[str]:
        session = self.repl_session.agent.session
        turn = session.state.turn
        begun = set(turn.inputs) if turn is not None else set[int]()
        unread = [item.seq for item in session.state.inbox.inputs if not item.promoted and item.seq not in begun]
        if turn is None or not unread:
            return []
        texts = [typed(event.parts) for event in session.inputs(unread)]
        try:
            await self.repl_session.service.withdraw(session.session_id, unread, "stopped")
        except ConflictError:
            return []  # the turn read them at this moment
        return texts

    async def close(self, *, leaves: bool = False) -> None:
        """Stop driving. A running turn is closed durably first, or with `leaves` left to the next process."""
        if self.is_running and self._driving is not None:
            self._leaves = leaves
            if leaves and self.repl_session.agent.leave():
                await asyncio.wait([self._driving], timeout=LEAVE_SECONDS)
            self._driving.cancel()
            await asyncio.gather(self._driving, return_exceptions=True)
