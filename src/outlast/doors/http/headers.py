"""What every answer carries: nothing may be framed, sniffed, embedded or referred to, and no page may load what is not
ours. There is no CORS header anywhere, so no other origin can read an answer."""

from __future__ import annotations

from outlast.doors.http.asgi import Event, Send

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
