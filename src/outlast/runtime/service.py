"""What doors may ask of a session: admit, answer, stop, change, read. Each verb is durable before it returns.

A door never runs a turn by calling these; `Runner` does, for whoever holds the lease. What needs the lease (clear,
rewind, compact, rotate) is done here when the session is idle, and handed to its driver as a request when it is not.
"""

from __future__ import annotations

from typing import Any

from outlast.core.errors import ConflictError, InvalidInput, SessionBusy
from outlast.core.event_row import Actor
from outlast.core.events import (
    BoundaryRequested,
    Delivery,
    Event,
    InputAdmitted,
    InputWithdrawn,
    InterruptRequested,
    ModelChanged,
    PersonaChanged,
    RuntimeStateChanged,
    SessionArchived,
    SessionClosed,
    SessionRenamed,
    SessionReopened,
    SessionUnarchived,
)
from outlast.core.messages import Part, TextPart
from outlast.core.state import SessionState
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.history.boundaries import apply_boundary
from outlast.runtime.turn import approvals
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.recovery import closing_events, stored_partial_reply
from outlast.store.port import Append, Header, NewEvent, Receipt, Store
from outlast.store.read.decode import load_state

BOUNDARIES = ("clear", "rewind", "unrewind", "compact", "uncompact", "rotate")
RACES = 20


class SessionService:
    """The verbs of one door on one store. `door` and `principal` are written into every event."""

    def __init__(self, store: Store, door: str = "library", principal: str = "") -> None:
        self.store = store
        self.actor = Actor("user", door, principal).text()
        self.door = door

    # --- input

    def admission(
        self,
        session_id: str,
        content: str | tuple[Part, ...],
        *,
        key: str | None = None,
        delivery: Delivery = Delivery.QUEUE,
        message_id: str | None = None,
    ) -> Append:
        """The write that admits an input, to the newest session of the lineage."""
        parts: tuple[Part, ...] = (TextPart(content),) if isinstance(content, str) else content
        if not parts or parts == (TextPart(""),):
            raise InvalidInput("an input must not be empty; say what is to be done")
        event = InputAdmitted(parts=parts, delivery=delivery, message_id=message_id)
        return Append(session_id=session_id, events=(self._new(event),), key=key, to_tip=True)

    async def admit(
        self,
        session_id: str,
        content: str | tuple[Part, ...],
        *,
        key: str | None = None,
        delivery: Delivery = Delivery.QUEUE,
        message_id: str | None = None,
    ) -> Receipt:
        """Take an input; durable on return. The same key twice is one input. The receipt names the session it is in."""
        write = self.admission(session_id, content, key=key, delivery=delivery, message_id=message_id)
        [receipt] = await self.store.commit_async(write)
        reach("input.admitted")
        return receipt

    async def withdraw(self, session_id: str, inputs: list[int], reason: str | None = None) -> None:
        """Take back inputs that no turn has read yet; `ConflictError` names one that was."""
        withdrawn = InputWithdrawn(inputs=inputs, reason=reason)
        for _ in range(RACES):
            state = load_state(self.store, session_id)
            waiting = {item.seq for item in state.inbox.inputs if not item.promoted} | set(state.inbox.seqs()[64:])
            for seq in inputs:
                if seq not in waiting:
                    raise ConflictError(f"input {seq} is not waiting any more; interrupt the turn to stop it")
            try:
                await self._write(session_id, withdrawn, expect=state.last_seq)
            except ConflictError:
                continue  # something was written meanwhile, and that may be a turn that reads them
            return
        raise SessionBusy("the session changes faster than it can be looked at; try again")

    async def interrupt(self, session_id: str, reason: str | None = None) -> int:
        """Ask the driver to stop the running turn; whoever follows the session sees it end."""
        return await self._write(session_id, InterruptRequested(reason=reason))

    async def go_on(self, session_id: str) -> int:
        """Have what is open there gone on with, by whoever runs turns: an imported session, and one that could not be
        driven, are left alone until something is new in them."""
        return await self._write(session_id, RuntimeStateChanged(changes={"continued": True}))

    async def answer(self, session_id: str, approval_seq: int, text: str, call_digest: str | None = None) -> int:
        """Answer a question. For a call: once, session, always or deny, bound to the digest that was shown."""
        state = load_state(self.store, session_id)
        found = next((one for one in state.approvals if one.seq == approval_seq), None)
        if found is None:
            raise ConflictError(f"session {session_id} has no open question {approval_seq}")
        if call_digest is not None and call_digest != found.call_digest:
            raise ConflictError(
                f"question {approval_seq} is about another call than the one that was shown; look again"
            )
        if found.name != "ask_user" and text not in approvals.ANSWERS:
            raise InvalidInput(f"an approval is one of {', '.join(approvals.ANSWERS)}, not '{text}'")
        return await approvals.answer(self.store, session_id, approval_seq, text, found.call_digest, self.door)

    # --- the session itself

    async def rename(self, session_id: str, title: str) -> int:
        return await self._write(session_id, SessionRenamed(title=title))

    async def choose_model(self, session_id: str, model: str) -> int:
        return await self._write(session_id, ModelChanged(model=model))

    async def choose_persona(self, session_id: str, persona: str) -> int:
        return await self._write(session_id, PersonaChanged(persona=persona))

    async def reopen(self, session_id: str) -> int:
        return await self._write(session_id, SessionReopened())

    async def archive(self, session_id: str) -> int:
        return await self._write(session_id, SessionArchived())

    async def unarchive(self, session_id: str) -> int:
        return await self._write(session_id, SessionUnarchived())

    async def end(self, session_id: str, context: TurnContext, reason: str | None = None) -> None:
        """End it: take the lease by force, so that whoever drives it stops, close its turn, take no more input."""
        driver = await Driver.open(self.store, session_id, context.clock, context.ttl_ms)
        await driver.claim(force=True)
        closed = closing_events(
            driver.state, "interrupted", "the session was ended", await stored_partial_reply(driver)
        )
        await driver.write(*closed, SessionClosed(reason=reason), release=True)

    # --- boundaries

    async def boundary(self, session_id: str, what: str, arguments: dict[str, Any], context: TurnContext) -> str:
        """Draw a boundary: now when nobody drives the session, else as a request to its driver. Which of both it was:
        "done" or "requested"."""
        if what not in BOUNDARIES:
            raise InvalidInput(f"'{what}' is no boundary; use one of {', '.join(BOUNDARIES)}")
        driver = await Driver.open(self.store, session_id, context.clock, context.ttl_ms)
        try:
            await driver.claim()
        except SessionBusy:
            await self._write(session_id, BoundaryRequested(what=what, arguments=arguments))
            return "requested"
        try:
            await apply_boundary(driver, context, what, arguments)
        finally:
            await driver.release()
        return "done"

    # --- reading

    def head(self, session_id: str) -> Header:
        return self.store.head(session_id)

    def state(self, session_id: str) -> SessionState:
        return load_state(self.store, session_id)

    # --- inside

    def _new(self, event: Event) -> NewEvent:
        return NewEvent(event=event, actor=self.actor)

    async def _write(self, session_id: str, event: Event, *, expect: int | None = None) -> int:
        append = Append(session_id=session_id, events=(self._new(event),), expect=expect)
        [receipt] = await self.store.commit_async(append)
        return receipt.seq
