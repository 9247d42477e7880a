"""The gateway beside an HTTP server, on its store: `outlast serve --gateway`."""

from __future__ import annotations

from outlast.app.metrics import Metrics
from outlast.app.settings import Settings
from outlast.app.stores import LogStore
from outlast.doors.gateway.endpoint import Receive, Scope, Send, send_json
from outlast.doors.gateway.gateway import Gateway


class GatewayBeside:
    """Started and closed by the server. Without `works` others run the turns: here is only received and delivered."""

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
        """Signed chat messages, for the server to hand in."""
        if self._gateway is None:
            await send_json(send, 503, {"detail": "the gateway is not running just now; send it again"})
        else:
            await self._gateway.endpoint(scope, receive, send)
