"""What every answer carries: nothing may be framed, sniffed, embedded or referred to, and no page may load what is not
ours. There is no CORS header anywhere, so no other origin can read an answer.

Which hosts and origins are ours: an exact list, against pages that let their own name point at this machine.

A browser tells by which name it came (Host) and which page asked (Origin). Both are compared as they were sent: no
name is resolved, no case folded, no dot cut off. A name that is not in the list is not served, whatever it points to.
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
    """The same, with what every answer carries. A page brings a policy of its own."""

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
    """The loopback names with the port that is really listened on, and what the user allows, as it was given.

    `public_url` is where a proxy in front of us is reached: its host and its origin are ours, too.
    """

    def __init__(self, allowed: Sequence[str] = (), public_url: str | None = None) -> None:
        self._allowed = frozenset(allowed)
        self._public = public_url.rstrip("/") if public_url else None
        self._public_host = self._public.partition("://")[2] if self._public else None

    def scheme(self, scope: Scope, host: str) -> str:
        """How the browser speaks to us. What a proxy says about it is not believed; what the user said is."""
        return self._public.partition("://")[0] if self._public and host == self._public_host else scope["scheme"]

    def allows_host(self, scope: Scope, host: str) -> bool:
        return host in self._allowed or host == self._public_host or host in _loopback(scope)

    def allows_origin(self, scope: Scope, origin: str) -> bool:
        """Whether the page that asks is one of ours. `null`, which a sandboxed page has, is nobody's."""
        if origin == self._public:
            return True
        scheme, separator, host = origin.partition("://")
        return bool(separator) and scheme == scope["scheme"] and self.allows_host(scope, host)


def _loopback(scope: Scope) -> frozenset[str]:
    """Through a Unix socket there is no port: then the bare names are meant."""
    server = scope.get("server") or ("", None)
    port = server[1]
    if port is None:
        return frozenset(LOOPBACK)
    named = frozenset(f"{name}:{port}" for name in LOOPBACK)
    return named | frozenset(LOOPBACK) if port == _DEFAULT_PORTS.get(scope["scheme"]) else named
