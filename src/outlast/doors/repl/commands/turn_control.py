"""Commands for turns: stop, queue, plan, expand; and `/init`, which has AGENTS.md written."""

from __future__ import annotations

import json

from rich.padding import Padding
from rich.text import Text

from outlast.core.errors import OutlastError
from outlast.core.events import Delivery
from outlast.doors.repl.commands.port import ReplCommand
from outlast.doors.repl.controller import ReplController
from outlast.doors.repl.event_view import ToolCallEntry
from outlast.doors.repl.render.renderables import diff
from outlast.doors.terminal_text import output, readable

INIT = (
    "Look at this project and write AGENTS.md for coding agents that will work here: what it is, its layout, how to "
    "build, test and run it (the exact commands), and the conventions that its code follows. Read before you write; "
    "keep it under 60 lines; if AGENTS.md exists, improve it and keep what is right in it."
)


PLAN_ON = "plan mode is on: the model only reads until you approve its plan; /plan or Shift-Tab switches it off"


async def stop(controller: ReplController, arguments: str) -> None:
    """Stop the turn that runs here, or the turn that another process runs in this session."""
    if controller.work.is_running:
        controller.screen.offer("\n".join(await controller.work.stop()))
    elif controller.is_driven:
        await controller.repl_session.service.interrupt(controller.session.session_id, "the user pressed stop")
        controller.say("asked the process that drives this session to stop the turn", "dim")
    else:
        controller.say("no turn is running", "dim")


async def queue(controller: ReplController, arguments: str) -> None:
    if not arguments.strip():
        raise OutlastError("give the text to queue: /queue TEXT")
    await controller.work.admit(arguments, Delivery.QUEUE)
    controller.work.wake()


async def plan(controller: ReplController, arguments: str) -> None:
    """Switch plan mode on or off, also in a running turn; with a text, switch it on and send the text."""
    text = arguments.strip()
    on = bool(text) or not controller.repl_session.plan_mode
    await controller.set_plan_mode(on)
    controller.say(PLAN_ON if on else "plan mode is off", "dim")
    if text:
        controller.next_input = text


async def init(controller: ReplController, arguments: str) -> None:
    controller.next_input = f"{INIT}\n\n{arguments}".strip()


async def expand(controller: ReplController, arguments: str) -> None:
    """Show the last tool call in full; N counts back from the last call."""
    calls = controller.view.calls
    back = int(arguments) if arguments.strip().isdecimal() else 1
    if not 1 <= back <= len(calls):
        raise OutlastError("there is no such tool call here; /expand N shows the Nth from the end")
    expanded(controller, calls[-back])


def expanded(controller: ReplController, shown: ToolCallEntry) -> None:
    controller.put(Text(shown.line, style="bold"))
    if shown.call:
        text = json.dumps(shown.call, indent=1, ensure_ascii=False, default=str)
        controller.put(Padding(Text(readable(text), style="dim"), (0, 0, 0, 2)))
    if shown.change:
        controller.put(diff(shown.change))
    controller.put(Padding(Text(output(shown.result)), (0, 0, 0, 2)))


TURNS = (
    ReplCommand("stop", "stop the running turn (Ctrl-C)", stop),
    ReplCommand("queue", "queue a message for a turn of its own", queue, "TEXT"),
    ReplCommand("plan", "switch plan mode on or off", plan, "[TEXT]"),
    ReplCommand("expand", "show all of a tool call (Ctrl-O)", expand, "[N]"),
    ReplCommand("init", "let the model write AGENTS.md for this project", init),
)
