"""`GET /api/sessions/{id}/stream`: a live session as server-sent events.

Nothing is queued for a follower that does not read: unread events stay in the store. If a frame cannot be sent for
`WRITE_SECONDS`, or the store cannot be read, the connection is aborted; it never ends as if the stream were complete.
The follower then reconnects with the id of the last frame it saw.
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
from outlast.doors.http.parameters import SESSION, OpenServer, SessionId

WRITE_SECONDS = 20.0
ABORT = "outlast.abort"
"""The scope key under which the server's protocol puts the function that aborts the connection."""

_log = logging.getLogger(__name__)
HEADERS = {
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
    "content-type": "text/event-stream; charset=utf-8",
}


def cursor_of(last_event_id: str | None, last_seq: str | None) -> StreamCursor:
    """Return the cursor of a request. The header has precedence over the query. An empty header counts as missing,
    because browsers send one. Raises InvalidInput if the cursor is malformed or `last_seq` is empty."""
    for given in (last_event_id, last_seq):
        if given is not None and given.strip():
            return cursor_from(given)
    if last_seq is not None:
        raise InvalidInput("last_seq is empty; leave it out, or send the id of the last frame you received")
    return BEGINNING


async def event_stream(live: StreamHub, session_id: str, cursor: StreamCursor, *, follow: bool = True) -> EventStream:
    """Return the response. Errors of the session are raised here, before any byte is sent."""
    await asyncio.to_thread(live.store.head, session_id)
    return EventStream(session_id, live.frames(session_id, cursor, follow=follow), follow=follow)


class EventStream(Response[None]):
    """A response that sends frames as they arrive."""

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
            await send(_body(HEARTBEAT))  # tells the client of an idle session that it is connected
        try:
            async for data in self._frames:
                patience.since = time.monotonic()
                await send(_body(data))
                patience.since = None
        except OutlastError as error:
            log_event(_log, logging.WARNING, "stream.cut", session=self._session_id, **error_fields(error))
            scope.get(ABORT, _no_abort)()
            await asyncio.sleep(0)  # lets the server notice the abort before we return
            return
        finally:
            await _closed(self._frames)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class WriteTimeout:
    """Calls `give_up` if sending one frame, begun at `since`, takes too long. One timer per stream, not per frame."""

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
    """Do nothing: a server that cannot abort a connection closes it when the response ends."""


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _closed(frames: Any) -> None:
    await frames.aclose()


@get(
    "/api/sessions/{session_id:str}/stream",
    summary="Follow a session live",
    operation_id="streamSession",
    tags=["sessions"],
    media_type="text/event-stream",
    responses=SESSION,
)
async def stream_session(
    server: OpenServer,
    session_id: SessionId,
    last_event_id: Annotated[str | None, HeaderParameter(name="Last-Event-ID", max_length=100)] = None,
    last_seq: Annotated[
        str | None, QueryParameter(max_length=100, description="The same cursor, for clients that cannot set headers.")
    ] = None,
    follow: Annotated[bool, QueryParameter(description="False ends the stream at the newest event.")] = True,
) -> EventStream:
    """Server-sent events: everything after the cursor, then new events as they happen. Events have `id: <seq>`, pieces
    of the reply in progress have `id: <seq>:<n>`; reconnect with the last id you saw."""
    header = await server.named(session_id)
    return await event_stream(server.live, header.session_id, cursor_of(last_event_id, last_seq), follow=follow)
