"""What doors may ask of a session: create, admit, answer, stop, change, fork, end, delete, read. Each verb is durable
before it returns, and exists here only.

A door never runs a turn by calling these; `Runner` does, for the process that holds the lease. What needs the lease
(clear, rewind, compact, rotate) is done here when the session is idle; otherwise its driver gets a request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from outlast.core.errors import ConflictError, InvalidInput, SessionBusy
from outlast.core.events import Delivery, SessionClosed
from outlast.core.header import Header
from outlast.core.messages import Part
from outlast.core.state import SessionState
from outlast.runtime.commit_retry import RACES
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.history.boundaries import apply_boundary
from outlast.runtime.session_writes import SessionChanges, SessionWrites, new_session_id
from outlast.runtime.turn import approvals
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.recovery import closing_events, stored_partial_reply
from outlast.store.port import Append, Receipt, Store
from outlast.store.read.decode import load_state

BOUNDARIES = ("clear", "rewind", "unrewind", "compact", "uncompact", "rotate")


class SessionService:
    """The verbs of one door on one store. `door` and `principal` are written into every event. `writes` builds the
    writes behind the verbs, for a door that needs several of them in one commit."""

    def __init__(self, store: Store, door: str = "library", principal: str = "") -> None:
        self.store = store
        self.writes = SessionWrites(door, principal)

    # --- making, forking, deleting

    def create(
        self,
        *,
        root: Path | None,
        title: str | None = None,
        model: str | None = None,
        persona: str | None = None,
        owner_id: str = "local",
        place: str | None = None,
    ) -> str:
        """Make a session with nothing said in it yet; its id. Without `root` its project is not on this machine."""
        session_id = new_session_id()
        self.store.commit(
            self.writes.creation(
                session_id, root=root, title=title, model=model, persona=persona, owner_id=owner_id, place=place
            )
        )
        return session_id

    def fork(self, session_id: str, *, at: int | None = None, title: str | None = None) -> str:
        """Make a session that goes on from event `at` (the newest by default); its id. The old one is not touched."""
        made = new_session_id()
        self.store.commit(self.writes.fork(self.store, session_id, made, at=at, title=title))
        return made

    def delete(self, session_id: str, *, with_forks: bool = False) -> None:
        """Erase it, with `with_forks` also the sessions that stand on it; a tombstone stays."""
        self.store.commit(self.writes.deletion(session_id, with_forks=with_forks))

    # --- input

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
        write = self.writes.admission(session_id, content, key=key, delivery=delivery, message_id=message_id)
        [receipt] = await self.store.commit_async(write)
        reach("input.admitted")
        return receipt

    async def withdraw(self, session_id: str, inputs: list[int], reason: str | None = None) -> None:
        """Take back inputs that no turn has read yet; `ConflictError` names one that was."""
        for _ in range(RACES):
            state = load_state(self.store, session_id)
            waiting = {item.seq for item in state.inbox.inputs if not item.promoted} | set(state.inbox.seqs()[64:])
            for seq in inputs:
                if seq not in waiting:
                    raise ConflictError(f"input {seq} is not waiting any more; interrupt the turn to stop it")
            try:
                await self._write(self.writes.withdrawal(session_id, inputs, reason, expect=state.last_seq))
            except ConflictError:
                continue  # something was written meanwhile, and that may be a turn that reads them
            return
        raise SessionBusy("the session changes faster than it can be looked at; try again")

    async def interrupt(self, session_id: str, reason: str | None = None) -> int:
        """Ask the driver to stop the running turn; followers of the session see it end."""
        return await self._write(self.writes.interruption(session_id, reason))

    async def go_on(self, session_id: str) -> int:
        """Ask the workers to go on with what is open there: they leave an imported session, and one that could not be
        driven, alone until something is new in it."""
        return await self.update_async(session_id, runtime={"continued": True})

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
        return await approvals.answer(self.store, session_id, approval_seq, text, found.call_digest, self.writes.door)

    # --- the session itself

    def update(self, session_id: str, **changes: Unpack[SessionChanges]) -> int:
        """Change its title, its model, its persona and what the runtime remembers: what is given, in one commit."""
        return self.store.commit(self._update(session_id, changes))[0].seq

    async def update_async(self, session_id: str, **changes: Unpack[SessionChanges]) -> int:
        """The same without blocking the loop."""
        return await self._write(self._update(session_id, changes))

    def _update(self, session_id: str, changes: SessionChanges) -> Append:
        title = changes.get("title")
        if title is not None and not title.strip():
            raise InvalidInput("a title must not be empty; say what the session is about")
        return self.writes.update(session_id, **changes)

    async def reopen(self, session_id: str) -> int:
        return await self._write(self.writes.reopening(session_id))

    async def archive(self, session_id: str) -> int:
        return await self._write(self.writes.archiving(session_id))

    async def unarchive(self, session_id: str) -> int:
        return await self._write(self.writes.unarchiving(session_id))

    async def end(self, session_id: str, context: TurnContext, reason: str | None = None) -> None:
        """End it: take the lease by force, so that its driver stops, close its turn, take no more input."""
        driver = await Driver.open(self.store, session_id, context.clock, context.ttl_ms)
        await driver.claim(force=True)
        closed = closing_events(
            driver.state, "interrupted", "the session was ended", await stored_partial_reply(driver)
        )
        await driver.write(*closed, SessionClosed(reason=reason), release=True)

    # --- boundaries

    async def boundary(self, session_id: str, what: str, arguments: dict[str, Any], context: TurnContext) -> str:
        """Draw a boundary: now when the session is idle, else as a request to its driver. Which of both it was: "done"
        or "requested"."""
        if what not in BOUNDARIES:
            raise InvalidInput(f"'{what}' is no boundary; use one of {', '.join(BOUNDARIES)}")
        driver = await Driver.open(self.store, session_id, context.clock, context.ttl_ms)
        try:
            await driver.claim()
        except SessionBusy:
            await self._write(self.writes.boundary_request(session_id, what, arguments))
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

    async def _write(self, write: Append) -> int:
        [receipt] = await self.store.commit_async(write)
        return receipt.seq
