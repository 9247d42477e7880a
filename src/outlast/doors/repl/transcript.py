"""Prints the last messages of a session when the user returns to it."""

from __future__ import annotations

from rich.text import Text

from outlast.core.messages import Message, Role
from outlast.doors.repl.controller import ReplController
from outlast.doors.repl.event_view import CALL_LENGTH
from outlast.doors.repl.input.attachments import going_along, typed
from outlast.doors.repl.render.renderables import CallLine, markdown
from outlast.doors.repl.render.style import HERE
from outlast.doors.repl.render.tool_call_line import one_line, titled_call
from outlast.doors.terminal_text import readable

MESSAGES = 12
LONGEST = 4000


def show_transcript(controller: ReplController, most: int = MESSAGES) -> None:
    """Print the last messages of the controller's session."""
    session = controller.session
    if not session.exists:
        return
    messages = session.history(most)
    if session.header.message_count > len(messages):
        controller.put(
            Text(f"· {session.header.message_count - len(messages)} earlier messages: outlast sessions show", "dim")
        )
    for message in messages:
        _show(controller, message)


def _show(controller: ReplController, message: Message) -> None:
    if message.role is Role.USER:
        controller.put(Text())
        said = Text(f"{HERE} {_cut(typed(message.parts))}", style="bold")
        for name, size in going_along(message.parts):
            said.append(f"\n  [{one_line(name, 60)}, {size:,} bytes]", style="dim")
        controller.put(said)
    elif message.role is Role.ASSISTANT:
        if message.content.strip():
            controller.put(Text())
            controller.put(markdown(_cut(message.content)))
        for call in message.tool_calls:
            controller.put(CallLine("●", "dim", titled_call(call.name, call.arguments, CALL_LENGTH), ""))
        if message.interrupted:
            controller.put(Text("· this reply broke off", style="yellow"))


def _cut(text: str) -> str:
    text = readable(text).rstrip()
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
