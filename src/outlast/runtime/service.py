"""Operations of doors on a session: create, admit, answer, interrupt, update, fork, end, delete, read.

Each operation is durable before it returns, and is implemented only here. None of them runs a turn: `Runner` does, in
the process that holds the lease. Operations that need the lease (clear, rewind, compact, rotate) run here if the
session is idle; otherwise its driver gets a request.
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
    """The operations of one door on one store. Every event names `door` and `principal`. `writes` builds the writes
    behind the operations, for a door that combines several in one commit."""

    def __init__(self, store: Store, door: str = "library", principal: str = "") -> None:
        self.store = store
        self.writes = SessionWrites(door, principal)

    # --- create, fork, delete

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
        """Create an empty session and return its id. Without `root`, its project is not on this machine."""
        session_id = new_session_id()
        self.store.commit(
            self.writes.creation(
                session_id, root=root, title=title, model=model, persona=persona, owner_id=owner_id, place=place
            )
        )
        return session_id

    def fork(self, session_id: str, *, at: int | None = None, title: str | None = None) -> str:
        """Create a session that continues from event `at` (default: the newest) and return its id. The original
        session does not change."""
        made = new_session_id()
        self.store.commit(self.writes.fork(self.store, session_id, made, at=at, title=title))
        return made

    def delete(self, session_id: str, *, with_forks: bool = False) -> None:
        """Erase the session, and with `with_forks` also the sessions forked from it. A tombstone stays."""
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
        """Admit an input, durable on return. Two inputs with the same key are one. The receipt names its session."""
        write = self.writes.admission(session_id, content, key=key, delivery=delivery, message_id=message_id)
        [receipt] = await self.store.commit_async(write)
        reach("input.admitted")
        return receipt

    async def withdraw(self, session_id: str, inputs: list[int], reason: str | None = None) -> None:
        """Withdraw inputs that no turn has read yet. Raises `ConflictError` for an input that is no longer waiting."""
        for _ in range(RACES):
            state = load_state(self.store, session_id)
            waiting = {item.seq for item in state.inbox.inputs if not item.promoted} | set(state.inbox.seqs()[64:])
            for seq in inputs:
                if seq not in waiting:
                    raise ConflictError(f"input {seq} is no longer waiting; interrupt the turn to stop it")
            try:
                await self._write(self.writes.withdrawal(session_id, inputs, reason, expect=state.last_seq))
            except ConflictError:
                continue  # the log has grown, perhaps by a turn that reads these inputs
            return
        raise SessionBusy("the session keeps changing; try again")

    async def interrupt(self, session_id: str, reason: str | None = None) -> int:
        """Request that the driver stops the running turn; followers of the session see it end."""
        return await self._write(self.writes.interruption(session_id, reason))

    async def go_on(self, session_id: str) -> int:
        """Make workers continue the session. They skip an imported session, and a session that they failed to drive,
        until it has a new event."""
        return await self.update_async(session_id, runtime={"continued": True})

    async def answer(self, session_id: str, approval_seq: int, text: str, call_digest: str | None = None) -> int:
        """Answer a question. For a call, the answer is once, session, always or deny, bound to the digest shown."""
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
        """Change the title, model, persona and runtime values that are given, in one commit."""
        return self.store.commit(self._update(session_id, changes))[0].seq

    async def update_async(self, session_id: str, **changes: Unpack[SessionChanges]) -> int:
        """Like `update`, without blocking the event loop."""
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
        """End the session: take the lease by force, which stops its driver, close its turn, and refuse more input."""
        driver = await Driver.open(self.store, session_id, context.clock, context.ttl_ms)
        await driver.claim(force=True)
        closed = closing_events(
            driver.state, "interrupted", "the session was ended", await stored_partial_reply(driver)
        )
        await driver.write(*closed, SessionClosed(reason=reason), release=True)

    # --- boundaries

    async def boundary(self, session_id: str, what: str, arguments: dict[str, Any], context: TurnContext) -> str:
        """Apply a boundary now if the session is idle, else send a request to its driver. Returns "done" or
        "requested"."""
        if what not in BOUNDARIES:
            raise InvalidInput(f"'{what}' is not a boundary; use one of {', '.join(BOUNDARIES)}")
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

    # --- internal

    async def _write(self, write: Append) -> int:
        [receipt] = await self.store.commit_async(write)
        return receipt.seq
