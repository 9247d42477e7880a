"""A session as a stream of frames: the stored frames after a cursor, then live ones, for any number of followers.

One store reader per session and process serves all followers that are up to date, from a bounded tail of frames. A new
or slow follower reads from the store itself until it has caught up. So the broadcast keeps no queue per follower, no
follower misses a frame, and a follower that stops reading costs only its registration.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable

from outlast.app.streams.cursor import BEGINNING, FollowerPosition, StreamCursor, Unseen
from outlast.app.streams.event_feed import follow_unseen
from outlast.app.streams.sse import HEARTBEAT, Frame, frames_of, resync_frame
from outlast.core.errors import ConflictError, OutlastError
from outlast.store.log_store import LogStore
from outlast.store.port import Batch

HEARTBEAT_SECONDS = 5.0
TAIL_FRAMES = 1_024
TAIL_BYTES = 4 * 1024 * 1024
SMALL = 16 * 1024

_ATTEMPTS = frozenset({"ModelRequested", "AssistantReplied", "ReplyInterrupted"})


class StreamHub:
    """All session streams of one store, for one event loop."""

    def __init__(self, store: LogStore, *, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self.store = store
        self.heartbeat_seconds = heartbeat_seconds
        self.followers = 0
        self._channels: dict[str, SessionBroadcast] = {}
        self._closed = False

    async def frames(
        self, session_id: str, after: StreamCursor = BEGINNING, *, follow: bool = True
    ) -> AsyncGenerator[bytes]:
        """Yield the frames after the cursor as bytes to send. With `follow` the stream continues with live frames and
        heartbeats; otherwise it ends at the last stored frame.

        A followed stream ends when the session is deleted or rotated, when the store can no longer be read, and when
        the hub is closed. A client that wants more reconnects with its cursor.
        """
        reader = CatchUpReader(self.store, session_id, after)
        if not follow:
            async for data in reader.to_the_tip():
                yield data
            return
        channel = await self._join(session_id)
        self.followers += 1
        try:
            async for data in reader.to_the_tip():
                yield data
            beats = channel.beats
            while not (self._closed or reader.over):
                heard, over = channel.news, channel.over
                if not channel.covers(reader.seen.cursor):
                    async for data in reader.to_the_tip():
                        yield data
                elif frames := reader.new(channel.after(reader.seen.cursor)):
                    yield b"".join(frame.data for frame in frames)
                elif over:
                    return
                elif channel.beats != beats:
                    beats = channel.beats
                    yield HEARTBEAT
                else:
                    await heard.wait()
        finally:
            self.followers -= 1
            self._leave(channel)

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        for channel in self._channels.values():
            channel.ring()

    async def _join(self, session_id: str) -> SessionBroadcast:
        channel = self._channels.get(session_id)
        if channel is None or channel.over:
            channel = self._channels[session_id] = SessionBroadcast(self.store, session_id, self.heartbeat_seconds)
        channel.readers += 1
        try:
            await channel.begun
        except BaseException:
            self._leave(channel)
            raise
        return channel

    def _leave(self, channel: SessionBroadcast) -> None:
        channel.readers -= 1
        if channel.readers == 0:
            channel.stop()
            if self._channels.get(channel.session_id) is channel:
                del self._channels[channel.session_id]


class SessionBroadcast:
    """The newest frames of one session, and the task that reads them. `before` is the cursor in front of the first
    frame. `news` is set and replaced whenever frames arrive, and on every heartbeat; one timer serves all followers."""

    def __init__(self, store: LogStore, session_id: str, beat_seconds: float) -> None:
        self.session_id = session_id
        self.readers = 0
        self.over = False
        self.news = asyncio.Event()
        self.before = self.end = BEGINNING
        self._store = store
        self._tail: deque[Frame] = deque()
        self._size = 0
        self.beats = 0
        self._beat_seconds = beat_seconds
        loop = asyncio.get_running_loop()
        self._beating = loop.call_later(beat_seconds, self._beat)
        self.begun: asyncio.Future[None] = loop.create_future()
        self._reading = asyncio.create_task(self._read())

    def covers(self, cursor: StreamCursor) -> bool:
        """Whether every frame after the cursor is in the tail or will still arrive there."""
        return self.before <= cursor

    def after(self, cursor: StreamCursor) -> list[Frame]:
        if cursor >= self.end:
            return []
        found: list[Frame] = []
        for frame in reversed(self._tail):
            if frame.cursor <= cursor:
                break
            found.append(frame)
        found.reverse()
        return found

    def ring(self) -> None:
        news, self.news = self.news, asyncio.Event()
        news.set()

    def _beat(self) -> None:
        self.beats += 1
        self.ring()
        self._beating = asyncio.get_running_loop().call_later(self._beat_seconds, self._beat)

    def stop(self) -> None:
        self._beating.cancel()
        self._reading.cancel()
        if not self.begun.done():
            self.begun.cancel()

    async def _read(self) -> None:
        """Follow the session from its current head; followers read everything up to there themselves."""
        try:
            head = await asyncio.to_thread(self._store.head, self.session_id)
            self.before = self.end = StreamCursor(head.last_seq)
            self.begun.set_result(None)
            async for unseen in follow_unseen(self._store, self.session_id, FollowerPosition(self.end)):
                if _is_small(unseen):
                    self._put(frames_of(self._store, self.session_id, unseen))
                else:
                    self._put(await asyncio.to_thread(frames_of, self._store, self.session_id, unseen))
        except OutlastError as error:  # deleted, damaged, or the store is gone: each follower gets its own error
            if not self.begun.done():
                self.begun.set_exception(error)
        finally:
            self.over = True
            self.ring()

    def _put(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._tail.append(frame)
            self._size += len(frame.data)
            self.end = frame.cursor
            while len(self._tail) > 1 and (len(self._tail) > TAIL_FRAMES or self._size > TAIL_BYTES):
                dropped = self._tail.popleft()
                self._size -= len(dropped.data)
                self.before = dropped.cursor
        self.ring()


class CatchUpReader:
    """Reads the log for one follower, from its cursor to the last stored frame. `over` is set once no frame can
    follow."""

    def __init__(self, store: LogStore, session_id: str, after: StreamCursor) -> None:
        self.seen = FollowerPosition(after)
        self.over = False
        self._store = store
        self._session_id = session_id
        self._checked = False

    async def to_the_tip(self) -> AsyncIterator[bytes]:
        """Yield everything stored after the cursor, in pieces of bounded size."""
        while not self.over:
            frames = await asyncio.to_thread(self._step)
            if not frames:
                return
            self.over = frames[-1].is_last
            yield b"".join(frame.data for frame in frames)

    def new(self, frames: list[Frame]) -> list[Frame]:
        """Return the frames this follower has not seen, and mark them as seen."""
        found = [frame for frame in frames if not (frame.attempt and self.seen.has(frame.attempt, frame.cursor.n))]
        for frame in found:
            self.seen.move(frame.cursor, frame.attempt)
        self.over = bool(found) and found[-1].is_last
        return found

    def _step(self) -> list[Frame]:
        try:
            batch = next(self._store.follow(self._session_id, after=self.seen.cursor.seq, timeout=0), None)
        except ConflictError:  # the cursor belongs to another session or store, or was invented
            return self._resynced()
        if not self._checked:
            self._checked = True
            if self.seen.cursor.n > self._pieces(batch):
                return self._resynced()
        if batch is None:
            return []
        return frames_of(self._store, self._session_id, self.seen.take(batch), whole=True)

    def _pieces(self, batch: Batch | None) -> int:
        """Number of chunks in the cursor's draft. The chunks of a closed draft are gone, so the cursor's own number is
        accepted if a reply was being written at that event."""
        seq, n = self.seen.cursor
        if batch is None or not n:
            return 0
        if batch.events and (not batch.chunks or batch.chunks[0].attempt_seq > seq):
            return n if self._was_open(seq) else 0
        return max((chunk.n for chunk in batch.chunks), default=0)

    def _was_open(self, seq: int) -> bool:
        """Whether a reply was being written after event `seq`."""
        last = self._store.read(self._session_id, before=seq + 1, kinds=_ATTEMPTS, limit=1, newest_first=True)
        return bool(last) and last[0].kind == "ModelRequested"

    def _resynced(self) -> list[Frame]:
        last_seq = self._store.head(self._session_id).last_seq
        self.seen = FollowerPosition(StreamCursor(last_seq))
        return [resync_frame(last_seq)]


def _is_small(unseen: Unseen) -> bool:
    """Whether building the frames on the event loop is faster than using a thread, and needs no read from the store."""
    events = unseen.events
    return sum(len(event.body) for event in events) <= SMALL and all(
        event.enc == "plain" and b"$" not in event.body for event in events
    )
