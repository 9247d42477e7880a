"""`GET /api/sessions/{id}/stream`: a session as it happens (`outlast.doors.http.stream` tells how)."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import HeaderParameter, QueryParameter

from outlast.doors.http.routes.parameters import SESSION, OpenDesk, SessionId
from outlast.doors.http.stream import EventStream, cursor_of, event_stream


@get(
    "/api/sessions/{session_id:str}/stream",
    summary="A session as it happens",
    operation_id="streamSession",
    tags=["sessions"],
    media_type="text/event-stream",
    responses=SESSION,
)
async def stream_session(
    desk: OpenDesk,
    session_id: SessionId,
    last_event_id: Annotated[str | None, HeaderParameter(name="Last-Event-ID", max_length=100)] = None,
    last_seq: Annotated[
        str | None, QueryParameter(max_length=100, description="The same, where no header can be set.")
    ] = None,
    follow: Annotated[bool, QueryParameter(description="False ends at the newest event.")] = True,
) -> EventStream:
    """Server-sent events: everything after the cursor, then whatever comes. `id: <seq>` for events, `id: <seq>:<n>` for
    pieces of the reply that is being written; come back with the last id you saw."""
    header = await desk.named(session_id)
    return await event_stream(desk.live, header.session_id, cursor_of(last_event_id, last_seq), follow=follow)
