"""Builders of the writes that create, change, fork, interrupt and delete a session, and that add input to it.

This module commits nothing: `SessionService` commits these writes, or a caller combines several in one commit.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict, Unpack

from outlast.core import events as e
from outlast.core.errors import InvalidInput
from outlast.core.event_row import Actor
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import Message, Part, Role, TextPart
from outlast.core.window import unread
from outlast.runtime.prompt.project_identity import project_fingerprint, project_key
from outlast.store.lineage import fork
from outlast.store.port import Append, Create, Delete, NewEvent, Store
from outlast.store.read.decode import load_state

LIBRARY = "library"
SPEAKERS = {
    Role.USER: Actor("user", LIBRARY).text(),
    Role.ASSISTANT: Actor("model", LIBRARY).text(),
    Role.TOOL: Actor("tool", LIBRARY).text(),
    Role.SYSTEM: Actor("system", LIBRARY).text(),
}
"""Actors of messages that a program appends, by role."""


class SessionChanges(TypedDict, total=False):
    """Changes to a session; None keeps the current value. `runtime` holds named values of the runtime state."""

    title: str | None
    model: str | None
    persona: str | None
    runtime: dict[str, Any] | None


class SessionWrites:
    """Builds the writes of one user at one door; each event names this user."""

    def __init__(self, door: str = LIBRARY, principal: str = "", client: str = "") -> None:
        self.door = door
        self.actor = Actor("user", door, principal, client).text()

    # --- a new session

    def creation(
        self,
        session_id: str,
        *,
        root: Path | None,
        title: str | None = None,
        model: str | None = None,
        persona: str | None = None,
        owner_id: str = "local",
        place: str | None = None,
        runtime: dict[str, Any] | None = None,
        events: Iterable[e.Event] = (),
        messages: Iterable[Message] = (),
        keyed: bool = True,
    ) -> Create:
        """Create a session with initial `runtime` values, then `events`, then `messages`. Without `root`, its project
        is not on this machine. `keyed` makes this write idempotent."""
        header = Header(session_id=session_id, owner_id=owner_id, place=place)
        if root is not None:
            header.project_root = str(root)
            header.project_key, header.project_fingerprint = project_key(root), project_fingerprint(root)
        created = e.SessionCreated(
            title=title,
            model=model,
            persona=persona,
            project_root=header.project_root,
            project_key=header.project_key,
            project_fingerprint=header.project_fingerprint,
            settings={"place": place} if place is not None else {},
        )
        first = [created, *((e.RuntimeStateChanged(changes=runtime),) if runtime else ()), *events]
        new = (*self._by(*first), *message_events(messages))
        return Create(header=header, events=new, key=f"create-{session_id}" if keyed else None)

    def child_creation(
        self, session_id: str, parent: Header, *, title: str, persona: str, depth: int, key: str
    ) -> Create:
        """Create the session of a sub-agent, with the project and the place of its parent."""
        created = e.SessionCreated(
            title=title,
            persona=persona,
            project_root=parent.project_root,
            project_key=parent.project_key,
            project_fingerprint=parent.project_fingerprint,
            parent_session_id=parent.session_id,
            depth=depth,
        )
        header = Header(
            session_id=session_id,
            owner_id=parent.owner_id,
            parent_session_id=parent.session_id,
            depth=depth,
            project_root=parent.project_root,
            project_key=parent.project_key,
            project_fingerprint=parent.project_fingerprint,
            place=parent.place,
        )
        return Create(header=header, events=self._by(created), key=key, scope=parent.session_id)

    def fork(
        self, store: Store, session_id: str, made: str, *, at: int | None = None, title: str | None = None
    ) -> Create:
        """Create the session `made`, which continues from event `at` of another session (default: its newest). A fork
        at the head with no waiting input needs only the parent's header, not its folded state."""
        parent = store.head(session_id)
        at = parent.last_seq if at is None else at
        if not 1 <= at <= parent.last_seq:
            raise InvalidInput(f"there is no event {at} to fork at; the session has events 1 to {parent.last_seq}")
        titled = self._by(e.SessionRenamed(title=title)) if title is not None else ()
        if at == parent.last_seq and not parent.pending_count:
            return fork(parent, made, actor=self.actor, events=titled)
        past = load_state(store, session_id, upto=at)
        waiting = unread(past)  # the fork keeps these inputs as messages but does not answer them
        return fork(
            parent,
            made,
            at=at,
            messages=past.message_count,
            boundary_seq=past.journal[-1].seq if past.journal else 0,
            plan_mode=past.plan_mode,
            actor=self.actor,
            events=(*(self._by(e.InputPromoted(inputs=waiting)) if waiting else ()), *titled),
        )

    # --- inputs, answers, messages

    def admission(
        self,
        session_id: str,
        content: str | tuple[Part, ...],
        *,
        key: str | None = None,
        scope: str | None = None,
        delivery: e.Delivery = e.Delivery.QUEUE,
        message_id: str | None = None,
        to_tip: bool = True,
    ) -> Append:
        """Admit an input; with `to_tip`, into the newest session of the lineage."""
        parts: tuple[Part, ...] = (TextPart(content),) if isinstance(content, str) else content
        if not parts or parts == (TextPart(""),):
            raise InvalidInput("an input must not be empty; describe the task")
        event = e.InputAdmitted(parts=parts, delivery=delivery, message_id=message_id)
        return Append(session_id=session_id, events=self._by(event), key=key, scope=scope, to_tip=to_tip)

    def withdrawal(
        self, session_id: str, inputs: list[int], reason: str | None = None, *, expect: int | None = None
    ) -> Append:
        return self.append(session_id, e.InputWithdrawn(inputs=inputs, reason=reason), expect=expect)

    def answer(self, session_id: str, approval_seq: int, text: str, call_digest: str | None) -> Append:
        """Answer a question. A second answer has the same key, so the store refuses it unless it is equal."""
        event = e.ApprovalAnswered(approval_seq=approval_seq, answer=text, call_digest=call_digest)
        key = f"approval-{session_id}-{approval_seq}"
        return Append(session_id=session_id, events=self._by(event), key=key)

    def messages(
        self,
        session_id: str,
        messages: Iterable[Message],
        *,
        key: str | None = None,
        expect: int | None = None,
        touch: bool = True,
    ) -> Append:
        """Append messages of any role on behalf of a program."""
        return Append(session_id=session_id, events=message_events(messages), key=key, expect=expect, touch=touch)

    # --- requests to the driver

    def interruption(self, session_id: str, reason: str | None = None) -> Append:
        return self.append(session_id, e.InterruptRequested(reason=reason))

    def boundary_request(self, session_id: str, what: str, arguments: dict[str, Any] | None = None) -> Append:
        return self.append(session_id, e.BoundaryRequested(what=what, arguments=arguments or {}))

    # --- the session itself

    def update(self, session_id: str, **changes: Unpack[SessionChanges]) -> Append:
        """Change the given values in one write."""
        title, model, persona = changes.get("title"), changes.get("model"), changes.get("persona")
        runtime = changes.get("runtime")
        events: list[e.Event] = []
        events += [e.SessionRenamed(title=title)] if title is not None else []
        events += [e.ModelChanged(model=model)] if model is not None else []
        events += [e.PersonaChanged(persona=persona)] if persona is not None else []
        events += [e.RuntimeStateChanged(changes=runtime)] if runtime is not None else []
        return self.append(session_id, *events)

    def closing(self, session_id: str, reason: str | None = None) -> Append:
        """End the session without stopping its turn; `SessionService.end` stops the turn first."""
        return self.append(session_id, e.SessionClosed(reason=reason))

    def reopening(self, session_id: str) -> Append:
        return self.append(session_id, e.SessionReopened())

    def archiving(self, session_id: str) -> Append:
        return self.append(session_id, e.SessionArchived())

    def unarchiving(self, session_id: str) -> Append:
        return self.append(session_id, e.SessionUnarchived())

    def deletion(self, session_id: str, *, with_forks: bool = False) -> Delete:
        return Delete(session_id=session_id, actor=self.actor, with_forks=with_forks)

    # --- any event

    def append(self, session_id: str, *events: e.Event, expect: int | None = None) -> Append:
        """Append these events with this user as their actor."""
        return Append(session_id=session_id, events=self._by(*events), expect=expect)

    def _by(self, *events: e.Event) -> tuple[NewEvent, ...]:
        return tuple(NewEvent(event=event, actor=self.actor) for event in events)


def new_session_id() -> str:
    return id_from(secrets.token_bytes(16))


def appended(message: Message) -> e.MessageAppended:
    if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] callers are not all checked
        raise InvalidInput(
            f"a session takes Message objects, not {type(message).__name__}: Message(role=..., content=...)"
        )
    return e.MessageAppended(role=message.role, parts=message.parts)


def message_events(messages: Iterable[Message]) -> tuple[NewEvent, ...]:
    return tuple(NewEvent(event=appended(message), actor=SPEAKERS[message.role]) for message in messages)
