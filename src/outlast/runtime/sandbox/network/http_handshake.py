"""The HTTP side of the proxy: CONNECT, and plain requests with a whole URL (`GET http://example.org/ HTTP/1.1`).

h11 parses the head strictly. A plain request is forwarded with `Connection: close`, so one connection of the client
serves one request and never reaches a second host that nobody decided about.
"""

from __future__ import annotations

import base64
import binascii
from urllib.parse import urlsplit

import h11

from outlast.runtime.sandbox.network.connection import plain_host
from outlast.runtime.sandbox.network.handshake import HEAD_LIMIT, ClientStream, KnowsToken, WantedConnection

REASONS = {
    400: "Bad Request", 403: "Blocked by the sandbox", 407: "Proxy Authentication Required",
    431: "Request Header Fields Too Large", 501: "Not Implemented", 502: "Bad Gateway",
}  # fmt: skip
_HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"host"}


class HttpHandshake:
    async def read(self, stream: ClientStream, knows: KnowsToken) -> WantedConnection | bytes | None:
        head = await stream.read_head()
        if head is None:
            return answer(431, f"the head is larger than {HEAD_LIMIT} bytes") if stream.buffer else None
        request = parse_head(head)
        if request is None:
            return answer(400, "this is not a valid HTTP request")
        token = credentials(request)
        if not knows(token):
            sentence = "blocked by the sandbox: the request names no running command; use the URL in HTTP_PROXY"
            return answer(407, sentence, "Proxy-Authenticate: Basic realm=sandbox")
        return tunnel(request, token) if request.method == b"CONNECT" else forward(request, token)

    def accept(self, wanted: WantedConnection) -> bytes:
        return b"" if wanted.head else b"HTTP/1.1 200 Connection established\r\n\r\n"

    def block(self, host: str, reason: str) -> bytes:
        return answer(403, f"blocked by the sandbox: no network to {host}; {reason}")

    def fail(self, host: str, reason: str) -> bytes:
        return answer(502, f"{host} could not be reached: {reason}")


def answer(status: int, sentence: str, *headers: str) -> bytes:
    body = f"{sentence}\n".encode()
    lines = [
        f"HTTP/1.1 {status} {REASONS[status]}", *headers, "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}", "Connection: close", "", "",
    ]  # fmt: skip
    return "\r\n".join(lines).encode() + body


def parse_head(head: bytes) -> h11.Request | None:
    """Parse a head. Some clients send CONNECT without the Host that h11 demands; the target names the host anyway."""
    if b"\r\nhost:" not in head.lower():
        head = head.replace(b"\r\n", b"\r\nHost: none\r\n", 1)
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
    try:
        parser.receive_data(head)
        event = parser.next_event()
    except h11.RemoteProtocolError:
        return None
    return event if isinstance(event, h11.Request) else None


def credentials(request: h11.Request) -> str:
    """Return the user name of the request's Basic credentials; "" without any."""
    values = [value for name, value in request.headers if name == b"proxy-authorization"]
    scheme, _, encoded = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
    if scheme.lower() != b"basic":
        return ""
    try:
        return base64.b64decode(encoded.strip(), validate=True).partition(b":")[0].decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def tunnel(request: h11.Request, token: str) -> WantedConnection | bytes:
    name, _, port = request.target.decode("latin-1").rpartition(":")
    host = plain_host(name)
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        return answer(400, "CONNECT names no host and port, such as example.org:443")
    return WantedConnection(token=token, host=host, port=int(port))


def forward(request: h11.Request, token: str) -> WantedConnection | bytes:
    """Return a plain request as its host gets it: with a path instead of the URL, and without what is for proxies."""
    target = request.target.decode("latin-1")
    try:
        parts = urlsplit(target)
        port = parts.port if parts.port is not None else 80
    except ValueError:
        return answer(400, "the URL of the request is not valid")
    if parts.scheme not in ("http", ""):
        return answer(501, f"the sandbox's proxy forwards http URLs; for {parts.scheme} connect with CONNECT or SOCKS5")
    host = plain_host(parts.hostname or "")
    if not parts.scheme or not host or port == 0:
        return answer(400, "a request to a proxy needs a whole URL, such as http://example.org/")
    lengths = {value for name, value in request.headers if name == b"content-length"}
    chunked = any(name == b"transfer-encoding" for name, _ in request.headers)
    if lengths and chunked:
        return answer(400, "the request has both a length and a transfer encoding")
    body = None if chunked else int(next(iter(lengths), b"0"))
    return WantedConnection(token=token, host=host, port=port, head=_forwarded(request, host, port), body=body)


def _forwarded(request: h11.Request, host: str, port: int) -> bytes:
    _, _, after = request.target.partition(b"://")
    cut = min((at for mark in (b"/", b"?") if (at := after.find(mark)) >= 0), default=len(after))
    path = after[cut:].partition(b"#")[0]
    path = path if path.startswith(b"/") else b"/" + path
    named = {
        word.strip().lower() for name, value in request.headers if name == b"connection" for word in value.split(b",")
    } - {b"content-length", b"transfer-encoding"}
    name = f"[{host}]" if ":" in host else host
    authority = name if port == 80 else f"{name}:{port}"
    lines = [b"%b %b HTTP/1.1" % (request.method, path), b"Host: " + authority.encode()]
    for raw, value in request.headers.raw_items():
        lower = raw.lower()
        if lower not in _HOP and lower not in named and not lower.startswith(b"proxy-"):
            lines.append(raw + b": " + value)
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])
