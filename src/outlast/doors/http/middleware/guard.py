"""The guard: checks every request before it is routed.

    host > concurrency > token > origin > content type > size

It works on the raw scope and never on a reconstructed URL. Without the token every path and every method gives the same
refusal, except the login page, `/healthz` and signed webhooks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from outlast.doors.http.event_stream import ABORT
from outlast.doors.http.json_body import App, Event, Receive, Scope, Send, header_values, sole_header
from outlast.doors.http.middleware.auth import COOKIE, LOGIN_PATH, Authenticator, send_login_page
from outlast.doors.http.middleware.headers import AllowedHosts, with_headers
from outlast.doors.http.middleware.limits import ConcurrencyLimiter, LimitExceeded, has_body, replayed, whole_body

READING = frozenset({"GET", "HEAD"})
WEBHOOKS = "/gateway/webhook/"
UNKNOWN = "UNKNOWN"
UNPROVEN = (
    "this needs the token: send it as 'Authorization: Bearer ...', or open the link that `outlast serve url` prints"
)
SEND_SECONDS = 60.0
FOREIGN_SITES = frozenset({"cross-site", "same-site"})


class Refusal(Exception):
    """The request is refused, with this status and this sentence."""

    def __init__(self, status: int, detail: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers


class Guard:
    """Wraps `app`. `webhooks` receives the POST requests below `/gateway/webhook/`: they need no token, and `webhooks`
    must check their signature."""

    def __init__(self, app: App, secret: Authenticator, hosts: AllowedHosts, *, webhooks: App | None = None) -> None:
        self._app = app
        self._secret = secret
        self._hosts = hosts
        self._webhooks = webhooks
        self.places = ConcurrencyLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        send = with_headers(send)
        try:
            self._check_host(scope)
            with self.places.place(stream=is_stream(scope)):
                await self._served(scope, receive, send)
        except (Refusal, LimitExceeded) as refused:
            headers = refused.headers if isinstance(refused, Refusal) else ((b"connection", b"close"),)
            await refuse(send, refused.status, refused.detail, headers)

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        proof = self._secret.proof(scope) if not self._is_open(scope) else None
        if proof is None and not self._is_open(scope):
            if scope["path"] != "/" or scope["method"] not in READING:
                raise Refusal(401, UNPROVEN, ((b"www-authenticate", b"Bearer"),))
            await send_login_page(send, 401)
            return
        self._check_origin(scope, proof)
        if "//" in scope["path"]:
            raise Refusal(404, "there is nothing at this path; it has two slashes in a row")
        if has_body(scope):
            self._check_content_type(scope)
            receive = replayed(await whole_body(scope, receive), receive)
        if self._webhooks is not None and self._is_webhook(scope):
            await self._webhooks(scope, receive, in_time(scope, send))
            return
        if scope["method"] == "OPTIONS":
            scope["method"] = UNKNOWN  # no CORS preflight is answered; refused like any unknown method
        await self._app(scope, receive, self._while_valid(scope, in_time(scope, send)))

    # --- one check each

    def _check_host(self, scope: Scope) -> None:
        host = sole_header(scope, b"host")
        if host is None or not self._hosts.allows_host(scope, host):
            raise Refusal(403, "this server does not answer to that host name; allow it with --allowed-host")
        scope["scheme"] = self._hosts.scheme(scope, host)

    def _is_open(self, scope: Scope) -> bool:
        return self._is_webhook(scope) or (scope["path"] in ("/healthz", LOGIN_PATH) and scope["method"] == "GET")

    def _is_webhook(self, scope: Scope) -> bool:
        is_posted = scope["method"] == "POST" and scope["path"].startswith(WEBHOOKS)
        return self._webhooks is not None and is_posted

    def _check_origin(self, scope: Scope, proof: str | None) -> None:
        """Refuse pages of other origins. A cookie allows changes only if our own page sends the request.

        A link to the page itself may be followed from any site: the page alone shows nothing and sends nothing.
        """
        origins = header_values(scope, b"origin")
        sites = [site.strip().lower() for site in header_values(scope, b"sec-fetch-site")]
        if any(not self._hosts.allows_origin(scope, origin) for origin in origins) or len(origins) > 1:
            raise Refusal(403, "cross-origin requests are not allowed")
        if len(sites) > 1 or (FOREIGN_SITES.intersection(sites) and not _follows_link(scope)):
            raise Refusal(403, "cross-site requests are not allowed")
        if proof == COOKIE and scope["method"] not in READING and not origins and sites != ["same-origin"]:
            raise Refusal(
                403,
                "the login cookie is accepted only from Outlast's own page; send the token as 'Authorization: Bearer'",
            )

    @staticmethod
    def _check_content_type(scope: Scope) -> None:
        """Accept only JSON: the content type alone rules out the forms and beacons of other pages."""
        given = sole_header(scope, b"content-type") or ""
        kind, _, parameters = given.partition(";")
        charset = parameters.strip().lower().replace('"', "")
        if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
            raise Refusal(415, "a body must be JSON: send 'Content-Type: application/json'")
        if any(value.strip().lower() != "identity" for value in header_values(scope, b"content-encoding")):
            raise Refusal(415, "a body must be sent as it is, without Content-Encoding")

    def _while_valid(self, scope: Scope, send: Send) -> Send:
        """Wrap `send` so that it cuts the connection once the token has changed. Streams of the old token end."""
        mark = self._secret.mark()

        async def sending(event: Event) -> None:
            if event["type"] == "http.response.body" and self._secret.recent_mark() != mark:
                cut(scope)
            else:
                await send(event)

        return sending


def in_time(scope: Scope, send: Send) -> Send:
    """Wrap `send` so that it cuts a stalled reader, which occupies a request slot. Streams have their own timeout."""
    if is_stream(scope):
        return send

    async def sending(event: Event) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await send(event)
        except TimeoutError:
            cut(scope)

    return sending


def cut(scope: Scope) -> None:
    """Abort the connection now. Later sends are discarded, and the application receives a disconnect. Raises
    ConnectionAbortedError if the server offers no abort function."""
    abort: Callable[[], None] | None = scope.get(ABORT)
    if abort is None:
        raise ConnectionAbortedError("the connection was cut")
    abort()


def is_stream(scope: Scope) -> bool:
    return scope["path"].startswith("/api/sessions/") and scope["path"].endswith("/stream")


def _follows_link(scope: Scope) -> bool:
    is_navigation = header_values(scope, b"sec-fetch-mode") == ["navigate"]
    is_document = header_values(scope, b"sec-fetch-dest") == ["document"]
    return scope["method"] == "GET" and scope["path"] in ("/", LOGIN_PATH) and is_navigation and is_document


async def refuse(send: Send, status: int, detail: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    body = msgspec.json.encode({"detail": detail})
    sent = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})
