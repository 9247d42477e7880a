"""What an interrupted turn was doing, in one plain sentence, and how to go on with it."""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.agent import Agent
from outlast.app.feed import rows_of
from outlast.app.terminal import is_driven
from outlast.core import events as e
from outlast.core.state import SessionState
from outlast.doors.repl.call_line import one_line, told_call

CONTINUE = "Go on where you were interrupted."
LOOK_BACK = 400


class Interruption(msgspec.Struct, frozen=True):
    """`text` says what happened. `is_open`: the turn never ended, and goes on by itself when the session is driven."""

    text: str
    is_open: bool


def interruption(agent: Agent) -> Interruption | None:
    """What to tell whoever comes back to this session; None when nothing was cut off."""
    session = agent.session
    if not session.exists:
        return None
    state = session.state
    if is_driven(agent.store, session.session_id):
        return None  # somebody is at it right now
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
    """From the folded state: what was under way when nobody wrote any more."""
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
    return f"while running {told_call(name, arguments)}; {_outcome(effect)}"


def _outcome(effect: e.EffectClass | None) -> str:
    return "it only reads and will run again" if effect is e.EffectClass.READ else "outcome unknown"


def _closed_work(agent: Agent) -> str:
    """From the last events: what the turn was stopped in."""
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
