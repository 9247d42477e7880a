"""Deletes a session permanently; a receipt remains.

One commit removes events, drafts, blobs, snapshots and routes; then the session is removed from the caches (search
index, statistics). Events that forks depend on stay, hidden, until the last of those forks is deleted.
"""

from __future__ import annotations

import msgspec

from outlast.app.sessions import search, statistics
from outlast.app.settings import Settings
from outlast.core.header import Header
from outlast.runtime.service import SessionService
from outlast.store.log_store import LogStore
from outlast.store.port import Query


class DeletionReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The tombstone: which session, when and by whom it was deleted, and the hash of its log."""

    session_id: str
    deleted_at: int
    deleted_by: str
    last_seq: int
    head_hash: str
    kept_for_forks: int
    """How many forks still depend on its events."""


def forks_of(store: LogStore, session_id: str) -> list[Header]:
    """The living sessions based directly on this one's events."""
    owner = store.head(session_id).owner_id
    return store.find(Query(owner_id=owner, base_id=session_id, limit=1000)).headers


def delete(
    url: str | None,
    store: LogStore,
    session_id: str,
    *,
    door: str,
    with_forks: bool = False,
    settings: Settings | None = None,
) -> list[DeletionReceipt]:
    """Delete a session, with `with_forks` also the sessions based on it; one receipt each. `settings` locate the
    statistics cache; without them the settings of this process do."""
    names = [session_id]
    for name in names if with_forks else ():
        names += [header.session_id for header in forks_of(store, name)]
    left = 0 if with_forks else len(forks_of(store, session_id))
    SessionService(store, door).delete(session_id, with_forks=with_forks)
    search.forget(store)
    cache = statistics.cache_of(settings) if settings is not None else statistics.cache_file(url)
    for name in names:
        statistics.forget_at(cache, name)
    return [_receipt(store, name, left) for name in names]


def _receipt(store: LogStore, session_id: str, left: int) -> DeletionReceipt:
    with store.inspect() as view:
        row = view.header(session_id)
    assert row is not None
    assert row.deleted_at is not None
    return DeletionReceipt(
        session_id=session_id,
        deleted_at=row.deleted_at,
        deleted_by=row.deleted_by or "",
        last_seq=row.last_seq,
        head_hash=row.head_hash.hex(),
        kept_for_forks=left,
    )
