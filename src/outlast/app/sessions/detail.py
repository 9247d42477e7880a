"""One session in full: its messages, and a description of the work that was interrupted.

Also tells which other process drives a session now.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.app.sessions.session_list import SessionRow, summary_of
from outlast.core.messages import Message
from outlast.core.state import SessionState
from outlast.core.text import one_line, shortened
from outlast.core.transcript import transcript
from outlast.runtime.turn.recovery import takeover_wait
from outlast.store.log_store import LogStore
from outlast.store.port import Store
from outlast.store.process_identity import holder, holder_is_gone, holder_pid, now_us
from outlast.store.read.decode import decode_events, load_state

TELLING = ("file_path", "path", "pattern", "url", "question", "prompt")
"""Argument names that describe a call best."""


class SessionDetailView(msgspec.Struct, kw_only=True):
    """A session with its messages, newest last. `interrupted` describes what an unfinished turn was doing."""

    session: SessionRow
    messages: list[Message]
    interrupted: str | None = None
    running: str | None = None
    waiting: int = 0
    hidden: int = 0
    """How many archived messages are left out."""


def detail(store: LogStore, session_id: str, *, include_archived: bool = False) -> SessionDetailView:
    header = store.head(session_id)
    state = load_state(store, session_id)
    every = messages_of(store, session_id, state)
    shown = [message for message in every if include_archived or not message.archived]
    held = store.holder(session_id)
    alive = held is not None and not held.expired
    return SessionDetailView(
        session=summary_of(header, store),
        messages=shown,
        interrupted=open_work(state) if state.turn is not None and not alive else None,
        running=held.holder if held is not None and alive else None,
        waiting=len(state.unanswered),
        hidden=len(every) - len(shown),
    )


def messages_of(store: LogStore, session_id: str, state: SessionState | None = None) -> list[Message]:
    """Every message of a session, archived ones and summaries included."""
    state = state if state is not None else load_state(store, session_id)
    rows = decode_events(store, store.read(session_id))
    return transcript(rows, state, include_archived=True, summaries=True)


def open_work(state: SessionState) -> str:
    """Describe the work that was open at the last event."""
    for call in state.open_calls:
        if call.started_seq and call.name == "ask_user":
            return "interrupted while it waited for your answer to its question"
        if call.started_seq and call.name == "exit_plan":
            return "interrupted while it waited for your answer to its plan"
        if call.started_seq:
            known = "it only reads" if call.effect == "R" else "outcome unknown"
            return f"interrupted while running {call_label(call.name, call.arguments)}, {known}"
    if state.open_approvals:
        return f"interrupted while it waited for your approval of {state.open_approvals[0].name}"
    if state.attempt is not None:
        return "interrupted while the model was answering"
    return "interrupted between two steps"


def takeover_trouble(state: SessionState) -> str | None:
    """Why the open turn does not go on yet, if its drivers have died; None if it is not held up."""
    wait = takeover_wait(state.turn, now_us())
    return wait.text if wait is not None and wait.seconds > 0 else None


def call_label(name: str, arguments: dict[str, Any] | None) -> str:
    """A short label of a call: the command, or the tool and its most descriptive argument."""
    given = arguments or {}
    if isinstance(given.get("command"), str):
        return f"`{_short(given['command'])}`"
    telling = [given[key] for key in TELLING if isinstance(given.get(key), str)]
    about = next((value for value in [*telling, *given.values()] if isinstance(value, str)), "")
    return f"{name} {_short(about)}".strip()


def _short(text: str, most: int = 80) -> str:
    return shortened(one_line(text), most)


def driven_by(store: Store, session_id: str) -> str | None:
    """The other living process that drives the session, in words; None if there is none."""
    held = store.holder(session_id)
    if held is None or held.expired or holder_is_gone(held.holder) or held.holder == holder():
        return None
    return holder_pid(held.holder)
