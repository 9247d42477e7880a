"""Trust in imported sessions: an imported log grants no permissions and causes no effects on this machine.

The hash chain proves that a file is complete, not who wrote it. So imported events are history only: grants and answers
are dropped and the user is asked again, started calls are checked again, and requests are not carried out. The file
chooses neither the model nor the system prompt nor the folder: the session belongs to the folder in which a user
continues it here. Events that were written here after the import count as usual.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from outlast.core.events import EffectClass, ModelChanged
from outlast.core.header import Header
from outlast.core.state import SessionState
from outlast.runtime.prompt.project_identity import project_key
from outlast.store.port import Store
from outlast.store.read.decode import decode_events, load_state

GRANTING = ("grants", "restoring")
"""Names in the runtime state that hold permissions, or files that are about to be written."""
PINNING = ("prompt_key", "prompt_memory", "memory_files", "dialect")
"""Names in the runtime state that let a session keep its recorded system prompt, and its dialect of tool calls."""
BOUND = "bound_project"
"""Name in the runtime state: the folder in which a user continued an imported session."""


def trusted_state(store: Store, session_id: str) -> SessionState:
    """Return the folded state that a driver may act on."""
    state = load_state(store, session_id)
    imported = store.head(session_id).imported_seq
    if imported:
        strip_imported_grants(state, imported)
        state.model = _model_chosen_here(store, session_id, imported)
    return state


def _model_chosen_here(store: Store, session_id: str, imported: int) -> str | None:
    rows = store.read(session_id, after=imported, kinds=frozenset({"ModelChanged"}), limit=1, newest_first=True)
    return next((event.model for _, event in decode_events(store, rows) if isinstance(event, ModelChanged)), None)


def trusted_header(header: Header, state: SessionState) -> Header:
    """Return the header that a driver may act on: an imported session has the project of its file nowhere here."""
    if not header.imported_seq:
        return header
    bound = state.runtime.get(BOUND) if state.runtime_at.get(BOUND, 0) > header.imported_seq else None
    root = bound if isinstance(bound, str) else None
    key = project_key(Path(root)) if root is not None else None
    return msgspec.structs.replace(header, project_root=root, project_key=key, project_fingerprint=None)


def strip_imported_grants(state: SessionState, upto: int) -> None:
    """Remove from the state, in place, every permission and open effect that comes from events up to `upto`, and the
    claim that their system prompt is the session's."""
    for name in (*GRANTING, *PINNING):
        if name in state.runtime and state.runtime_at.get(name, 0) <= upto:
            state.runtime = {key: value for key, value in state.runtime.items() if key != name}
    state.approvals = [found for found in state.approvals if found.seq > upto]
    state.requests = [request for request in state.requests if request.seq > upto]
    for call in state.open_calls:
        # A started read or verifiable write would resume as permitted before, but no user here has permitted it.
        if call.requested_seq and 0 < call.started_seq <= upto and call.effect is not EffectClass.OTHER:
            call.started_seq = 0
