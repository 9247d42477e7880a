"""Live feed of a session: every durable event and every chunk of a reply, in order, from any process.

The terminal and `stream-json` are both built on it, so a client sees the same whether it drives the session or only
follows it. A draft chunk is reported after it is committed; the event that closes the attempt replaces the draft.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from outlast.app.streams.cursor import DraftChunk, FollowerPosition, StreamCursor, Unseen
from outlast.core import codec
from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.fold import Row
from outlast.store.engine.encode import PLAIN, event_of, plain_body
from outlast.store.port import Store
from outlast.store.read.decode import decode_events


class EventStored(msgspec.Struct, frozen=True):
    """An event that is now in the log."""

    stored: StoredEvent
    event: e.Event | e.Opaque


class CaughtUp(msgspec.Struct, frozen=True):
    """Everything stored up to this event has been reported; what follows is new."""

    seq: int


async def follow_unseen(store: Store, session_id: str, seen: FollowerPosition) -> AsyncIterator[Unseen]:
    """Yield what the follower has not seen, undecoded: stored events first, then live ones, until the session is
    deleted or rotated. Moves `seen` forward."""
    async for batch in store.follow_async(session_id, after=seen.cursor.seq):
        yield seen.take(batch)


async def feed(store: Store, session_id: str, *, after: int = 0) -> AsyncIterator[EventStored | DraftChunk | CaughtUp]:
    """Yield everything after event `after`, then live events, until the caller stops or the session is deleted."""
    seen = FollowerPosition(StreamCursor(after))
    async for unseen in follow_unseen(store, session_id, seen):
        for stored, event in await asyncio.to_thread(decode_events, store, unseen.events):
            yield EventStored(stored, event)
        for draft in unseen.drafts:
            yield draft
        yield CaughtUp(seen.cursor.seq)


def rows_of(store: Store, session_id: str, *, after: int = 0, before: int | None = None) -> list[Row]:
    """The stored events in this range, decoded."""
    return decode_events(store, store.read(session_id, after=after, before=before))


def body_json(store: Store, stored: StoredEvent) -> msgspec.Raw:
    """The body of an event as JSON for clients, upgraded to the current version, with all texts included. Invalid
    Unicode is `{"$b64": ...}`, bytes are `{"$bytes": ...}`. A redacted or unreadable body is null; the body of an
    unknown kind is returned as it was written."""
    if stored.redacted:
        return msgspec.Raw(b"null")
    current = codec.VERSIONS.get(stored.kind) == stored.v
    if current and stored.enc == PLAIN and b'"$' not in stored.body:
        return msgspec.Raw(stored.body)
    event = event_of(stored, lambda name: store.blob(stored.session_id, name))
    if isinstance(event, e.Event):
        return msgspec.Raw(codec.to_json(event))
    try:
        body = plain_body(stored)
        msgspec.json.decode(body)
    except (ValueError, msgspec.DecodeError):
        return msgspec.Raw(b"null")
    return msgspec.Raw(body)
