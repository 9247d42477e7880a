"""Chat router: which session a chat's route leads to, and the commits that change it.

Promises:
- A message is stored once: the platform's id is the idempotency key of the commit that admits it, in the scope of its
  route. For the first message of a chat, that commit also creates the session and the route.
- Routes are moved by compare-and-swap, and only here; a rotation moves the route in its own commit
  (`outlast.store.lineage`). A message that does not change the route does not write to it.
- The reply to a command is a notice in the same commit as the command's effect, with the same key. The notice records
  the digest of the command, so a redelivered command is recognised even if it would now get another reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from outlast.app.chat.session_view import ShownQuestion
from outlast.app.placement import place_for
from outlast.core import events as e
from outlast.core.chat_route import debt_key, named, route_of_debt
from outlast.core.errors import ConflictError, KeyUsed, SessionBusy, SessionEnded, SessionNotFound
from outlast.core.outbox import GATEWAY
from outlast.runtime.commit_retry import RACES, commit_resolved
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.session_writes import SessionWrites, new_session_id
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Create, PutRoute, Receipt, Write
from outlast.store.read.decode import decode_events, load_state

ASKED = "asked"
NOTHING: Mapping[str, Any] = MappingProxyType({})
ENDED_NOTICE = "The session before this one has ended, so this is a new one."


class AlreadyAdmitted(ConflictError):
    """The id of this update was used for something else before. Nothing is written."""


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """The user and chat of an update, and the platform's id of it. `asked` is the digest of the message."""

    route: str
    user: str
    update_id: str
    asked: str
    message_id: str | None = None


class NewSessionDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a new session that a chat starts."""

    project: Path
    permission_mode: PermissionMode
    model: str | None = None
    persona: str | None = None


class AdmittedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message or command is stored, durably. `replayed` is true if it was stored before."""

    session_id: str
    seq: int
    replayed: bool = False
    began: bool = False


