"""Trust in imported sessions: an imported log grants no permissions and causes no effects on this machine.

The hash chain proves that a file is complete, not who wrote it. So imported events are history only: grants and answers
are dropped and the user is asked again, started calls are checked again, and requests are not carried out. Events that
were written here after the import count as usual.
"""

from __future__ import annotations

from outlast.core.events import EffectClass
from outlast.core.state import SessionState
from outlast.store.port import Store
from outlast.store.read.decode import load_state

GRANTING = ("grants", "restoring")
"""Names in the runtime state that hold permissions, or files that are about to be written."""


def trusted_state(store: Store, session_id: str) -> SessionState:
    """Return the folded state that a driver may act on."""
    state = load_state(store, session_id)
    imported = store.head(session_id).imported_seq
    if imported:
        strip_imported_grants(state, imported)
    return state


def strip_imported_grants(state: SessionState, upto: int) -> None:
    """Remove from the state, in place, every permission and open effect that comes from events up to `upto`."""
    for name in GRANTING:
        if name in state.runtime and state.runtime_at.get(name, 0) <= upto:
            state.runtime = {key: value for key, value in state.runtime.items() if key != name}
    state.approvals = [found for found in state.approvals if found.seq > upto]
    state.requests = [request for request in state.requests if request.seq > upto]
    for call in state.open_calls:
        # A started read or verifiable write would resume as permitted before, but no user here has permitted it.
        if call.requested_seq and 0 < call.started_seq <= upto and call.effect is not EffectClass.OTHER:
            call.started_seq = 0
