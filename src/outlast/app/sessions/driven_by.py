"""Which other process drives a session right now."""

from __future__ import annotations

from outlast.store.port import Store
from outlast.store.process_identity import holder, holder_is_gone, holder_pid


def driven_by(store: Store, session_id: str) -> str | None:
    """The process that drives the session, in words; None when no other living process does."""
    held = store.holder(session_id)
    if held is None or held.expired or holder_is_gone(held.holder) or held.holder == holder():
        return None
    return holder_pid(held.holder)
