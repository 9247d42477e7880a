"""What waits for the user's answer: in a session, and in the sub-agents at work below it, however deep."""

from __future__ import annotations

from outlast.core.errors import SessionNotFound
from outlast.core.state import Approval, SessionState
from outlast.runtime.delegation import child_of
from outlast.store.log_store import LogStore
from outlast.store.reading import folded_state

TASK = "task"


def waiting(store: LogStore, session_id: str, state: SessionState) -> list[tuple[str, Approval]]:
    """Each with the session that asks; its own first."""
    found = [(session_id, one) for one in state.open_approvals]
    for call in state.open_calls:
        if call.name == TASK and call.started_seq:
            found += _below(store, child_of(session_id, call.requested_seq, call.call_id))
    return found


def _below(store: LogStore, child: str) -> list[tuple[str, Approval]]:
    try:
        tip = store.tip(child)
        return waiting(store, tip, folded_state(store, tip))
    except SessionNotFound:
        return []  # the call is in the log before the session that it begins
