"""Prompts shown when the REPL opens a session: consent to project files, and the offer to continue interrupted work.

`interruption` describes in one sentence what an interrupted turn was doing and whether it is still open.
"""

from __future__ import annotations

from typing import Any

import msgspec
from rich.padding import Padding
from rich.text import Text

from outlast.agent import Agent
from outlast.app.permissions import consent, pending_consents
from outlast.app.sessions.detail import driven_by
from outlast.app.streams.event_feed import rows_of
from outlast.core import events as e
from outlast.core.state import SessionState
from outlast.doors.repl.controller import ReplController
from outlast.doors.repl.render.tool_call_line import one_line, told_call
from outlast.doors.repl.session_picker import PickerOption
from outlast.doors.terminal_text import exact
from outlast.runtime.permissions.rule_files import PendingConsent


async def arrived(controller: ReplController) -> None:
    """Ask what must be settled before the user continues. May leave a message to send in `next_input`."""
    for pending in pending_consents(controller.repl_session.agent.settings):
        await _consent(controller, pending)
    await _go_on(controller)


_EFFECTS = {
    "hooks.json": "It may run programs of its own.",
    "permission-rules.json": "It allows things without asking you.",
}


async def _consent(controller: ReplController, pending: PendingConsent) -> None:
    """A file of the project takes effect only after the user has seen exactly these bytes and agreed."""
    name = pending.path.name
    what = _EFFECTS.get(name, "It chooses the model that answers, from the next start on.")
    controller.put(Text())
    controller.put(Text(f"This project contains {exact(str(pending.path))}, which has no effect yet:"))
    controller.put(Padding(Text(exact(pending.content.decode("utf-8", "replace").rstrip("\n"))), (1, 0, 1, 4)))
    controller.put(Text(f"{what} It has no effect unless you agree, and Outlast asks again when it changes."))
    options = [PickerOption(False, "No, ignore it"), PickerOption(True, "Yes, I have read it and want to use it")]
    if await controller.pick("Use it?", options, "Enter chooses · Esc is no"):
        consent(controller.repl_session.agent.settings, pending)
        controller.say(f"{name} of this project is in use", "dim")
    else:
        controller.say(f"{name} of this project is ignored", "dim")


async def _go_on(controller: ReplController) -> None:
    found = interruption(controller.repl_session.agent)
    if found is None:
        return
    controller.say(found.text)
    go_on = await controller.confirm("Continue it?", yes="Go on", no="Not now")
    if go_on and found.is_open:
        controller.work.wake()
        await controller.ask_again()
    elif go_on:
        controller.next_input = CONTINUE
    else:
        left = "it stays open and continues with your next message" if found.is_open else "left as it is"
        controller.say(left, "dim")


CONTINUE = "Go on where you were interrupted."
LOOK_BACK = 400


class Interruption(msgspec.Struct, frozen=True):
    """`text` says what happened. `is_open`: the turn has not ended and continues when the session is driven."""

    text: str
    is_open: bool


def interruption(agent: Agent) -> Interruption | None:
    """What to tell a user who returns to this session; None if nothing was interrupted."""
    session = agent.session
    if not session.exists:
        return None
    state = session.state
    if driven_by(agent.store, session.session_id):
        return None  # another process drives it now
    if state.turn is not None:
        return Interruption(f"The last turn was interrupted {_open_work(state)}.", True)
    if state.unanswered:
        waiting = len(state.unanswered)
        what = "A message was" if waiting == 1 else f"{waiting} messages were"
        return Interruption(f"{what} stored here and not answered yet.", True)
    told: dict[str, object] = state.runtime.get("last_turn") or {}
    if told.get("outcome") != "interrupted":
        return None
    return Interruption(f"The last turn was interrupted {_closed_work(agent)}.", False)


def _open_work(state: SessionState) -> str:
    """What was in progress when the log stopped, from the session state."""
    for call in state.open_calls:
        if call.started_seq:
            return _running(call.name, call.arguments or {}, call.effect)
    if state.open_approvals:
        asked = state.open_approvals[0]
        return f"while it waited for your approval of {asked.name}; it will be asked again"
    if state.attempt is not None:
        return "while the model was answering; it will be asked again"
    return "between two steps; nothing is lost"


def _running(name: str, arguments: dict[str, Any], effect: e.EffectClass | None) -> str:
    if name == "ask_user":
        return f'while it waited for your answer to "{one_line(str(arguments.get("question", "")))}"'
    if name == "exit_plan":
        return "while it waited for your answer to its plan, which will be shown again"
    return f"while running {told_call(name, arguments)}; {_outcome(effect)}"


def _outcome(effect: e.EffectClass | None) -> str:
    return "it only reads and will run again" if effect is e.EffectClass.READ else "outcome unknown"


def _closed_work(agent: Agent) -> str:
    """What was in progress when the turn was stopped, from the last events."""
    last = agent.session.state.last_seq
    started: dict[str, e.ToolCallStarted] = {}
    doing = "between two steps; nothing is lost"
    for _, event in rows_of(agent.store, agent.session.session_id, after=max(0, last - LOOK_BACK)):
        match event:
            case e.TurnStarted():
                started, doing = {}, "between two steps; nothing is lost"
            case e.ToolCallStarted():
                started[event.call_id] = event
            case e.ToolCallFinished(status="cancelled", call_id=call_id):
                begun = started.get(call_id)
                if begun is not None:
                    doing = _running(begun.name, begun.arguments, begun.effect)
                else:
                    doing = f"before {event.name} was run"
            case e.ReplyInterrupted():
                doing = "while the model was answering"
            case e.AssistantReplied():
                doing = "between two steps; nothing is lost"
            case _:
                pass
    return doing
