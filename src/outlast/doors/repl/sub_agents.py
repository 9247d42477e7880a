"""Follows the sub-agents below a session, at any depth, so that the REPL shows their questions and their activity.

Each sub-agent has its own session and log, which is followed while the call that started it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from outlast.app.streams.event_feed import EventStored, feed
from outlast.core import events as e
from outlast.core.messages import ToolCall
from outlast.core.state import SessionState
from outlast.runtime.turn.subagents import child_of
from outlast.session import ConversationSession
from outlast.store.log_store import LogStore

TASK = "task"
MADE_SECONDS = 0.1
"""How often to check whether the session of a started sub-agent exists yet."""

Noticed = Callable[[str, int, e.Event | e.Opaque], Awaitable[None]]
Came = Callable[[str, SessionState], Awaitable[None]]


class SubAgents:
    """Follows the sub-agents below one session. Calls `came` once with a sub-agent's state, then `noticed` for each of
    its events, and `gone` when it is done; `run` starts a background task.
    """

    def __init__(
        self,
        store: Callable[[], LogStore],
        run: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        came: Came,
        noticed: Noticed,
        gone: Callable[[str], None],
    ) -> None:
        self._store, self._run = store, run
        self._came, self._noticed, self._gone = came, noticed, gone
        self._asked: dict[tuple[str, str], int] = {}
        self._below: dict[str, dict[str, asyncio.Task[None]]] = {}

    def come_to(self, session_id: str, state: SessionState) -> None:
        """Load the open `task` calls of a session that is entered in the middle of a turn."""
        for call in state.open_calls:
            if call.name == TASK:
                self._asked[session_id, call.call_id] = call.requested_seq
                if call.started_seq:
                    self._begin(session_id, call.call_id)

    def happened(self, session_id: str, seq: int, event: e.Event | e.Opaque) -> None:
        match event:
            case e.AssistantReplied(parts=parts):
                calls = [part for part in parts if isinstance(part, ToolCall) and part.name == TASK]
                self._asked |= {(session_id, call.id): seq for call in calls}
            case e.ToolCallStarted(name=name, call_id=call_id) if name == TASK:
                self._begin(session_id, call_id)
            case e.ToolCallFinished(name=name, call_id=call_id) if name == TASK:
                self._end(session_id, call_id)
            case e.TurnEnded():
                self.leave(session_id)
            case _:
                pass

    def leave(self, session_id: str) -> None:
        """Stop following all sub-agents of that session."""
        for call_id in list(self._below.get(session_id, {})):
            self._end(session_id, call_id)

    def _begin(self, session_id: str, call_id: str) -> None:
        below = self._below.setdefault(session_id, {})
        if call_id not in below:
            child = child_of(session_id, self._asked.get((session_id, call_id), 0), call_id)
            below[call_id] = self._run(self._follow(child))

    def _end(self, session_id: str, call_id: str) -> None:
        self._asked.pop((session_id, call_id), None)
        following = self._below.get(session_id, {}).pop(call_id, None)
        if following is not None:
            following.cancel()

    async def _follow(self, session_id: str) -> None:
        goes_on_as: str | None = None
        try:
            state = (await self._made(session_id)).state
            await self._came(session_id, state)
            self.come_to(session_id, state)
            async for item in feed(self._store(), session_id, after=state.last_seq):
                if isinstance(item, EventStored):
                    self.happened(session_id, item.stored.seq, item.event)
                    await self._noticed(session_id, item.stored.seq, item.event)
                    if isinstance(item.event, e.SessionRotated):
                        goes_on_as = item.event.to_session_id
        finally:
            self.leave(session_id)
            self._gone(session_id)
        if goes_on_as is not None:
            await self._follow(goes_on_as)

    async def _made(self, session_id: str) -> ConversationSession:
        """Wait for the session: its call is logged before the session exists."""
        while True:
            found = await asyncio.to_thread(ConversationSession.load, session_id=session_id, store=self._store())
            if found is not None:
                return found
            await asyncio.sleep(MADE_SECONDS)
