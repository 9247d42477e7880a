"""One HTTP/1.1 GET, by h11, over a connection whose address the caller checked before sending a byte.

The server may be hostile: h11 rejects ambiguous responses (conflicting lengths, transfer codings other than chunked,
spaces in names). This module limits the size of the head and the body; the caller limits the time.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

import h11
import msgspec

HEAD_LIMIT = 64 * 1024
CHUNK = 32 * 1024


class BadReply(Exception):
    """The server's response is not HTTP that this client accepts."""


class HttpReply(msgspec.Struct, frozen=True):
    """A response. `cut`: the body was longer than `body`. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut: bool


async def get(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, target: str, limit: int
) -> HttpReply:
    """Request `target` and read at most `limit` bytes of the decompressed body."""
    headers = [
        ("Host", host),
        ("User-Agent", "outlast"),
        ("Accept", "text/html, text/plain, application/json, */*;q=0.5"),
        ("Accept-Encoding", "gzip"),
        ("Connection", "close"),
    ]
    wire = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
    try:
        request = wire.send(h11.Request(method="GET", target=target, headers=headers))
        writer.write((request or b"") + (wire.send(h11.EndOfMessage()) or b""))
        await writer.drain()
        head = await _head(reader, wire)
        found = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        body, cut = await _body(reader, wire, found.get("content-encoding", ""), limit)
    except (h11.ProtocolError, zlib.error) as error:
        raise BadReply(f"its answer could not be read: {error}") from error
    return HttpReply(head.status_code, found, body, cut)


async def _head(reader: asyncio.StreamReader, wire: h11.Connection) -> h11.Response:
    while True:
        event = await _event(reader, wire)
        if isinstance(event, h11.Response):
            return event
        if not isinstance(event, h11.InformationalResponse):
            raise BadReply("it ended before it answered")


async def _body(reader: asyncio.StreamReader, wire: h11.Connection, encoding: str, limit: int) -> tuple[bytes, bool]:
    unpacking = zlib.decompressobj(wbits=47) if encoding in ("gzip", "deflate") else None
    body = bytearray()
    async for data in _raw(reader, wire):
        body += unpacking.decompress(data, limit + 1 - len(body)) if unpacking else data
        if len(body) > limit or (unpacking is not None and unpacking.unconsumed_tail):
            return bytes(body[:limit]), True
    return bytes(body), False


async def _raw(reader: asyncio.StreamReader, wire: h11.Connection) -> AsyncIterator[bytes]:
    while isinstance(event := await _event(reader, wire), h11.Data):
        yield event.data


async def _event(reader: asyncio.StreamReader, wire: h11.Connection) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
    while (event := wire.next_event()) is h11.NEED_DATA:
        wire.receive_data(await reader.read(CHUNK))
    return event
