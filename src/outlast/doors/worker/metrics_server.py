"""Metrics port for Prometheus, on this machine only: `GET /metrics`, and `GET /healthz` without any details.

It needs no framework and no token: it changes nothing and shows nothing from a session. Requests from a web page are
refused: they come with another Host, or with an Origin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from outlast.app.workers.metrics import CONTENT_TYPE
from outlast.core.errors import ConfigError

LOOPBACK = "127.0.0.1"
NAMES = frozenset({LOOPBACK, "localhost"})
HEAD_BYTES, HEAD_SECONDS = 8192, 5.0
PLAIN = "text/plain; charset=utf-8"

Answer = tuple[str, str, str]


class MetricsServer:
    """Serves until it is closed. `port` is the port it listens on."""

    def __init__(self, text: Callable[[], Awaitable[str]]) -> None:
        self._text = text
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self, port: int) -> None:
        try:
            self._server = await asyncio.start_server(self._serve, LOOPBACK, port, limit=HEAD_BYTES)
        except OSError as error:
            told = error.strerror or str(error)
            raise ConfigError(f"--metrics-port {port} cannot be used ({told}); take another, 0 for any") from error
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/metrics"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            status, kind, body = await self._answer(head.decode("latin-1"))
            data = body.encode()
            writer.write(
                f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n"
                "connection: close\r\nx-content-type-options: nosniff\r\n\r\n".encode()
            )
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _answer(self, head: str) -> Answer:
        line, *fields = head.split("\r\n")
        method, _, rest = line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        named = [field.partition(":")[::2] for field in fields if field]
        hosts = [value.strip() for name, value in named if name.strip().lower() == "host"]
        if len(hosts) != 1 or hosts[0].partition(":")[0] not in NAMES:
            return "403 Forbidden", PLAIN, "reach it as 127.0.0.1 or localhost\n"
        if any(name.strip().lower() == "origin" for name, _ in named):
            return "403 Forbidden", PLAIN, "requests of web pages are not allowed\n"
        if method != "GET":
            return "405 Method Not Allowed", PLAIN, "GET only\n"
        if path == "/metrics":
            return "200 OK", CONTENT_TYPE, await self._text()
        if path == "/healthz":
            return "200 OK", PLAIN, "ok\n"
        return "404 Not Found", PLAIN, "the paths are /metrics and /healthz\n"
