"""Runs the HTTP door in uvicorn, with our own signal handlers, sockets and protocol limits.

On SIGINT, SIGTERM or SIGHUP the server accepts no new connections, ends the streams so that their clients reconnect,
finishes the requests in progress, leaves running turns in the log for the next start, and closes the store. A second
signal skips the waiting.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn

from outlast.doors.http.app import HttpDoor
from outlast.doors.http.server.protocol import BoundedProtocol

KEEP_ALIVE_SECONDS = 20
GRACE_SECONDS = 10
COLLECT_AFTER = 10_000


class _HttpServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to `_stop_on_signals`: uvicorn would raise them again after it has stopped."""
        yield


async def serve(door: HttpDoor, listener: socket.socket, tls: ssl.SSLContext | None, ready: Callable[[], None]) -> None:
    """Serve until a signal arrives. `ready` is called once the server answers requests."""
    config = uvicorn.Config(
        door,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    config.load()
    config.ssl = tls
    server = _HttpServer(config)
    async with door.lifespan():
        _stop_on_signals(server, door)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)
        if server.started:
            _spare_collections()
            ready()
        await serving


def _spare_collections() -> None:
    """Exempt everything loaded so far from garbage collection: it stays. Also raise the threshold, so that a request is
    not scanned while it is answered: it makes some thousand objects, none of them in a reference cycle."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)


def _stop_on_signals(server: uvicorn.Server, door: HttpDoor) -> None:
    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True
        door.end_streams()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop)
