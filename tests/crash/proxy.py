"""A TCP proxy that the nemesis holds in its hand: it cuts connections, falls silent, or lets bytes drip.

Each process of the laboratory reaches PostgreSQL and the model through proxies of its own, so one of them can be cut
off while the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

PIECE = 16 * 1024

Dial = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def to_port(port: int) -> Dial:
    return lambda: asyncio.open_connection("127.0.0.1", port)


def to_socket(path: Path) -> Dial:
    return lambda: asyncio.open_unix_connection(str(path))


class Proxy:
    """`silent` holds every byte back and says nothing about it, as a network that swallows packets does; what was held
    back comes through when it is over. `slow` is (bytes a second, seconds of delay for each piece)."""

    def __init__(self, dial: Dial) -> None:
        self.port = 0
        self.passed = 0
        self._dial = dial
        self._flows = asyncio.Event()
        self._flows.set()
        self._slow: tuple[float, float] | None = None
        self._budget: int | None = None
        self._links: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """The port it listens on."""
        self._server = await asyncio.start_server(self._link, "127.0.0.1", 0, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.heal()
        self._abort()

    # --- what the nemesis does

    def cut(self, after: int = 0) -> None:
        """Break all connections, at once or when `after` more bytes have passed."""
        if after:
            self._budget = after
        else:
            self._abort()

    def silence(self) -> None:
        self._flows.clear()

    def slow(self, bytes_a_second: float, delay: float) -> None:
        self._slow = (bytes_a_second, delay)

    def heal(self) -> None:
        """Everything passes again. Connections that were silent go on as if nothing had been."""
        self._slow = self._budget = None
        self._flows.set()

    def _abort(self) -> None:
        for writer in list(self._links):
            writer.transport.abort()

    # --- what passes

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._links.add(writer)
        try:
            await self._flows.wait()
            there, back = await self._dial()
            self._links.add(back)
            try:
                await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
            finally:
                self._links.discard(back)
                back.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever is there hears of it by the connection that breaks
        finally:
            self._links.discard(writer)
            writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE):
            await self._flows.wait()
            if self._slow is not None:
                await asyncio.sleep(self._slow[1] + len(data) / self._slow[0])
            if self._budget is not None:
                if len(data) >= self._budget:
                    writer.write(data[: self._budget])
                    self._budget = None
                    with suppress(ConnectionError):
                        await writer.drain()
                    self._abort()
                    return
                self._budget -= len(data)
            writer.write(data)
            self.passed += len(data)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()
