"""What one session has spent, and how full its context window is: totals, and each of the latest replies."""

from __future__ import annotations

from typing import Literal

import msgspec

from outlast.app.sessions.context_usage import ContextUsage, context_use
from outlast.core import events as e
from outlast.core.messages import Usage
from outlast.core.usage import UsageTotals
from outlast.core.window import window
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore
from outlast.store.read.decode import decode_events, load_state

RECENT = 500
_COUNTED = frozenset({"AssistantReplied", "ReplyInterrupted", "Compacted"})


class ReplyCost(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    at: int
    kind: Literal["reply", "interrupted", "compaction"]
    turn: str | None
    model: str | None
    usage: Usage


class SessionSpending(msgspec.Struct, frozen=True, kw_only=True):
    usage: UsageTotals
    context: ContextUsage
    recent: list[ReplyCost]


def spending_of(store: LogStore, session_id: str, turn_context: TurnContext | None) -> SessionSpending:
    state = load_state(store, session_id)
    rows = store.read(session_id, after=state.view.read_from - 1, before=state.last_seq + 1)
    messages = window(decode_events(store, rows), state).messages
    return SessionSpending(
        usage=state.usage, context=context_use(turn_context, messages, state), recent=_recent(store, session_id)
    )


def _recent(store: LogStore, session_id: str) -> list[ReplyCost]:
    rows = store.read(session_id, kinds=_COUNTED, limit=RECENT, newest_first=True)
    found: list[ReplyCost] = []
    for stored, event in decode_events(store, reversed(rows)):
        match event:
            case e.AssistantReplied(usage=usage, model=model):
                kind = "reply"
            case e.ReplyInterrupted(usage=usage, model=model):
                kind = "interrupted"
            case e.Compacted(usage=usage, model=model):
                kind = "compaction"
            case _:
                continue
        found.append(ReplyCost(seq=stored.seq, at=stored.at, kind=kind, turn=stored.turn, model=model, usage=usage))
    return found
