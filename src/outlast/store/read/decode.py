"""Decodes rows into events, with their blobs, and loads a session's folded state from its newest snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from outlast.core.codec import BlobReader
from outlast.core.errors import StoreUnavailable
from outlast.core.event_row import StoredEvent
from outlast.core.fold import Row, fold
from outlast.core.state import FOLD_VERSION, SessionState, state_from_bytes, state_to_bytes
from outlast.store.engine.encode import event_of, plain_event
from outlast.store.port import PutSnapshot, Store

SNAPSHOT_EVERY = 1_000
FOLD_PAGE = 512


def decode_events(store: Store, rows: Iterable[StoredEvent]) -> list[Row]:
    """Each row with its event; texts stored in blobs are loaded."""
    return [(stored, plain_event(stored) or event_of(stored, blobs_of(store, stored))) for stored in rows]


def decode_without_blobs(rows: Iterable[StoredEvent]) -> list[Row]:
    """Each row with its event, where every text stored in a blob is empty: to choose rows by their other fields."""
    return [(stored, plain_event(stored) or event_of(stored, lambda _: b"")) for stored in rows]


def blobs_of(store: Store, stored: StoredEvent) -> BlobReader:
    return lambda sha256: store.blob(stored.session_id, sha256)


def load_state(store: Store, session_id: str, *, upto: int | None = None) -> SessionState:
    """The state after event `upto` (default: the head), folded from the newest usable snapshot.

    Stores a new snapshot after folding many events; a store that cannot take it now loses nothing.
    """
    head = store.head(session_id).last_seq
    last = head if upto is None else min(upto, head)
    snapshot = store.snapshot(session_id, at_most=last)
    state = None
    if snapshot is not None and snapshot.fold_version == FOLD_VERSION:
        state = state_from_bytes(snapshot.state)
    state = state or SessionState()
    began = state.last_seq
    while state.last_seq < last:
        page = store.read(session_id, after=state.last_seq, before=last + 1, limit=FOLD_PAGE)
        for stored, event in decode_events(store, page):
            fold(state, stored, event)
    if state.last_seq - began >= SNAPSHOT_EVERY:
        _leave_snapshot(store, session_id, state)
    return state


def _leave_snapshot(store: Store, session_id: str, state: SessionState) -> None:
    data = state_to_bytes(state)
    try:
        store.commit(PutSnapshot(session_id=session_id, seq=state.last_seq, fold_version=FOLD_VERSION, state=data))
    except StoreUnavailable:
        return  # only a cache: a full or read-only disk must not prevent reading
