"""Request counters of this process, in the Prometheus text format."""

from __future__ import annotations

import time
from collections import Counter

from outlast.app.workers.metrics import family, gauge
from outlast.app.workers.metrics_text import exposition
from outlast.doors.http.json_body import App, Event, Receive, Scope, Send
from outlast.doors.http.server_state import ServerState


class RequestMetrics:
    """Counts responses by method and status. Not by path: paths contain session ids."""

    def __init__(self) -> None:
        self._answered: Counter[tuple[str, int]] = Counter()
        self._seconds = 0.0

    def counting(self, app: App) -> App:
        """Wrap the application so that its responses are counted."""

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            began, method = time.perf_counter(), scope["method"] if scope["method"] in METHODS else "other"

            async def sending(event: Event) -> None:
                if event["type"] == "http.response.start":
                    self._answered[method, event["status"]] += 1
                    self._seconds += time.perf_counter() - began
                await send(event)

            await app(scope, receive, sending)

        return counted

    async def text(self, server: ServerState) -> str:
        """Return all metrics as text, with those of the worker pool and of the work waiting in the store."""
        lines = [
            *family(
                "outlast_http_requests_total",
                "counter",
                "Requests answered.",
                {f'method="{method}",status="{status}"': n for (method, status), n in sorted(self._answered.items())},
            ),
            *family(
                "outlast_http_answer_seconds_total",
                "counter",
                "Total seconds until responses began.",
                {"": round(self._seconds, 6)},
            ),
            *gauge("outlast_followers", "Open event streams.", {"": server.live.followers}),
        ]
        return await exposition(server.pool, lines)


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
