"""Security headers of every response, and the list of allowed hosts and origins.

The headers forbid framing, sniffing, embedding and referrers, and let a page load only our own files. No response has a
CORS header, so no other origin can read one.

The list protects against DNS rebinding. `Host` and `Origin` are compared exactly as sent: no name is resolved, no case
folded, no trailing dot removed. A name that is not in the list is refused, whatever it resolves to.
"""

from __future__ import annotations

from collections.abc import Sequence

from outlast.doors.http.json_body import Event, Scope, Send

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
DATA_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
ALWAYS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-embedder-policy", b"require-corp"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
UNLESS_SAID = ((b"content-security-policy", DATA_POLICY.encode()), (b"cache-control", b"no-store"))


def with_headers(send: Send) -> Send:
    """Wrap `send` so that it adds the headers of every response. A page sets its own content security policy."""

    async def sending(event: Event) -> None:
        if event["type"] == "http.response.start":
            given = list(event.get("headers", ()))
            said = {name.lower() for name, _ in given}
            more = [pair for pair in (*ALWAYS, *UNLESS_SAID) if pair[0] not in said]
            event = {**event, "headers": [*given, *more]}
        await send(event)

    return sending


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class AllowedHosts:
    """The loopback names with the actual port of the server, and the names that the user allows, exactly as given.

    `public_url` is the URL of a proxy in front of the server: its host and its origin are allowed too.
    """

    def __init__(self, allowed: Sequence[str] = (), public_url: str | None = None) -> None:
        self._allowed = frozenset(allowed)
        self._public = public_url.rstrip("/") if public_url else None
        self._public_host = self._public.partition("://")[2] if self._public else None

    def scheme(self, scope: Scope, host: str) -> str:
        """Return the scheme that the browser uses. It comes from the user's `public_url`, never from proxy headers."""
        return self._public.partition("://")[0] if self._public and host == self._public_host else scope["scheme"]

    def allows_host(self, scope: Scope, host: str) -> bool:
        return host in self._allowed or host == self._public_host or host in _loopback(scope)

    def allows_origin(self, scope: Scope, origin: str) -> bool:
        """Return whether the requesting page is ours. `null`, the origin of a sandboxed page, never is."""
        if origin == self._public:
            return True
        scheme, separator, host = origin.partition("://")
        return bool(separator) and scheme == scope["scheme"] and self.allows_host(scope, host)


def _loopback(scope: Scope) -> frozenset[str]:
    """Return the allowed loopback hosts; the bare names on a Unix socket, which has no port."""
    server = scope.get("server") or ("", None)
    port = server[1]
    if port is None:
        return frozenset(LOOPBACK)
    named = frozenset(f"{name}:{port}" for name in LOOPBACK)
    return named | frozenset(LOOPBACK) if port == _DEFAULT_PORTS.get(scope["scheme"]) else named
