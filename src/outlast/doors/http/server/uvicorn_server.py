"""Running the door: uvicorn with our own signals, sockets and bounds.

SIGINT, SIGTERM, SIGHUP: nobody new is let in, streams end so that their clients come again, what is being answered is
answered, running turns stay in the log for the next start, the store is closed. A second signal does not wait.
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
        """They are ours: uvicorn would raise them again once it has stopped."""
        yield


async def serve(door: HttpDoor, listener: socket.socket, tls: ssl.SSLContext | None, ready: Callable[[], None]) -> None:
    """Serve until a signal comes. `ready` is called once requests are answered."""
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
    """What is loaded by now stays: the garbage collector need not look at it again and again. And it need not look at a
    request while that is answered: one makes some thousand objects, none of them in a circle."""
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
