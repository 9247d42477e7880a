"""Encodes what a follower has not seen as frames of a server-sent event stream."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from outlast.app.streams.cursor import DraftChunk, StreamCursor, Unseen
from outlast.app.streams.event_feed import body_json
from outlast.core.event_row import StoredEvent
from outlast.store.port import Store

HEARTBEAT = b": heartbeat\n\n"
TEXT = "text"


class Frame(msgspec.Struct, frozen=True):
    """One frame as sent, and the cursor of a follower that has seen it. `attempt` is 0 for an event."""

    cursor: StreamCursor
    data: bytes
    attempt: int = 0
    is_last: bool = False


def frames_of(store: Store, session_id: str, unseen: Unseen, *, whole: bool = False) -> list[Frame]:
    """Frames for everything in `unseen`. With `whole`, a draft the follower has seen nothing of is one frame."""
    frames = [event_frame(store, stored, session_id) for stored in unseen.events]
    if whole and unseen.drafts and unseen.drafts[0].n == 1:
        frames.append(whole_draft_frame(unseen.drafts))
    else:
        frames += map(draft_frame, unseen.drafts)
    return frames


def event_frame(store: Store, stored: StoredEvent, session_id: str) -> Frame:
    """`is_last` only for the session's own rotation: a fork also replays that of its base session."""
    data = msgspec.json.encode(
        {"seq": stored.seq, "kind": stored.kind, "at": stored.at, "turn": stored.turn, "body": body_json(store, stored)}
    )
    kind = stored.kind if stored.kind.isidentifier() else "unknown"
    is_last = stored.kind == "SessionRotated" and stored.session_id == session_id
    return Frame(StreamCursor(stored.seq), sse(kind, data, str(stored.seq)), is_last=is_last)


def draft_frame(draft: DraftChunk) -> Frame:
    return _delta(draft, {"attempt": draft.attempt_seq, "n": draft.n, "part": draft.part, "text": draft.text})


def whole_draft_frame(drafts: list[DraftChunk]) -> Frame:
    """One frame with the whole draft so far; it replaces what the client has of the draft. `text` is the reply's text;
    reasoning and calls are in `parts`."""
    parts: list[dict[str, str]] = []
    for draft in drafts:
        if parts and parts[-1]["part"] == draft.part:
            parts[-1]["text"] += draft.text
        else:
            parts.append({"part": draft.part, "text": draft.text})
    text = "".join(part["text"] for part in parts if part["part"] == TEXT)
    last = drafts[-1]
    data = {"attempt": last.attempt_seq, "n": last.n, "part": TEXT, "text": text, "replace": True, "parts": parts}
    return _delta(last, data)


def resync_frame(last_seq: int) -> Frame:
    return Frame(StreamCursor(last_seq), sse("resync", msgspec.json.encode({"last_seq": last_seq})))


def sse(event: str, data: bytes, cursor: str | None = None) -> bytes:
    name = f"id: {cursor}\nevent: {event}\ndata: " if cursor is not None else f"event: {event}\ndata: "
    return b"".join((name.encode(), data, b"\n\n"))


def _delta(last: DraftChunk, data: Mapping[str, object]) -> Frame:
    cursor = StreamCursor(last.after_seq, last.n)
    return Frame(cursor, sse("delta", msgspec.json.encode(data), f"{cursor.seq}:{cursor.n}"), last.attempt_seq)
