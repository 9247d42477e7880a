"""The logs of the sub-agents below a session: what they wrote counts as written by the turn that started them.

A child is found by its parent's call, not by the result of the call, so that an interrupted one is found too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from outlast.core import events as e
from outlast.core.errors import SessionNotFound
from outlast.core.fold import Row
from outlast.core.messages import ToolCall
from outlast.core.state import SessionState
from outlast.runtime.turn.subagents import child_of
from outlast.store.port import Store
from outlast.store.read.decode import decode_events, load_state

TASK = "task"


class ChildLog(NamedTuple):
    """The log of a sub-agent. `place` is the event of the root session in which the sub-agent was requested."""

    place: int
    rows: list[Row]
    state: SessionState


def child_logs(store: Store, rows: Iterable[Row], state: SessionState, after: int) -> list[ChildLog]:
    """Return the logs of all sub-agents that visible events after `after` requested, each before those below it."""
    found: list[ChildLog] = []
    for seq, child in _children(rows, state, after):
        try:
            tip = store.tip(child)
            below, its_state = decode_events(store, store.read(tip)), load_state(store, tip)
        except SessionNotFound:  # the call was refused, or stopped before its child was created
            continue
        found.append(ChildLog(seq, below, its_state))
        found += [one._replace(place=seq) for one in child_logs(store, below, its_state, 0)]
    return found


def _children(rows: Iterable[Row], state: SessionState, after: int) -> Iterator[tuple[int, str]]:
    for stored, event in rows:
        if stored.seq > after and not state.view.hides(stored.seq) and isinstance(event, e.AssistantReplied):
            for part in event.parts:
                if isinstance(part, ToolCall) and part.name == TASK:
                    yield stored.seq, child_of(stored.session_id, stored.seq, part.id)
