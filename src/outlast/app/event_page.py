"""The events of a session in pages that are bounded in number and in size."""

from __future__ import annotations

import msgspec

from outlast.app.feed import body_json
from outlast.core.log import StoredEvent
from outlast.store.log_store import LogStore

STEP = 64
MOST_BYTES = 8 * 1024 * 1024


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Rows with their bodies as JSON; `next_after` leads to the next page, None when this is the last one."""

    rows: list[tuple[StoredEvent, msgspec.Raw]]
    next_after: int | None


def event_page(
    store: LogStore,
    session_id: str,
    *,
    after: int = 0,
    before: int | None = None,
    limit: int = 200,
    kinds: frozenset[str] | None = None,
) -> EventPage:
    """Events with `after < seq < before`, oldest first. At least one, if there is one, however large it is."""
    rows: list[tuple[StoredEvent, msgspec.Raw]] = []
    size = 0
    while True:
        found = store.read(session_id, after=after, before=before, limit=STEP, kinds=kinds)
        for stored in found:
            if rows and (len(rows) == limit or size > MOST_BYTES):
                return EventPage(rows=rows, next_after=rows[-1][0].seq)
            body = body_json(store, stored)
            rows.append((stored, body))
            size += len(bytes(body))
        if len(found) < STEP:
            return EventPage(rows=rows, next_after=None)
        after = found[-1].seq
