"""The turn: stop, queue, plan, look closer; and the command that writes AGENTS.md."""

from __future__ import annotations

import json

from rich.padding import Padding
from rich.text import Text

from outlast.core.errors import OutlastError
from outlast.core.events import Delivery
from outlast.doors.repl.commands.port import Command
from outlast.doors.repl.controller import Room
from outlast.doors.repl.event_view import Shown
from outlast.doors.repl.render.escape import output, readable
from outlast.doors.repl.render.renderables import diff

INIT = (
    "Look at this project and write AGENTS.md for coding agents that will work here: what it is, its layout, how to "
    "build, test and run it (the exact commands), and the conventions that its code follows. Read before you write; "
    "keep it under 60 lines; if AGENTS.md exists, improve it and keep what is right in it."
)


async def stop(room: Room, arguments: str) -> None:
    """The turn that runs here, or the one that another process runs in this session."""
    if room.work.is_running:
        room.screen.offer("\n".join(await room.work.stop()))
    elif room.is_driven:
        await room.desk.service.interrupt(room.session.session_id, "the user pressed stop")
        room.say("asked whoever drives this session to stop the turn", "dim")
    else:
        room.say("no turn is running", "dim")


async def queue(room: Room, arguments: str) -> None:
    if not arguments.strip():
        raise OutlastError("give what is to be queued: /queue TEXT")
    await room.work.admit(arguments, Delivery.QUEUE)
    room.work.wake()


async def plan(room: Room, arguments: str) -> None:
    """The next turn, or the one for this text, only looks and makes a plan; the message after it carries it out."""
    if room.work.is_running:
        raise OutlastError("a turn is running; /stop it first, or wait")
    if not arguments.strip() and room.desk.agent.config.workflow_mode == "plan":
        room.change_config(workflow_mode=None)
        room.say("the next message is worked on as usual", "dim")
        return
    room.change_config(workflow_mode="plan")
    if arguments.strip():
        room.next_input = arguments.strip()
    else:
        room.say("the next message is planned, nothing is changed; the one after it carries the plan out", "dim")


async def init(room: Room, arguments: str) -> None:
    room.next_input = f"{INIT}\n\n{arguments}".strip()


async def expand(room: Room, arguments: str) -> None:
    """All of the last tool call, or of the one before it, and so on."""
    calls = room.view.calls
    back = int(arguments) if arguments.strip().isdecimal() else 1
    if not 1 <= back <= len(calls):
        raise OutlastError("there is no such tool call here; /expand N shows the Nth from the end")
    expanded(room, calls[-back])


def expanded(room: Room, shown: Shown) -> None:
    room.put(Text(shown.line, style="bold"))
    if shown.call:
        text = json.dumps(shown.call, indent=1, ensure_ascii=False, default=str)
        room.put(Padding(Text(readable(text), style="dim"), (0, 0, 0, 2)))
    if shown.change:
        room.put(diff(shown.change))
    room.put(Padding(Text(output(shown.result)), (0, 0, 0, 2)))


TURNS = (
    Command("stop", "stop the running turn (Ctrl-C)", stop),
    Command("queue", "say something that waits for its own turn", queue, "TEXT"),
    Command("plan", "plan the next message first", plan, "[TEXT]"),
    Command("expand", "show all of a tool call (Ctrl-O)", expand, "[N]"),
    Command("init", "have AGENTS.md written for this project", init),
)
