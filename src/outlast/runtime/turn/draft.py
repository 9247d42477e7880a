"""The draft of a reply: its pieces so far, stored before any follower of the session sees them.

A draft is append-only chunks, flushed every 100 ms or 2 KiB; the commit that closes the attempt deletes them. After a
crash they hold what arrived of the interrupted reply, and they are the proof that its first byte had arrived: so the
first flush comes sooner, and the second one as much later. A draft is never shown as an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from outlast.core.messages import Part, ReasoningPart, TextPart
from outlast.models.port import CallDelta, ReasoningDelta, TextDelta
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.store.port import Chunk, PutChunk, Store

FLUSH_SECONDS = 0.1
FIRST_FLUSH_SECONDS = 0.02
FLUSH_BYTES = 2048
TEXT, REASONING, CALL = "text", "reasoning", "call"


class ReplyDraft:
    """The chunks of one attempt. A background task flushes them while the reply streams; `stop` ends that task."""

    def __init__(self, driver: Driver, attempt_seq: int) -> None:
        self.driver = driver
        self.attempt_seq = attempt_seq
        self.pieces: list[tuple[str, str]] = []
        self._flushed = 0
        self._waiting = 0
        self._n = 0
        self._flushing = asyncio.Lock()
        self._timer: asyncio.Task[None] | None = None

    async def add(self, delta: TextDelta | ReasoningDelta | CallDelta) -> None:
        self.pieces.append((_part_of(delta), delta.text))
        self._waiting += len(delta.text)
        if self._timer is None:
            self._timer = asyncio.create_task(self._flush_later())
        turn = self.driver.state.turn
        is_suspect = not self._flushed and turn is not None and turn.recoveries > 0
        if self._waiting >= FLUSH_BYTES or is_suspect:  # what follows may kill this process, as it killed the last one
            await self.flush()

    async def flush(self) -> None:
        """Store the pieces added so far; they are durable on return."""
        async with self._flushing:
            new, self._flushed, self._waiting = self.pieces[self._flushed :], len(self.pieces), 0
            if not new or self.driver.lease is None:
                return
            chunks: list[PutChunk] = []
            for part, text in _joined(new):
                self._n += 1
                data = text.encode("utf-8", "surrogatepass")
                chunks.append(
                    PutChunk(lease=self.driver.lease, attempt_seq=self.attempt_seq, n=self._n, part=part, data=data)
                )
            news = self.driver.driven.news(self.driver.state)
            if news:
                await self.driver.write(*news, also=tuple(chunks))
            else:
                await self.driver.put(*chunks)
            reach("draft.flushed")

    async def _flush_later(self) -> None:
        await asyncio.sleep(FIRST_FLUSH_SECONDS)
        await self.flush()
        await asyncio.sleep(FLUSH_SECONDS - FIRST_FLUSH_SECONDS)
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush()

    async def stop(self) -> None:
        """Stop the background flush. Raises its error, because a draft that cannot be stored is a store failure."""
        if self._timer is not None:
            self._timer.cancel()
            results = await asyncio.gather(self._timer, return_exceptions=True)
            self._timer = None
            if isinstance(results[0], Exception):
                raise results[0]

    def parts(self) -> tuple[Part, ...]:
        return parts_of(self.pieces)


def _part_of(delta: TextDelta | ReasoningDelta | CallDelta) -> str:
    match delta:
        case TextDelta():
            return TEXT
        case ReasoningDelta():
            return REASONING
        case CallDelta(index=index, name=name):
            return f"{CALL}:{index}:{name}"


def _joined(pieces: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join adjacent pieces of the same part."""
    joined: list[tuple[str, str]] = []
    for part, text in pieces:
        if joined and joined[-1][0] == part:
            joined[-1] = (part, joined[-1][1] + text)
        else:
            joined.append((part, text))
    return joined


def parts_of(pieces: Iterable[tuple[str, str]]) -> tuple[Part, ...]:
    """Build the parts of an incomplete reply, without tool calls: the model never finished requesting them."""
    parts: list[Part] = []
    for part, text in _joined(piece for piece in pieces if not piece[0].startswith(CALL)):
        parts.append(ReasoningPart(text=text) if part == REASONING else TextPart(text))
    return tuple(parts)


class StoredDraft(NamedTuple):
    """What a dead driver stored of its open attempt. `begun`: something had arrived, if only a call's arguments."""

    parts: tuple[Part, ...] = ()
    begun: bool = False


def stored_draft(store: Store, session_id: str, after: int) -> StoredDraft:
    """Return what a dead driver stored of the open attempt; `after` is the head's seq."""
    for batch in store.follow(session_id, after=after, timeout=0):
        return StoredDraft(parts_of((chunk.part, _text(chunk)) for chunk in batch.chunks), bool(batch.chunks))
    return StoredDraft()


def _text(chunk: Chunk) -> str:
    return chunk.data.decode("utf-8", "replace")  # the last character may be cut where the process died
