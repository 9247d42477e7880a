"""Exports a session as a document, and serves the attachments of its messages."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Iterator
from typing import IO, Annotated, Literal

from litestar import Response, get
from litestar.params import PathParameter, QueryParameter
from litestar.response import Stream

from outlast.app.maintenance import Finding, exported_from
from outlast.app.sessions.detail import detail
from outlast.app.streams.event_feed import rows_of
from outlast.app.transfer.html import html
from outlast.app.transfer.markdown import markdown
from outlast.core.errors import DamagedSession, SessionNotFound
from outlast.core.ids import is_id
from outlast.core.image_header import picture_of
from outlast.core.messages import FilePart, ImagePart
from outlast.core.transcript import message_of
from outlast.doors.http.parameters import SESSION, OpenServer, SessionId
from outlast.doors.http.schemas import LARGEST_SEQ
from outlast.doors.http.server_state import ServerState

Format = Literal["jsonl", "md", "html"]
MEDIA_TYPES = {"jsonl": "application/x-ndjson", "md": "text/markdown", "html": "text/html"}
IN_MEMORY = 4 * 1024 * 1024
PIECE = 256 * 1024


@get(
    "/api/sessions/{session_id:str}/export",
    summary="Export a session",
    operation_id="exportSession",
    tags=["projections"],
    responses=SESSION,
    media_type="application/x-ndjson",
)
async def export(
    server: OpenServer,
    session_id: SessionId,
    format: Annotated[Format, QueryParameter()] = "jsonl",
    redact: Annotated[bool, QueryParameter(description="Remove known secrets from Markdown and HTML.")] = True,
) -> Stream:
    """JSON lines contain everything, including the hashes, and can be imported; Markdown and HTML are for people. The
    header `X-Damaged` counts the items that could not be read and were left out."""
    name = await _named(server, session_id, format)
    file, damaged = await server.read(_written, server, name, format, redact)
    headers = {
        "content-disposition": f'attachment; filename="outlast-{name[:8]}.{format}"',
        "content-type": f"{MEDIA_TYPES[format]}; charset=utf-8",
        **({"x-damaged": str(damaged)} if damaged else {}),
    }
    return Stream(_pieces(server, file), media_type=MEDIA_TYPES[format], headers=headers)


async def _named(server: ServerState, session_id: str, format: str) -> str:
    """Return the session id. A session too damaged to open can still be exported as JSON lines, as far as it is
    intact."""
    try:
        return (await server.named(session_id)).session_id
    except DamagedSession:
        if format == "jsonl" and is_id(session_id):
            return session_id
        raise


def _written(server: ServerState, session_id: str, format: str, redact: bool) -> tuple[IO[bytes], int]:
    """Write the whole document before any byte is sent: the damage count must be in the response headers."""
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 `_pieces` closes it
    damaged = 0
    pieces = _lines(server, session_id) if format == "jsonl" else _document(server, session_id, format, redact)
    for piece in pieces:
        if isinstance(piece, Finding):
            damaged += 1
        else:
            file.write(piece)
    file.seek(0)
    return file, damaged


def _lines(server: ServerState, session_id: str) -> Iterator[bytes | Finding]:
    for found in exported_from(server.store, session_id):
        yield found if isinstance(found, Finding) else found + b"\n"


def _document(server: ServerState, session_id: str, format: str, redact: bool) -> Iterator[bytes]:
    found = detail(server.store, session_id, include_archived=True)
    for piece in (markdown if format == "md" else html)(found, redact=redact):
        yield piece.encode("utf-8")


async def _pieces(server: ServerState, file: IO[bytes]) -> AsyncGenerator[bytes]:
    with file:
        while piece := await server.read(file.read, PIECE):
            yield piece


@get(
    "/api/sessions/{session_id:str}/attachments/{seq:int}/{part:int}",
    summary="Get an attachment of a message",
    operation_id="attachmentOfSession",
    tags=["projections"],
    responses=SESSION,
    media_type="application/octet-stream",
)
async def attachment(
    server: OpenServer,
    session_id: SessionId,
    seq: Annotated[int, PathParameter(ge=1, le=LARGEST_SEQ)],
    part: Annotated[int, PathParameter(ge=0, le=1000)],
) -> Response[bytes]:
    """Pictures have the media type that their bytes show; every other file is a download."""
    header = await server.named(session_id)
    found = await server.read(_attached, server, header.session_id, seq, part)
    picture = picture_of(found.data)
    if picture is not None:
        headers = {"cache-control": "private, max-age=86400, immutable"}  # an event never changes
        return Response(found.data, media_type=picture.media_type, headers=headers)
    headers = {"content-disposition": "attachment"}
    return Response(found.data, media_type="application/octet-stream", headers=headers)


def _attached(server: ServerState, session_id: str, seq: int, part: int) -> ImagePart | FilePart:
    for stored, event in rows_of(server.store, session_id, after=seq - 1, before=seq + 1):
        message = message_of(stored, event)
        found = message.parts[part] if message is not None and part < len(message.parts) else None
        if isinstance(found, ImagePart | FilePart) and found.data:
            return found
    raise SessionNotFound(f"event {seq} has no picture or file number {part}")
