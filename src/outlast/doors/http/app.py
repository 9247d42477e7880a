"""The ASGI application of the HTTP door: the guard, the routes, and one store.

The lifespan opens the store; if the server runs no lifespan, the first request opens it. When the lifespan ends, the
streams end so that their clients reconnect, running turns stay open in the log for the next process, and the store is
closed.
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
    """A service that runs with the API and shares its store: the chat gateway."""

    async def start(self, store: LogStore, metrics: Metrics) -> None: ...

    async def close(self) -> None: ...

    async def webhooks(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Receive signed chat messages."""
        ...


class HttpDoor:
    """An ASGI application. To run it inside another program, use `async with door.lifespan()`."""

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
        """`config` sets how turns run and `working` how many, `public_url` is the URL of a proxy in front of the
        server, `webhooks` receives signed chat messages; the `beside` service, if given, receives them instead."""
        self.settings = settings
        self.config = config
        self.working = working
        self.secret = Authenticator(TokenFile(settings))
        self.request_metrics = RequestMetrics()
        self._server_state: ServerState | None = None
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
        """Return the state that the routes share; open it first if it is not open."""
        async with self._opening:
            if self._server_state is None:
                self._server_state = await ServerState.open(self.settings, config=self.config, working=self.working)
            return self._server_state

    def end_streams(self) -> None:
        """End all streams and start no new ones; the clients reconnect to the next server process."""
        if self._server_state is not None:
            self._server_state.live.close()

    async def close(self) -> None:
        async with self._opening:
            server, self._server_state = self._server_state, None
            if server is not None:
                await server.close()

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        self.secret.mark()  # fail at startup if the token cannot be read
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
        """Return the door itself: many test clients run a lifespan as `app.router.lifespan_context(app)`."""
        return self

    def lifespan_context(self, app: object = None) -> AbstractAsyncContextManager[None]:
        return self.lifespan()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lived(receive, send)
        else:
            await self._served(scope, receive, send)

    async def _lived(self, receive: Receive, send: Send) -> None:
        """Run the lifespan by the ASGI protocol: one message in and one out at startup, and again at shutdown."""
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
    """Return the HTTP door with these settings. `config` sets how turns run; `public_url` is the URL of a proxy in
    front of the server."""
    return HttpDoor(settings, config=config, public_url=public_url)
