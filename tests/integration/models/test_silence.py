"""A provider that only keeps the connection open: the runtime closes the request, whatever bytes come."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from outlast import open_store
from outlast.core.errors import ModelUnavailable
from outlast.models.providers import ProviderModel
from outlast.runtime.turn.observer import ModelWait, NoData, NullObserver
from tests.support.agents import agent_with

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


class Told(NullObserver):
    def __init__(self) -> None:
        self.waits: list[ModelWait | None] = []

    def model_waits(self, wait: ModelWait | None) -> None:
        self.waits.append(wait)


async def test_comments_that_keep_the_connection_open_are_no_data(tmp_path: Path) -> None:
    requests = 0
    connections: list[asyncio.Task[None]] = []

    async def comments(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += (await reader.readuntil(b"\r\n\r\n")).startswith(b"POST")
        writer.write(HEAD)
        with suppress(ConnectionError):
            while True:
                writer.write(b": keep-alive\n\n")
                await writer.drain()
                await asyncio.sleep(0.05)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            await comments(reader, writer)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model, told = ProviderModel("openai:fake", key="k", url=url, context_window=100_000), Told()
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        agent = agent_with(
            store,
            tmp_path / "p",
            backend=model,
            context=lambda given: replace(given, observer=told),
            first_token_timeout=1.0,
            stream_idle_timeout=1.0,
        )
        with pytest.raises(ModelUnavailable, match="3 requests in a row went silent"):
            await asyncio.wait_for(agent.run("Hello."), 60)
    assert requests == 3
    assert any(isinstance(wait, NoData) for wait in told.waits)
    await model.close()
    server.close()
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)
