"""Compacting a session that no agent drives: by its library object, without a model, under a lease of one commit."""

from __future__ import annotations

import secrets

import msgspec

from outlast.core.events import Compacted
from outlast.core.ids import id_from
from outlast.core.state import SessionState
from outlast.runtime.compaction import CompactionSettings, compacted_event, due, structural
from outlast.store.host import holder
from outlast.store.port import Append, Claim, Lease, NewEvent, Release, Store
from outlast.store.reading import decoded


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """The last compaction of a session; `count` is how many there were."""

    count: int
    removed_message_count: int
    summary: str
    tokens_before: int
    tokens_after: int


def last_compaction(store: Store, session_id: str, state: SessionState) -> Compaction | None:
    """What the last compaction did; None when there was none."""
    counters = state.compactions
    if not counters.last_seq:
        return None
    stored = store.read(session_id, after=counters.last_seq - 1, before=counters.last_seq + 1)
    [(_, event)] = decoded(store, stored)
    if not isinstance(event, Compacted):
        return None
    return Compaction(
        count=counters.count,
        removed_message_count=int(event.facts.get("dropped", 0)),
        summary=event.summary,
        tokens_before=event.tokens_before,
        tokens_after=event.tokens_after,
    )


def compact_if_due(
    store: Store, session_id: str, state: SessionState, settings: CompactionSettings, actor: str
) -> bool:
    """Compact if the window is past the threshold. `SessionBusy` when somebody drives the session, `ConflictError` when
    it moved on meanwhile: nothing was written then."""
    rows = decoded(store, store.read(session_id, after=state.read_from - 1, before=state.last_seq + 1))
    plan = due(rows, state, settings)
    if plan is None:
        return False
    lease = Lease(session_id, 0, id_from(secrets.token_bytes(16)))
    event = NewEvent(event=compacted_event(plan, structural(plan)), actor=actor)
    store.commit(
        Claim(session_id=session_id, token=lease.token, holder=holder()),
        Append(session_id=session_id, events=(event,), lease=lease, expect=state.last_seq),
        Release(lease=lease),
    )
    return True
