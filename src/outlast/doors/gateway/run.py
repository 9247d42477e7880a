"""`outlast gateway`: runs all accounts until a signal arrives, and serves the webhooks if there are any.

On SIGINT or SIGTERM the gateway stops receiving, finishes storing, and delivers what was said; running turns stay in
the log for the next start. A second signal ends the process at once.

`EmbeddedGateway` is the gateway inside an HTTP server, on the server's store: `outlast serve --gateway`.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from outlast.app.settings import Settings
from outlast.app.stores import store_of
from outlast.app.workers.metrics import Metrics
from outlast.doors.gateway.gateway import Gateway
from outlast.doors.gateway.log import noted
from outlast.doors.gateway.platforms.webhook_endpoint import Receive, Scope, Send, send_json
from outlast.doors.http.server.protocol import BoundedProtocol
from outlast.store.log_store import LogStore


async def run(
    settings: Settings, listener: socket.socket | None, ready: Callable[[Gateway], None], patience: float
) -> None:
    """Run until a signal arrives. `listener` is the socket for webhooks; `ready` is called when everything runs."""
    store = await asyncio.to_thread(store_of, settings)
    try:
        gateway = Gateway(store, settings)
        stop = _stop_on_signals()
        async with _serving(gateway, listener):
            await gateway.start()
            ready(gateway)
            await stop.wait()
            noted("gateway.stopping")
            await gateway.close(patience)
    finally:
        await asyncio.to_thread(store.close)


def _stop_on_signals() -> asyncio.Event:
    """An event set by the first signal. The second signal ends the process at once, which is safe but abrupt."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def stopped(number: signal.Signals) -> None:
        if stop.is_set():
            loop.remove_signal_handler(number)
            signal.raise_signal(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped, number)
    return stop


class _WebhookServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signal handlers to the gateway."""
        yield


@asynccontextmanager
async def _serving(gateway: Gateway, listener: socket.socket | None) -> AsyncGenerator[None]:
    """Serve the webhooks while this context is open; afterwards wait for the server to shut down."""
    if listener is None:
        yield
        return
    config = uvicorn.Config(
        gateway.endpoint,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    server = _WebhookServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


class EmbeddedGateway:
    """A gateway that an HTTP server starts and closes. With `works=False` it only receives and delivers; other
    processes run the turns.
    """

    def __init__(self, settings: Settings, *, works: bool = True) -> None:
        self._settings = settings
        self._works = works
        self._gateway: Gateway | None = None

    async def start(self, store: LogStore, metrics: Metrics) -> None:
        self._gateway = Gateway(store, self._settings, works=self._works, metrics=metrics)
        await self._gateway.start()

    async def close(self) -> None:
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            await gateway.close()

    async def webhooks(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point for signed chat messages."""
        if self._gateway is None:
            await send_json(send, 503, {"detail": "the gateway is not running; send it again later"})
        else:
            await self._gateway.endpoint(scope, receive, send)
