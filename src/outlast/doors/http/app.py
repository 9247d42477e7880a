"""The door put together: guard, routes, and one store behind them.

The store is opened by the lifespan, or by the first request where nobody runs one. When the lifespan ends, streams end
so that their clients come again, running turns are left in the log for whoever comes next, and the store is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from litestar import Litestar
from litestar.di import Provide

from outlast.app.api_token import TokenFile
from outlast.app.settings import Settings
from outlast.app.workers.metrics import Metrics
from outlast.app.workers.options import WorkerOptions
from outlast.core.errors import OutlastError
from outlast.doors.http.errors import HANDLERS
from outlast.doors.http.json_body import App, JsonResponse, Receive, Scope, Send, StrictRequest
from outlast.doors.http.middleware.auth import Authenticator
from outlast.doors.http.middleware.guard import Guard
from outlast.doors.http.middleware.headers import AllowedHosts
from outlast.doors.http.openapi import openapi_config
from outlast.doors.http.request_metrics import RequestMetrics
from outlast.doors.http.routes.all_routes import ROUTES
from outlast.doors.http.server_state import ServerState
from outlast.runtime.agent_config import AgentConfig
from outlast.store.log_store import LogStore


class SideService(Protocol):
    """What runs beside the API, on its store: the chat gateway."""

    async def start(self, store: LogStore, metrics: Metrics) -> None: ...

    async def close(self) -> None: ...

    async def webhooks(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes signed chat messages."""
        ...


class HttpDoor:
    """An ASGI application. `async with door.lifespan()` for those who run it inside their own process."""

    def __init__(
        self,
        settings: Settings,
        *,
        config: AgentConfig | None = None,
        working: WorkerOptions | None = None,
        public_url: str | None = None,
        webhooks: App | None = None,
        beside: SideService | None = None,
    ) -> None:
        """`config` is how turns are run and `working` how many, `public_url` where a proxy in front is reached,
        `webhooks` what takes signed chat messages, unless what runs `beside` does."""
        self.settings = settings
        self.config = config
        self.working = working
        self.secret = Authenticator(TokenFile(settings))
        self.request_metrics = RequestMetrics()
        self._desk: ServerState | None = None
        self._opening = asyncio.Lock()
        self.inner = Litestar(
            list(ROUTES),
            dependencies={
                "server": Provide(self.server, use_cache=False),
                "secret": Provide(lambda: self.secret, sync_to_thread=False),
                "request_metrics": Provide(lambda: self.request_metrics, sync_to_thread=False),
            },
            exception_handlers=HANDLERS,
            openapi_config=openapi_config(),
            request_class=StrictRequest,
            response_class=JsonResponse,
            request_max_body_size=None,
            logging_config=None,
            debug=False,
        )
        self.beside = beside
        webhooks = beside.webhooks if beside is not None else webhooks
        self.guard = Guard(self.inner, self.secret, AllowedHosts(settings.allowed_hosts, public_url), webhooks=webhooks)
        self._served = self.request_metrics.counting(self.guard)

    async def server(self) -> ServerState:
        """What the routes work with; opened now, if nobody did."""
        async with self._opening:
            if self._desk is None:
                self._desk = await ServerState.open(self.settings, config=self.config, working=self.working)
            return self._desk

    def end_streams(self) -> None:
        """Streams end now and none begins any more: their clients come again, to whoever serves then."""
        if self._desk is not None:
            self._desk.live.close()

    async def close(self) -> None:
        async with self._opening:
            server, self._desk = self._desk, None
            if server is not None:
                await server.close()

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        self.secret.mark()  # a token that cannot be had is found out now
        server = await self.server()
        try:
            if self.beside is not None:
                await self.beside.start(server.store, server.pool.metrics)
            yield
        finally:
            if self.beside is not None:
                await self.beside.close()
            await self.close()

    @property
    def router(self) -> HttpDoor:
        """Itself: `app.router.lifespan_context(app)` is how many tests run a lifespan."""
        return self

    def lifespan_context(self, app: object = None) -> AbstractAsyncContextManager[None]:
        return self.lifespan()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lived(receive, send)
        else:
            await self._served(scope, receive, send)

    async def _lived(self, receive: Receive, send: Send) -> None:
        """The lifespan as servers speak it: one message each way at either end."""
        await receive()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.lifespan())
            except OutlastError as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def create_app(settings: Settings, *, config: AgentConfig | None = None, public_url: str | None = None) -> HttpDoor:
    """The HTTP door with these settings. `config` is how turns are run, `public_url` where a proxy in front of it is
    reached."""
    return HttpDoor(settings, config=config, public_url=public_url)
