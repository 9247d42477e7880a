"""Recall: shows an agent the originals of its own session, also those behind a compaction or a clear.

It reads the log of one session with the history that the session inherited from a fork or a rotation, never another
session. Rewound events are not part of the session and are not shown; redacted text stays redacted. A search reads the
newest events first and is bounded in time and in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.fold import Row
from outlast.core.messages import FilePart, ImagePart, Message, TextPart, ToolCall, ToolResult
from outlast.core.state import SessionState
from outlast.core.text import shortened, visible_line
from outlast.core.transcript import message_of
from outlast.runtime.tools.port import ToolFault, ToolOutcome
from outlast.store.port import Store
from outlast.store.read.decode import decode_events

RECALL = "recall"
PAGE_CHARACTERS = 16_000
MOST_HITS = 20
SEARCH_SECONDS = 2.0
SEARCHED_CHARACTERS = 2_000_000
"""Of one event; the rest of a longer text is not searched."""
ROWS_AT_ONCE = 64
AROUND = 100
_SEARCHED = frozenset({"MessageAppended", "InputAdmitted", "AssistantReplied", "ReplyInterrupted", "ToolCallFinished"})


class SessionRecall:
    """The events of one session as its state sees them now."""

    def __init__(self, store: Store, session_id: str, state: SessionState) -> None:
        self._store = store
        self._session_id = session_id
        self._view = state.view
        self._reads = tuple(state.reads)
        self._last = state.last_seq

    def answer(self, query: str | None, seq: int | None, offset: int) -> ToolOutcome:
        """Return the event `seq` from character `offset` on, or the events that match `query` (older than `seq`, if
        both are given). Raises `ToolFault` if there is no such event."""
        if query is not None:
            return self._found(query, self._last + 1 if seq is None else min(seq, self._last + 1))
        return self._shown(seq or 0, offset)

    # --- one event

    def _shown(self, seq: int, offset: int) -> ToolOutcome:
        stored, event = self._row(seq)
        message = message_of(stored, event)
        if stored.redacted:
            raise ToolFault(f"event {seq} was redacted; its text is gone")
        if message is None:
            raise ToolFault(f"event {seq} ({stored.kind}) holds no text; search with a query for the one you mean")
        text = _text(message)
        if offset and offset >= len(text):
            raise ToolFault(f"event {seq} has {len(text)} characters; give a smaller offset")
        page = text[offset : offset + PAGE_CHARACTERS]
        end = offset + len(page)
        attached = _attachments(message) if not offset else ()
        return ToolOutcome(
            text=f"[{_title(stored, event)}{_extent(seq, offset, end, len(text))}{_whole(event)}]\n{page}",
            attachments=attached,
            facts={"seq": seq, "offset": offset, "characters": len(page)},
        )

    def _row(self, seq: int) -> Row:
        if not 1 <= seq <= self._last:
            raise ToolFault(f"this session has events 1 to {self._last}; there is no event {seq}")
        row = decode_events(self._store, self._store.read(self._session_id, after=seq - 1, before=seq + 1))
        if not row:
            raise ToolFault(f"event {seq} cannot be read here; search with a query for another one")
        if self._is_rewound(row[0][0]):
            raise ToolFault(f"event {seq} was rewound and is no longer part of this session")
        return row[0]

    def _is_rewound(self, stored: StoredEvent) -> bool:
        """An input is part of the session as long as one of the turns that read it is."""
        read_at = [place for seq, place in self._reads if seq == stored.seq] if stored.kind == "InputAdmitted" else []
        return all(self._view.hides(place) for place in read_at or [stored.seq])

    # --- search

    def _found(self, query: str, before: int) -> ToolOutcome:
        words = query.casefold().split()
        deadline = time.monotonic() + SEARCH_SECONDS
        hits: list[str] = []
        stopped = 0
        for stored, event in self._rows(before):
            if len(hits) >= MOST_HITS or time.monotonic() > deadline:
                stopped = stored.seq + 1
                break
            excerpt = _excerpt(stored, event, words)
            if excerpt is not None:
                hits.append(f"{_title(stored, event)}: {excerpt}")
        more = f"The search stopped here: recall(query, seq={stopped}) searches older events." if stopped else ""
        none = "" if hits else f"No event of this session holds all of: {visible_line(query, 200)}"
        lines = (*hits, none, more)
        return ToolOutcome(text="\n".join(line for line in lines if line), facts={"hits": len(hits)})

    def _rows(self, before: int) -> Iterator[Row]:
        while True:
            page = self._store.read(
                self._session_id, before=before, limit=ROWS_AT_ONCE, kinds=_SEARCHED, newest_first=True
            )
            for stored in page:
                if not stored.redacted and not self._is_rewound(stored):
                    yield from decode_events(self._store, [stored])
            if len(page) < ROWS_AT_ONCE:
                return
            before = page[-1].seq


def _excerpt(stored: StoredEvent, event: e.Event | e.Opaque, words: list[str]) -> str | None:
    """Return the text around the first word if the event holds all words; None otherwise. What `recall` itself
    answered before is left out."""
    message = message_of(stored, event)
    if message is None or (isinstance(event, e.ToolCallFinished) and event.name == RECALL):
        return None
    text = _text(message, without=RECALL)[:SEARCHED_CHARACTERS]
    folded = text.casefold()
    if not all(word in folded for word in words):
        return None
    phrase = folded.find(" ".join(words))
    place = phrase if phrase >= 0 else folded.find(words[0])
    start = max(0, place - AROUND)
    return shortened(("…" if start else "") + visible_line(text[start : place + 2 * AROUND], 4 * AROUND), 4 * AROUND)


def _text(message: Message, without: str | None = None) -> str:
    """Return all text of a message; calls, except those of the tool `without`, as one line each."""
    texts: list[str] = []
    for part in message.parts:
        match part:
            case TextPart(text=text):
                texts.append(text)
            case ToolResult(content=content):
                texts.append(content)
            case ToolCall() if part.name != without:
                texts.append(f"[called {part.name} with {_arguments(part)}]")
            case _:
                pass
    return "\n".join(texts) if len(texts) > 1 else "".join(texts)


def _arguments(call: ToolCall) -> str:
    if call.raw is not None:
        return call.raw
    try:
        return msgspec.json.encode(call.arguments).decode()
    except (TypeError, UnicodeEncodeError, msgspec.EncodeError):
        return repr(call.arguments)


def _attachments(message: Message) -> tuple[ImagePart | FilePart, ...]:
    return tuple(part for part in message.parts if isinstance(part, ImagePart | FilePart))


def _title(stored: StoredEvent, event: e.Event | e.Opaque) -> str:
    at = datetime.fromtimestamp(stored.at / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M")
    match event:
        case e.ToolCallFinished(name=name, is_error=failed):
            what = f"{'error' if failed else 'result'} of {visible_line(name, 64)}"
        case e.InputAdmitted():
            what = "user"
        case e.MessageAppended(role=role):
            what = str(role)
        case e.AssistantReplied() | e.ReplyInterrupted():
            what = "assistant"
        case _:
            what = stored.kind
    return f"event {stored.seq}, {what}, {at} UTC"


def _extent(seq: int, offset: int, end: int, length: int) -> str:
    if not offset and end == length:
        return ""
    more = f"; recall(seq={seq}, offset={end}) shows the next part" if end < length else "; the last part"
    return f", characters {offset} to {end} of {length}{more}"


def _whole(event: e.Event | e.Opaque) -> str:
    """Name the way to the whole output of a call whose result is an excerpt."""
    if isinstance(event, e.ToolCallFinished) and event.facts.get("whole") is not None:
        return f"; an excerpt: read output:{event.call_id} shows the whole output"
    return ""
