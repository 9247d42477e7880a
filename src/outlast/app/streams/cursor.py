"""Where a follower of a session stands.

A cursor is the last thing that a follower has seen: `<seq>` an event, `<seq>:<n>` piece n of the reply that is being
written behind event seq. A position also knows which attempt the piece belongs to, so it tells new pieces from old.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from outlast.core.errors import InvalidInput
from outlast.core.event_row import StoredEvent
from outlast.store.port import Batch, Chunk

SEQ_LIMIT = 2**53

_CURSOR = re.compile(r"(0|[1-9][0-9]{0,15})(?::([1-9][0-9]{0,15}))?", re.ASCII)


class StreamCursor(NamedTuple):
    """Everything up to event `seq`, and the first `n` pieces of the draft that is open behind it. Cursors of one
    session are ordered."""

    seq: int
    n: int = 0


BEGINNING = StreamCursor(0)


def cursor_from(text: str) -> StreamCursor:
    """The cursor in a Last-Event-ID; `InvalidInput` when it is none."""
    found = _CURSOR.fullmatch(text.strip())
    if found is None or int(found[1]) > SEQ_LIMIT:
        raise InvalidInput("that is no cursor: it is the id of the last frame you saw, like 12 or 12:3, or 0 for all")
    return StreamCursor(int(found[1]), int(found[2] or 0))


class DraftChunk(msgspec.Struct, frozen=True, kw_only=True):
    """The next piece of the reply that is being written. `part` is text, reasoning or call:INDEX:NAME."""

    attempt_seq: int
    after_seq: int
    n: int
    part: str
    text: str


class Unseen(msgspec.Struct, frozen=True):
    """What a batch holds that its follower has not seen."""

    events: list[StoredEvent]
    drafts: list[DraftChunk]


class FollowerPosition:
    """What a follower has: everything up to `cursor.seq`, and the first `n` pieces of an attempt.

    Of the attempt that a cursor came with, the position knows only that it had begun by then.
    """

    def __init__(self, cursor: StreamCursor) -> None:
        self.cursor = cursor
        self._attempt, self._n = (cursor.seq, cursor.n) if cursor.n else (0, 0)

    def has(self, attempt: int, n: int) -> bool:
        return attempt <= self._attempt and n <= self._n

    def move(self, cursor: StreamCursor, attempt: int = 0) -> None:
        """The follower has seen this cursor's frame; `attempt` is 0 for an event."""
        self.cursor = cursor
        if attempt:
            self._attempt, self._n = attempt, cursor.n

    def take(self, batch: Batch) -> Unseen:
        """What is new in the batch; the follower has seen it from now on. Events come with the open draft once more."""
        if batch.events:
            self.move(StreamCursor(batch.events[-1].seq))
        at = self.cursor.seq
        drafts = [_draft(at, chunk) for chunk in batch.chunks if not self.has(chunk.attempt_seq, chunk.n)]
        if drafts:
            self.move(StreamCursor(at, drafts[-1].n), drafts[-1].attempt_seq)
        return Unseen(batch.events, drafts)


def _draft(at: int, chunk: Chunk) -> DraftChunk:
    text = chunk.data.decode("utf-8", "replace")  # half a character: the closing event will have it as it is
    return DraftChunk(attempt_seq=chunk.attempt_seq, after_seq=at, n=chunk.n, part=chunk.part, text=text)
