"""Messages as the library appends them: the event, and the actor that its role stands for."""

from __future__ import annotations

from outlast.core import events as e
from outlast.core.errors import InvalidInput
from outlast.core.event_row import Actor
from outlast.core.messages import Message, Role
from outlast.store.port import NewEvent

LIBRARY = Actor("user", "library").text()
ACTORS = {
    Role.USER: LIBRARY,
    Role.ASSISTANT: Actor("model", "library").text(),
    Role.TOOL: Actor("tool", "library").text(),
    Role.SYSTEM: Actor("system", "library").text(),
}


def appended(message: Message) -> e.MessageAppended:
    if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance] callers are not all checked
        raise InvalidInput(
            f"a session takes Message objects, not {type(message).__name__}: Message(role=..., content=...)"
        )
    return e.MessageAppended(role=message.role, parts=message.parts)


def message_event(message: Message) -> NewEvent:
    return NewEvent(event=appended(message), actor=ACTORS[message.role])


def message_events(messages: list[Message]) -> tuple[NewEvent, ...]:
    return tuple(message_event(message) for message in messages)
