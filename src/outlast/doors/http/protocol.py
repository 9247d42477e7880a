"""Uvicorn's protocol with two things more: nothing is held back, and a stream whose reader stands still is cut."""

from __future__ import annotations

import socket
from asyncio import Transport
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from outlast.doors.http.stream import ABORT


class Protocol(HttpToolsProtocol):
    def connection_made(self, transport: Transport) -> None:
        """An answer's head and body are two small writes: without this the second waits for the peer's late word."""
        super().connection_made(transport)
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def on_message_begin(self) -> None:
        """`transport.close` waits until everything was read, which a reader that stands still never does."""
        super().on_message_begin()
        scope: dict[str, Any] = self.scope  # pyright: ignore[reportAssignmentType]
        scope[ABORT] = self.transport.abort
