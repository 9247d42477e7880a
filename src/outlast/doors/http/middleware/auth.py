"""Authentication: by the token, by a cookie signed with the token, or by a one-time login code.

A cookie contains no secret: it is an expiry date and a signature, so it survives a restart and becomes invalid when the
token changes. Codes exist only in memory: a login link becomes invalid after one use, a restart or a few minutes.

A browser logs in with the one-time link that `outlast serve` prints; it gets a cookie in exchange.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from outlast.app.api_token import TokenFile
from outlast.doors.http.json_body import Scope, Send, header_values
from outlast.doors.web.assets import login_page

COOKIE_SECONDS = 30 * 24 * 3600
CODE_SECONDS = 15 * 60
MOST_CODES = 16
RECENT_SECONDS = 0.2
BEARER, COOKIE = "bearer", "cookie"


class Authenticator:
    """Decides whether a request is authenticated. Every comparison takes constant time."""

    def __init__(self, token: TokenFile, now: Callable[[], float] = time.time) -> None:
        self._token = token
        self._now = now
        self._codes: OrderedDict[str, float] = OrderedDict()
        self._marked = (0.0, "")

    def mark(self) -> str:
        """Return a value that changes with the token: responses begun under another token must be cut."""
        mark = self._signed("mark")
        self._marked = (time.monotonic(), mark)
        return mark

    def recent_mark(self) -> str:
        """Return `mark`, cached for a moment: it is checked for thousands of frames per second."""
        at, mark = self._marked
        return mark if time.monotonic() - at < RECENT_SECONDS else self.mark()

    def proof(self, scope: Scope) -> str | None:
        """Return how the request is authenticated: `bearer`, `cookie`, or None. A valid cookie does not make up for a
        wrong token."""
        given = header_values(scope, b"authorization")
        if given:
            scheme, _, token = given[0].partition(" ")
            return BEARER if len(given) == 1 and scheme.lower() == "bearer" and self._is_token(token) else None
        name = cookie_name(scope)
        return COOKIE if any(self._is_cookie(name, value) for value in _cookies(scope, name)) else None

    # --- the cookie

    def cookie(self, scope: Scope) -> str:
        """Return the Set-Cookie value that logs a browser in."""
        name, expires = cookie_name(scope), int(self._now()) + COOKIE_SECONDS
        return f"{name}={expires}.{self._cookie_signature(name, expires)}; Max-Age={COOKIE_SECONDS}{_flags(scope)}"

    @staticmethod
    def no_cookie(scope: Scope) -> str:
        """Return the Set-Cookie value that deletes the cookie."""
        return f"{cookie_name(scope)}=; Max-Age=0{_flags(scope)}"

    def _is_cookie(self, name: str, value: str) -> bool:
        text, _, signature = value.partition(".")
        if not (text.isascii() and text.isdecimal() and len(text) <= 12):
            return False
        expires = int(text)
        is_ours = hmac.compare_digest(signature.encode(), self._cookie_signature(name, expires).encode())
        return is_ours and self._now() < expires

    def _cookie_signature(self, name: str, expires: int) -> str:
        return self._signed(f"cookie {name} {expires}")

    # --- codes

    def code(self) -> str:
        """Return a new code, valid once and for a few minutes."""
        code = secrets.token_urlsafe(32)
        self._codes[_digest(code.encode())] = self._now() + CODE_SECONDS
        while len(self._codes) > MOST_CODES:
            self._codes.popitem(last=False)
        return code

    def take(self, code: str) -> bool:
        """Return whether this code is valid, and invalidate it."""
        until = self._codes.pop(_digest(code.encode("utf-8", "surrogatepass")), None)
        return until is not None and self._now() < until

    # --- token and signature

    def _is_token(self, given: str) -> bool:
        """Compare digests, so that the timing does not reveal even the length of the token."""
        return hmac.compare_digest(_digest(given.encode("latin-1")), _digest(self._token.token().encode()))

    def _signed(self, text: str) -> str:
        return hmac.new(self._token.token().encode(), text.encode(), hashlib.sha256).hexdigest()


def cookie_name(scope: Scope) -> str:
    """Return a cookie name that contains the port: browsers send a cookie to every port of a host."""
    server = scope.get("server") or ("", None)
    return f"outlast-{server[1]}" if server[1] is not None else "outlast"


def _flags(scope: Scope) -> str:
    return "; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if scope["scheme"] == "https" else "")


def _cookies(scope: Scope, name: str) -> list[str]:
    """Return every value under this name: another server on this machine may have set its own cookie."""
    pairs = [pair.strip().partition("=") for sent in header_values(scope, b"cookie") for pair in sent.split(";")]
    return [value for found, _, value in pairs if found == name][:8]


def _digest(given: bytes) -> str:
    return hashlib.sha256(given).hexdigest()


LOGIN_PATH = "/login"
USED = "That link was already used or has expired. Get a new one."


async def send_login_page(send: Send, status: int) -> None:
    """Send the login page, for browsers without a valid cookie."""
    found = login_page()
    headers = [(name.lower().encode(), value.encode()) for name, value in found.headers.items()]
    headers.append((b"content-length", str(len(found.body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": found.body})
