"""Chats and sessions: which session a chat's route leads to, and the commits by which that changes.

Promises:
- A message is stored once: its platform's id is the key of the very commit that admits it, in the scope of its route.
  The first message of a chat makes the session and the route in that commit too.
- A route is moved by compare-and-swap, here and nowhere else; a rotation moves it in its own commit
  (`outlast.store.lineage`). A message that changes nothing about the route writes nothing to it.
- What a command says is a notice in the same commit as what it does, with the same key. It says what it answers, so a
  command that would be answered otherwise by now is still known for the same when it is delivered again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from outlast.app.chat.session_view import ShownQuestion
from outlast.app.placement import bound_to, place_for
from outlast.core import events as e
from outlast.core.chat_route import debt_key, named, route_of_debt
from outlast.core.errors import ConflictError, KeyUsed, OutcomeUnknown, SessionBusy, SessionEnded, SessionNotFound
from outlast.core.event_row import Actor
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import TextPart
from outlast.core.outbox import GATEWAY
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.prompt.project_identity import project_fingerprint, project_key
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Create, NewEvent, PutRoute, Receipt, Write
from outlast.store.read.decode import decode_events, load_state

RACES = 20
ASKED = "asked"
NOTHING: Mapping[str, Any] = MappingProxyType({})
REPEATS = 5
ENDED_NOTICE = "The session before this one has ended, so this is a new one."


class AlreadyAdmitted(ConflictError):
    """The id of this update was used for something else before. Nothing is written."""


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """Who speaks, where, and under which id the platform delivered it. `asked` is the digest of what was said."""

    route: str
    user: str
    update_id: str
    asked: str
    message_id: str | None = None


class NewSessionDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What a new session of a chat begins with."""

    project: Path
    permission_mode: PermissionMode
    model: str | None = None
    persona: str | None = None


class AdmittedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message or command is now, durably. `replayed`: it had been before."""

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
        """The session that a chat is in."""
        return await asyncio.to_thread(self.store.route, route)

    def routes(self, prefix: str) -> list[tuple[str, str, bool]]:
        """(route, session, debt) of every chat that begins so. A debt: the chat itself has gone elsewhere."""
        found = self.store.routes(prefix)
        return [(route_of_debt(key) or key, session_id, route_of_debt(key) is not None) for key, session_id in found]

    # --- messages

    async def admit(
        self, sender: Sender, text: str, place: NewSessionDefaults, delivery: e.Delivery = e.Delivery.QUEUE
    ) -> AdmittedMessage:
        """Take a message: into the session of its chat, or into a new one where there is none or it has ended.

        `TakenBefore` when the same id was used for something else before.
        """
        event = e.InputAdmitted(parts=(TextPart(text),), delivery=delivery, message_id=sender.message_id)

        async def once(leads: str | None) -> AdmittedMessage:
            if leads is not None and not await asyncio.to_thread(self._has_ended, leads):
                return await self._append(leads, sender, event)
            return await self._begin(sender, place, leads, event)

        return await self._racing(sender, once)

    async def _begin(
        self, sender: Sender, place: NewSessionDefaults, leads: str | None, event: e.Event
    ) -> AdmittedMessage:
        """A new session, the route to it, and the message in it: one commit, or nothing."""
        notices = () if leads is None else (e.NoticePosted(route=sender.route, text=ENDED_NOTICE),)
        session_id, create = await asyncio.to_thread(self._created, sender, place, leads, *notices)
        moved = PutRoute(route=sender.route, session_id=session_id, expect=leads)
        return _taken(await self._commit(create, moved, _keyed(session_id, sender, event)), began=True)

    async def _append(self, session_id: str, sender: Sender, *events: e.Event, touch: bool = True) -> AdmittedMessage:
        try:
            return _taken(await self._commit(_keyed(session_id, sender, *events, touch=touch)))
        except ConflictError as error:
            return await self._again(sender, error)

    async def _again(self, sender: Sender, error: ConflictError) -> AdmittedMessage:
        """Where the very same was taken before, though it would be taken otherwise by now: a question is answered, a
        turn has ended. `TakenBefore` when it is something else."""
        if isinstance(error, KeyUsed) and await asyncio.to_thread(self._asked, error) == sender.asked:
            return AdmittedMessage(session_id=error.session_id, seq=error.seq, replayed=True)
        raise AlreadyAdmitted(str(error)) from error

    def _asked(self, used: KeyUsed) -> str | None:
        """What the notice there answers; None when it is none."""
        try:
            rows = self.store.read(used.session_id, after=used.seq - 1, before=used.seq + 1)
        except SessionNotFound:
            return None
        notices = [event for _, event in decode_events(self.store, rows) if isinstance(event, e.NoticePosted)]
        return notices[0].facts.get(ASKED) if notices else None

    async def _racing(
        self, sender: Sender, once: Callable[[str | None], Awaitable[AdmittedMessage]]
    ) -> AdmittedMessage:
        """Do it with where the route leads; again, when that turns out to have changed in the same moment."""
        for _ in range(RACES):
            leads = await self.leads(sender.route)
            try:
                return await once(leads)
            except AlreadyAdmitted:
                raise
            except ConflictError as error:
                if await self.leads(sender.route) == leads:  # not about the route, so about the id
                    return await self._again(sender, error)
            except (SessionEnded, SessionNotFound):
                continue
        raise SessionBusy("the chat's route moves faster than it can be followed; send it again")

    # --- commands

    async def post(
        self, sender: Sender, session_id: str, text: str, *effects: e.Event, facts: Mapping[str, Any] = NOTHING
    ) -> AdmittedMessage:
        """The answer to a command, and what the command does, in the session's log; once, however often it comes."""
        notice = _notice(sender, text, facts)
        return await self._append(session_id, sender, *effects, notice, touch=False)

    async def request(self, sender: Sender, session_id: str, what: str) -> AdmittedMessage:
        """Ask whoever drives the session to draw a boundary; the chat hears what became of it."""
        return await self._append(session_id, sender, e.BoundaryRequested(what=what), touch=False)

    async def answer(self, sender: Sender, question: ShownQuestion, answer: str, told: str = "") -> AdmittedMessage:
        """Answer a question, bound to the call that was shown. `ConflictError` when somebody else was faster, and when
        this very update was taken before. `told` is said in the chat, where the question does not say it itself."""
        event = e.ApprovalAnswered(approval_seq=question.seq, answer=answer, call_digest=question.call_digest)
        answered = Append(
            session_id=question.session_id,
            events=_by(sender, event),
            key=f"approval-{question.session_id}-{question.seq}",
        )
        notice = _keyed(question.session_id, sender, _notice(sender, told), touch=False)
        return _taken(await self._commit(answered, notice))

    async def begin(self, sender: Sender, place: NewSessionDefaults, text: str) -> AdmittedMessage:
        """`/new`: from now on the chat is in a new session. What the old one still owes it will come."""
        notice = _notice(sender, text)

        async def once(leads: str | None) -> AdmittedMessage:
            session_id, create = await asyncio.to_thread(self._created, sender, place, leads)
            moved = await asyncio.to_thread(self._moved, sender.route, session_id, leads)
            return _taken(await self._commit(create, *moved, _keyed(session_id, sender, notice)), began=True)

        return await self._racing(sender, once)

    async def join(self, sender: Sender, session_id: str, mode: PermissionMode, text: str) -> AdmittedMessage:
        """`/resume`: from now on the chat is in that session, under the chat's rights if those are fewer."""
        notice = _notice(sender, text)

        async def once(leads: str | None) -> AdmittedMessage:
            target = await asyncio.to_thread(self.store.tip, session_id)
            lowered = await asyncio.to_thread(self._lowered, target, mode)
            moved = await asyncio.to_thread(self._moved, sender.route, target, leads)
            opened = e.RouteOpened(route=sender.route, from_session_id=leads)
            said = _keyed(target, sender, opened, *lowered, notice, touch=False)
            return _taken(await self._commit(*moved, msgspec.structs.replace(said, to_tip=False)))

        return await self._racing(sender, once)

    def _moved(self, route: str, session_id: str, leads: str | None) -> list[Write]:
        """The route goes there, and a debt stays behind until the chat has got what it is owed."""
        writes: list[Write] = [PutRoute(route=route, session_id=session_id, expect=leads)]
        if leads is not None and leads != session_id:
            writes.append(PutRoute(route=debt_key(route, self.store.head(leads).root_id), session_id=leads))
        return writes

    def _lowered(self, session_id: str, mode: PermissionMode) -> list[e.Event]:
        """A session that was given more rights elsewhere does not bring them into the chat."""
        asked = load_state(self.store, session_id).runtime.get("permission_mode")
        if asked in set(PermissionMode) and PermissionMode(str(asked)).is_at_most(mode):
            return []
        return [e.RuntimeStateChanged(changes={"permission_mode": str(mode)})]

    async def settle_debt(self, route: str, session_id: str) -> None:
        """The session that the chat has left owes it nothing any more."""
        key = debt_key(route, (await asyncio.to_thread(self.store.head, session_id)).root_id)
        leads = await self.leads(key)
        if leads is not None:
            try:
                await self._commit(PutRoute(route=key, session_id=None, expect=leads))
            except ConflictError:
                return  # a rotation moved it in this moment; the next look finds it settled too

    # --- inside

    def _created(
        self, sender: Sender, place: NewSessionDefaults, leads: str | None, *more: e.Event
    ) -> tuple[str, Create]:
        """A session that begins in this chat, with this chat's rights."""
        session_id, root, bound = id_from(secrets.token_bytes(16)), place.project, place_for(self.store)
        key, fingerprint = project_key(root), project_fingerprint(root)
        created = e.SessionCreated(
            model=place.model,
            persona=place.persona,
            project_root=str(root),
            project_key=key,
            project_fingerprint=fingerprint,
            settings=bound_to(bound),
        )
        header = Header(
            session_id=session_id,
            project_root=str(root),
            project_key=key,
            project_fingerprint=fingerprint,
            place=bound,
        )
        rights = e.RuntimeStateChanged(changes={"permission_mode": str(place.permission_mode)})
        opened = e.RouteOpened(route=sender.route, from_session_id=leads)
        return session_id, Create(header=header, events=_by(sender, created, rights, opened, *more))

    def _has_ended(self, session_id: str) -> bool:
        head = self.store.head(session_id)
        return head.has_ended and head.rotated_to is None

    async def _commit(self, *writes: Write) -> list[Receipt]:
        """Commit; an outcome that is not known is found out by the same commit with the same key."""
        for pause in range(REPEATS - 1):
            try:
                return await self.store.commit_async(*writes)
            except OutcomeUnknown:
                await asyncio.sleep(0.05 * 2**pause)
        return await self.store.commit_async(*writes)


def _notice(sender: Sender, text: str, facts: Mapping[str, Any] = NOTHING) -> e.NoticePosted:
    """What is told to whoever spoke."""
    told = {**facts, ASKED: sender.asked}
    return e.NoticePosted(route=sender.route, text=text, reply_to=sender.message_id, facts=told)


def _keyed(session_id: str, sender: Sender, *events: e.Event, touch: bool = True) -> Append:
    """Events that the platform's id stands for: written once, whatever the session is called by then."""
    return Append(
        session_id=session_id,
        events=_by(sender, *events),
        key=sender.update_id,
        scope=sender.route,
        to_tip=True,
        touch=touch,
    )


def _by(sender: Sender, *events: e.Event) -> tuple[NewEvent, ...]:
    actor = Actor("user", GATEWAY, named(sender.user), sender.route).text()
    return tuple(NewEvent(event=event, actor=actor) for event in events)


def _taken(receipts: list[Receipt], *, began: bool = False) -> AdmittedMessage:
    last = receipts[-1]
    return AdmittedMessage(
        session_id=last.session_id, seq=last.seq, replayed=last.replayed, began=began and not last.replayed
    )
