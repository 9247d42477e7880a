"""What a log from a file may not do: give rights, or have effects that nobody here has asked for.

The hash chain tells whether a file is whole, not who wrote it. So of an imported session everything is history: grants
and answers are asked for again, calls that were begun are judged anew, and nothing that it has requested is carried
out. What was written here afterwards counts as ever.
"""

from __future__ import annotations

from outlast.core.events import EffectClass
from outlast.core.state import SessionState
from outlast.store.port import Store
from outlast.store.read.decode import load_state

GRANTING = ("grants", "restoring")
"""Of the runtime state: permissions, and files that are about to be written."""


def trusted_state(store: Store, session_id: str) -> SessionState:
    """The folded state that a driver may act on."""
    state = load_state(store, session_id)
    imported = store.head(session_id).imported_seq
    if imported:
        strip_imported_grants(state, imported)
    return state


def strip_imported_grants(state: SessionState, upto: int) -> None:
    """Take from a state, in place, every right and every open effect that events up to `upto` gave it."""
    for name in GRANTING:
        if name in state.runtime and state.runtime_at.get(name, 0) <= upto:
            state.runtime = {key: value for key, value in state.runtime.items() if key != name}
    state.approvals = [found for found in state.approvals if found.seq > upto]
    state.requests = [request for request in state.requests if request.seq > upto]
    for call in state.open_calls:
        # Running a read or a verifiable write once more needs no question, if it was permitted before: here it was not.
        if call.requested_seq and 0 < call.started_seq <= upto and call.effect is not EffectClass.OTHER:
            call.started_seq = 0