class ChatRouter:
    """The chats of one store."""

    def __init__(self, store: LogStore) -> None:
        self.store = store

    # --- reading

    async def leads(self, route: str) -> str | None:
        """The session a chat is in; None if it has no route."""
        return await asyncio.to_thread(self.store.route, route)

    def routes(self, prefix: str) -> list[tuple[str, str, bool]]:
        """(route, session, debt) of every route that starts with `prefix`. A debt is a session the chat has left that
        still has something to deliver to it."""
        found = self.store.routes(prefix)
        return [(route_of_debt(key) or key, session_id, route_of_debt(key) is not None) for key, session_id in found]

    # --- messages

    async def admit(
        self, sender: Sender, text: str, place: NewSessionDefaults, delivery: e.Delivery = e.Delivery.QUEUE
    ) -> AdmittedMessage:
        """Store a message in the session of its chat, or in a new session if the chat has none or it has ended.

        Raises `AlreadyAdmitted` if the same id was used for something else before.
        """

        def said(session_id: str) -> Append:
            write = _writes(sender).admission(session_id, text, delivery=delivery, message_id=sender.message_id)
            return _keyed(sender, write)

        async def once(leads: str | None) -> AdmittedMessage:
            if leads is not None and not await asyncio.to_thread(self._has_ended, leads):
                return await self._append(sender, said(leads))
            # The new session, its route and the message are one commit: all or nothing.
            notices = () if leads is None else (e.NoticePosted(route=sender.route, text=ENDED_NOTICE),)
            session_id, create = await asyncio.to_thread(self._creation, sender, place, leads, *notices)
            moved = PutRoute(route=sender.route, session_id=session_id, expect=leads)
            return _taken(await commit_resolved(self.store, create, moved, said(session_id)), began=True)

        return await self._racing(sender, once)

    async def _append(self, sender: Sender, write: Append) -> AdmittedMessage:
        try:
            return _taken(await commit_resolved(self.store, write))
        except ConflictError as error:
            return await self._again(sender, error)

    async def _again(self, sender: Sender, error: ConflictError) -> AdmittedMessage:
        """Return the original receipt if this update was already processed, even if processing it now would give
        another result. Raises `AlreadyAdmitted` if the id was used for something else."""
        if isinstance(error, KeyUsed) and await asyncio.to_thread(self._asked, error) == sender.asked:
            return AdmittedMessage(session_id=error.session_id, seq=error.seq, replayed=True)
        raise AlreadyAdmitted(str(error)) from error

    def _asked(self, used: KeyUsed) -> str | None:
        """The digest of the command that the notice at this event answers; None if it is not a notice."""
        try:
            rows = self.store.read(used.session_id, after=used.seq - 1, before=used.seq + 1)
        except SessionNotFound:
            return None
        notices = [event for _, event in decode_events(self.store, rows) if isinstance(event, e.NoticePosted)]
        return notices[0].facts.get(ASKED) if notices else None

    async def _racing(
        self, sender: Sender, once: Callable[[str | None], Awaitable[AdmittedMessage]]
    ) -> AdmittedMessage:
        """Run `once` with the route's current session; retry if the route changed concurrently."""
        for _ in range(RACES):
            leads = await self.leads(sender.route)
            try:
                return await once(leads)
            except AlreadyAdmitted:
                raise
            except ConflictError as error:
                if await self.leads(sender.route) == leads:  # the route did not change, so the conflict is about the id
                    return await self._again(sender, error)
            except (SessionEnded, SessionNotFound):
                continue
        raise SessionBusy("the route of this chat keeps changing; send the message again")

    # --- commands

    async def post(
        self, sender: Sender, session_id: str, text: str, *, facts: Mapping[str, Any] = NOTHING
    ) -> AdmittedMessage:
        """Append the reply to a command to the session's log; once, however often the command is delivered."""
        notice = _writes(sender).append(session_id, _notice(sender, text, facts))
        return await self._append(sender, _keyed(sender, notice, touch=False))

    async def interrupt(self, sender: Sender, session_id: str, reason: str, text: str) -> AdmittedMessage:
        """`/stop`: ask the driver to stop the turn, and reply to the command."""
        return await self._done(sender, _writes(sender).interruption(session_id, reason), text)

    async def choose_model(self, sender: Sender, session_id: str, model: str, text: str) -> AdmittedMessage:
        """`/model`: change the session's model, and reply to the command."""
        return await self._done(sender, _writes(sender).update(session_id, model=model), text)

    async def _done(self, sender: Sender, effect: Append, text: str) -> AdmittedMessage:
        """Apply a command and reply to it in one commit."""
        return await self._append(sender, _keyed(sender, effect, _notice(sender, text), touch=False))

    async def request(self, sender: Sender, session_id: str, what: str) -> AdmittedMessage:
        """Ask the session's driver to draw a boundary; the chat is notified of the result."""
        return await self._append(
            sender, _keyed(sender, _writes(sender).boundary_request(session_id, what), touch=False)
        )

    async def answer(self, sender: Sender, question: ShownQuestion, answer: str, told: str = "") -> AdmittedMessage:
        """Answer a question, bound to the call that was shown. Raises `ConflictError` if another user answered first,
        or if this update was already processed. `told` is posted in the chat when the question's own message does not
        show the answer."""
        writes = _writes(sender)
        answered = writes.answer(question.session_id, question.seq, answer, question.call_digest)
        notice = _keyed(sender, writes.append(question.session_id, _notice(sender, told)), touch=False)
        return _taken(await commit_resolved(self.store, answered, notice))

    async def begin(self, sender: Sender, place: NewSessionDefaults, text: str) -> AdmittedMessage:
        """`/new`: move the chat to a new session. Undelivered items of the old session are still delivered."""
        notice = _notice(sender, text)

        async def once(leads: str | None) -> AdmittedMessage:
            session_id, create = await asyncio.to_thread(self._creation, sender, place, leads)
            moved = await asyncio.to_thread(self._moved, sender.route, session_id, leads)
            told = _keyed(sender, _writes(sender).append(session_id, notice))
            return _taken(await commit_resolved(self.store, create, *moved, told), began=True)

        return await self._racing(sender, once)

    async def join(self, sender: Sender, session_id: str, mode: PermissionMode, text: str) -> AdmittedMessage:
        """`/resume`: move the chat to that session, with the chat's rights if those are lower."""
        notice = _notice(sender, text)

        async def once(leads: str | None) -> AdmittedMessage:
            target = await asyncio.to_thread(self.store.tip, session_id)
            lowered = await asyncio.to_thread(self._lowered, target, mode)
            moved = await asyncio.to_thread(self._moved, sender.route, target, leads)
            opened = e.RouteOpened(route=sender.route, from_session_id=leads)
            said = _keyed(sender, _writes(sender).append(target, opened, *lowered, notice), touch=False)
            return _taken(await commit_resolved(self.store, *moved, msgspec.structs.replace(said, to_tip=False)))

        return await self._racing(sender, once)

    def _moved(self, route: str, session_id: str, leads: str | None) -> list[Write]:
        """Writes that move the route and leave a debt route at the old session, until the chat has received everything
        the old session owes it."""
        writes: list[Write] = [PutRoute(route=route, session_id=session_id, expect=leads)]
        if leads is not None and leads != session_id:
            writes.append(PutRoute(route=debt_key(route, self.store.head(leads).root_id), session_id=leads))
        return writes

    def _lowered(self, session_id: str, mode: PermissionMode) -> list[e.Event]:
        """Events that lower the session's rights to those of the chat; none if they are not higher."""
        asked = load_state(self.store, session_id).runtime.get("permission_mode")
        if asked in set(PermissionMode) and PermissionMode(str(asked)).is_at_most(mode):
            return []
        return [e.RuntimeStateChanged(changes={"permission_mode": str(mode)})]

    async def settle_debt(self, route: str, session_id: str) -> None:
        """Remove the debt route: the session the chat left has nothing more to deliver to it."""
        key = debt_key(route, (await asyncio.to_thread(self.store.head, session_id)).root_id)
        leads = await self.leads(key)
        if leads is not None:
            try:
                await commit_resolved(self.store, PutRoute(route=key, session_id=None, expect=leads))
            except ConflictError:
                return  # a rotation moved it meanwhile; the next check settles it

    # --- writes

    def _creation(
        self, sender: Sender, place: NewSessionDefaults, leads: str | None, *notices: e.Event
    ) -> tuple[str, Create]:
        """A new session for this chat, with the chat's rights. It has no key of its own: the message in the same commit
        has it."""
        session_id = new_session_id()
        return session_id, _writes(sender).creation(
            session_id,
            root=place.project,
            model=place.model,
            persona=place.persona,
            place=place_for(self.store),
            runtime={"permission_mode": str(place.permission_mode)},
            events=(e.RouteOpened(route=sender.route, from_session_id=leads), *notices),
            keyed=False,
        )

    def _has_ended(self, session_id: str) -> bool:
        head = self.store.head(session_id)
        return head.has_ended and head.rotated_to is None


def _notice(sender: Sender, text: str, facts: Mapping[str, Any] = NOTHING) -> e.NoticePosted:
    """A notice for the sender, with the digest of the command it answers."""
    told = {**facts, ASKED: sender.asked}
    return e.NoticePosted(route=sender.route, text=text, reply_to=sender.message_id, facts=told)


def _writes(sender: Sender) -> SessionWrites:
    return SessionWrites(GATEWAY, named(sender.user), sender.route)


def _keyed(sender: Sender, write: Append, *more: e.Event, touch: bool = True) -> Append:
    """The write with the platform's id as its key: applied once, even if the session has been rotated since."""
    events = write.events + _writes(sender).append(write.session_id, *more).events
    return msgspec.structs.replace(
        write, events=events, key=sender.update_id, scope=sender.route, to_tip=True, touch=touch
    )


def _taken(receipts: list[Receipt], *, began: bool = False) -> AdmittedMessage:
    last = receipts[-1]
    return AdmittedMessage(
        session_id=last.session_id, seq=last.seq, replayed=last.replayed, began=began and not last.replayed
    )
