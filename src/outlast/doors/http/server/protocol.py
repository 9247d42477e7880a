"""Uvicorn's HTTP/1 protocol, with prompt writes, abortable connections, and limits against abusive clients.

Uvicorn limits neither the size of a request head nor the time it takes to arrive, and an application sees a request
only after its head is complete. So the limits on heads and connections are here; the limits on bodies are in
`outlast.doors.http.middleware.limits`.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from asyncio import Transport
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from outlast.doors.http.event_stream import ABORT


class PromptProtocol(HttpToolsProtocol):
    def connection_made(self, transport: Transport) -> None:
        """Set TCP_NODELAY: the head and body of a response are two small writes, and without it the second write waits
        for the peer's delayed ACK."""
        super().connection_made(transport)
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def on_message_begin(self) -> None:
        """Put the abort function into the scope: `transport.close` waits until the peer has read everything, which a
        stalled reader never does."""
        super().on_message_begin()
        scope: dict[str, Any] = self.scope  # pyright: ignore[reportAssignmentType]
        scope[ABORT] = self.transport.abort


HEAD_SECONDS = 10.0
HEAD_BYTES = 64 * 1024
MOST_HEADERS = 128
MOST_CONNECTIONS = 4096
OTHER_FILES = 128


class BoundedProtocol(PromptProtocol):
    """One connection, with limits on the head of a request and on the number of connections."""

    _slow: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _in_head = True
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            self._refuse(b"503 Service Unavailable")
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head_bytes += len(data) if self._in_head else 0
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait_for_head()

    def on_headers_complete(self) -> None:
        self._head_came()
        if len(self.headers) > MOST_HEADERS or len(self.url) + _size(self.headers) > HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large")
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._refused:
            super().on_message_complete()
        self._in_head, self._head_bytes = True, 0

    def _wait_for_head(self) -> None:
        self._in_head = True
        if self._slow is None:
            self._slow = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _head_came(self) -> None:
        self._in_head = False
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _too_slow(self) -> None:
        self._slow = None
        if not self.transport.is_closing():
            self.transport.abort()

    def _refuse(self, status: bytes) -> None:
        """Send a bare error response and close the connection, without calling the application."""
        self._refused = True
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()


def most_connections() -> int:
    """Return the number of connections that the file descriptors allow, with some left for the store and the tools."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(16, min(MOST_CONNECTIONS, soft - OTHER_FILES))


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)
