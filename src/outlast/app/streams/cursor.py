"""Cursors and positions of a session's followers.

A cursor names the last frame a follower has seen: `<seq>` is an event, `<seq>:<n>` is chunk n of the reply being
written after event seq. A position also knows which attempt the chunk belongs to, so it can tell new chunks from chunks
the follower has seen.
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
    """Everything up to event `seq`, and the first `n` chunks of the draft that is open after it. Cursors of one session
    are ordered."""

    seq: int
    n: int = 0


BEGINNING = StreamCursor(0)


def cursor_from(text: str) -> StreamCursor:
    """Parse the cursor in a Last-Event-ID; raises `InvalidInput` if the text is not a cursor."""
    found = _CURSOR.fullmatch(text.strip())
    if found is None or int(found[1]) > SEQ_LIMIT:
        raise InvalidInput(
            "invalid cursor: send the id of the last frame you received, such as 12 or 12:3, or 0 for all"
        )
    return StreamCursor(int(found[1]), int(found[2] or 0))


class DraftChunk(msgspec.Struct, frozen=True, kw_only=True):
    """The next chunk of the reply being written. `part` is text, reasoning or call:INDEX:NAME."""

    attempt_seq: int
    after_seq: int
    n: int
    part: str
    text: str


class Unseen(msgspec.Struct, frozen=True):
    """The events and draft chunks of a batch that the follower has not seen."""

    events: list[StoredEvent]
    drafts: list[DraftChunk]


class FollowerPosition:
    """What a follower has seen: everything up to `cursor.seq`, and the first `n` chunks of an attempt.

    A cursor does not name its attempt: the position only knows that the attempt began no later than the cursor's seq.
    """

    def __init__(self, cursor: StreamCursor) -> None:
        self.cursor = cursor
        self._attempt, self._n = (cursor.seq, cursor.n) if cursor.n else (0, 0)

    def has(self, attempt: int, n: int) -> bool:
        return attempt <= self._attempt and n <= self._n

    def move(self, cursor: StreamCursor, attempt: int = 0) -> None:
        """Record that the follower has seen the frame at this cursor; `attempt` is 0 for an event."""
        self.cursor = cursor
        if attempt:
            self._attempt, self._n = attempt, cursor.n

    def take(self, batch: Batch) -> Unseen:
        """Return what is new in the batch, and mark it as seen. A batch with events repeats the chunks of the open
        draft."""
        if batch.events:
            self.move(StreamCursor(batch.events[-1].seq))
        at = self.cursor.seq
        drafts = [_draft(at, chunk) for chunk in batch.chunks if not self.has(chunk.attempt_seq, chunk.n)]
        if drafts:
            self.move(StreamCursor(at, drafts[-1].n), drafts[-1].attempt_seq)
        return Unseen(batch.events, drafts)


def _draft(at: int, chunk: Chunk) -> DraftChunk:
    text = chunk.data.decode("utf-8", "replace")  # a chunk may split a character; the closing event has the exact text
    return DraftChunk(attempt_seq=chunk.attempt_seq, after_seq=at, n=chunk.n, part=chunk.part, text=text)
