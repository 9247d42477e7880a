"""`GET /api/sessions/{id}/stream`: a session as server-sent events.

A follower that does not read is not queued for: what it has not read stays in the store. When nothing could be sent to
it for `WRITE_SECONDS`, or the store cannot be read, its connection is cut, never ended as if that were all; it comes
again with the id of the last frame it saw.

`GET /api/sessions/{id}/stream`: a session as it happens (`outlast.doors.http.event_stream` tells how).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from litestar import get
from litestar.params import HeaderParameter, QueryParameter
from litestar.response.base import ASGIResponse, Response

from outlast.app.logging_setup import error_fields, log_event
from outlast.app.streams.broadcast import StreamHub
from outlast.app.streams.cursor import BEGINNING, StreamCursor, cursor_from
from outlast.app.streams.sse import HEARTBEAT
from outlast.core.errors import InvalidInput, OutlastError
from outlast.doors.http.parameters import SESSION, OpenDesk, SessionId

WRITE_SECONDS = 20.0
ABORT = "outlast.abort"
"""Where the server's protocol leaves the function that cuts a connection."""

_log = logging.getLogger(__name__)
HEADERS = {
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
    "content-type": "text/event-stream; charset=utf-8",
}


def cursor_of(last_event_id: str | None, last_seq: str | None) -> StreamCursor:
    """The header beats the query; an empty one is none, as browsers send it. `InvalidInput` when it is garbage."""
    for given in (last_event_id, last_seq):
        if given is not None and given.strip():
            return cursor_from(given)
    if last_seq is not None:
        raise InvalidInput("last_seq is empty; leave it out, or give the id of the last frame you saw")
    return BEGINNING


async def event_stream(live: StreamHub, session_id: str, cursor: StreamCursor, *, follow: bool = True) -> EventStream:
    """The answer. Whatever is wrong with the session is raised here, before a byte is sent."""
    await asyncio.to_thread(live.store.head, session_id)
    return EventStream(session_id, live.frames(session_id, cursor, follow=follow), follow=follow)


class EventStream(Response[None]):
    """Frames as they come."""

    def __init__(self, session_id: str, frames: AsyncIterator[bytes], *, follow: bool = True) -> None:
        super().__init__(content=None, headers=HEADERS, media_type="text/event-stream")
        self._session_id = session_id
        self._frames = frames
        self._follow = follow

    def to_asgi_response(self, app: Any = None, request: Any = None, **_: Any) -> ASGIResponse:
        return _Streaming(self._session_id, self._frames, self._follow)


class _Streaming(ASGIResponse):
    def __init__(self, session_id: str, frames: AsyncIterator[bytes], follow: bool) -> None:
        super().__init__(headers=HEADERS, media_type="text/event-stream")
        self._session_id = session_id
        self._frames = frames
        self._follow = follow

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        patience = WriteTimeout()
        sending = asyncio.ensure_future(self._send_all(scope, send, patience))
        leaving = asyncio.ensure_future(_gone(receive))
        patience.begin(lambda: (scope.get(ABORT, _no_abort)(), sending.cancel()))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            patience.end()
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if sending.done() and not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _send_all(self, scope: Any, send: Any, patience: WriteTimeout) -> None:
        if self._follow:
            await send(_body(HEARTBEAT))  # so that a client whose session is silent knows that it is connected
        try:
            async for data in self._frames:
                patience.since = time.monotonic()
                await send(_body(data))
                patience.since = None
        except OutlastError as error:
            log_event(_log, logging.WARNING, "stream.cut", session=self._session_id, **error_fields(error))
            scope.get(ABORT, _no_abort)()
            await asyncio.sleep(0)  # so that the server has heard of it when we return
            return
        finally:
            await _closed(self._frames)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class WriteTimeout:
    """Gives up when a frame has been on its way since `since`, for too long. One timer a stream, not one a frame."""

    def __init__(self) -> None:
        self.since: float | None = None

    def begin(self, give_up: Callable[[], object]) -> None:
        self._give_up = give_up
        self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS / 4, self._look)

    def _look(self) -> None:
        if self.since is not None and time.monotonic() - self.since >= WRITE_SECONDS:
            self._give_up()
        else:
            self.begin(self._give_up)

    def end(self) -> None:
        self._timer.cancel()


def _body(data: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": True}


def _no_abort() -> None:
    """A server that cannot cut a connection closes it when the answer ends."""


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _closed(frames: Any) -> None:
    await frames.aclose()


@get(
    "/api/sessions/{session_id:str}/stream",
    summary="A session as it happens",
    operation_id="streamSession",
    tags=["sessions"],
    media_type="text/event-stream",
    responses=SESSION,
)
async def stream_session(
    server: OpenDesk,
    session_id: SessionId,
    last_event_id: Annotated[str | None, HeaderParameter(name="Last-Event-ID", max_length=100)] = None,
    last_seq: Annotated[
        str | None, QueryParameter(max_length=100, description="The same, where no header can be set.")
    ] = None,
    follow: Annotated[bool, QueryParameter(description="False ends at the newest event.")] = True,
) -> EventStream:
    """Server-sent events: everything after the cursor, then whatever comes. `id: <seq>` for events, `id: <seq>:<n>` for
    pieces of the reply that is being written; come back with the last id you saw."""
    header = await server.named(session_id)
    return await event_stream(server.live, header.session_id, cursor_of(last_event_id, last_seq), follow=follow)
