"""What a client of the proxy says before bytes flow: the stream that is read within bounds, and what was understood.

`http_handshake` and `socks_handshake` implement `Handshake`; the proxy chooses by the first byte.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

import msgspec

HEAD_LIMIT = 32_768
CHUNK = 65_536
LINGER_SECONDS = 2.0
LINGER_BYTES = 1 << 20

KnowsToken = Callable[[str], bool]


class ClientStream:
    """The socket of a client with the bytes that were read from it, but not used yet."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.buffer = bytearray()

    async def fill(self) -> bool:
        """Read more; return False at the end of the stream."""
        data = await asyncio.get_running_loop().sock_recv(self.client, CHUNK)
        self.buffer += data
        return bool(data)

    async def read_exactly(self, count: int) -> bytes | None:
        """Return `count` bytes, or None if the client ended the stream before them."""
        while len(self.buffer) < count:
            if not await self.fill():
                return None
        return self._take(count)

    async def read_head(self) -> bytes | None:
        """Return everything up to the empty line, or None if it does not come within `HEAD_LIMIT` bytes."""
        start = 0
        while (end := self.buffer.find(b"\r\n\r\n", start)) < 0:
            start = max(0, len(self.buffer) - 3)
            if len(self.buffer) > HEAD_LIMIT or not await self.fill():
                return None
        return self._take(end + 4) if end <= HEAD_LIMIT else None

    def rest(self) -> bytes:
        """Return what the client sent after its handshake."""
        return self._take(len(self.buffer))

    async def peek(self) -> int | None:
        """Return the first byte without using it; None if the client sent nothing."""
        if not self.buffer and not await self.fill():
            return None
        return self.buffer[0]

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.client, data)

    async def answer_and_end(self, answer: bytes) -> None:
        """Send a last answer. Reading on for a moment keeps the kernel from discarding it because of unread bytes."""
        loop = asyncio.get_running_loop()
        await self.send(answer)
        self.client.shutdown(socket.SHUT_WR)
        left = LINGER_BYTES
        async with asyncio.timeout(LINGER_SECONDS):
            while left > 0 and (data := await loop.sock_recv(self.client, CHUNK)):
                left -= len(data)

    def _take(self, count: int) -> bytes:
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken


class WantedConnection(msgspec.Struct, frozen=True, kw_only=True):
    """What the client wants. `head` is sent to the host first. `body` bytes of the client follow it; None: all bytes,
    until it closes. An empty host means that the text of the client names none."""

    token: str
    host: str
    port: int
    head: bytes = b""
    body: int | None = None


class Handshake(Protocol):
    async def read(self, stream: ClientStream, knows: KnowsToken) -> WantedConnection | bytes | None:
        """Return what the client wants, or the answer that ends this connection, or None if the client is gone."""
        ...

    def accept(self, wanted: WantedConnection) -> bytes:
        """Return what the client is told when the connection is made."""
        ...

    def block(self, host: str, reason: str) -> bytes: ...

    def fail(self, host: str, reason: str) -> bytes: ...
