"""What proves that a request is the user's: the token itself, a cookie signed with it, or a code that is good once.

A cookie holds no secret of its own: it is a date and a signature, so it survives a restart and dies with the token.
Codes are in memory only: a login link is worth nothing after a use, a restart or a few minutes.

Logging in with a browser: the link that `outlast serve` prints is good once and becomes a cookie.
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
    """Who may come in. Every comparison takes the same time, whatever was sent."""

    def __init__(self, token: TokenFile, now: Callable[[], float] = time.time) -> None:
        self._token = token
        self._now = now
        self._codes: OrderedDict[str, float] = OrderedDict()
        self._marked = (0.0, "")

    def mark(self) -> str:
        """Changes when the token does: whoever was let in with another one is to be put out."""
        mark = self._signed("mark")
        self._marked = (time.monotonic(), mark)
        return mark

    def recent_mark(self) -> str:
        """The same as of a moment ago: thousands of frames a second ask for it."""
        at, mark = self._marked
        return mark if time.monotonic() - at < RECENT_SECONDS else self.mark()

    def proof(self, scope: Scope) -> str | None:
        """How the request proves itself: `bearer`, `cookie`, or None. A wrong token is not made good by a cookie."""
        given = header_values(scope, b"authorization")
        if given:
            scheme, _, token = given[0].partition(" ")
            return BEARER if len(given) == 1 and scheme.lower() == "bearer" and self._is_token(token) else None
        name = cookie_name(scope)
        return COOKIE if any(self._is_cookie(name, value) for value in _cookies(scope, name)) else None

    # --- the cookie

    def cookie(self, scope: Scope) -> str:
        """The value of Set-Cookie that lets a browser in."""
        name, expires = cookie_name(scope), int(self._now()) + COOKIE_SECONDS
        return f"{name}={expires}.{self._cookie_signature(name, expires)}; Max-Age={COOKIE_SECONDS}{_flags(scope)}"

    @staticmethod
    def no_cookie(scope: Scope) -> str:
        """The value of Set-Cookie that takes it away again."""
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
        """A code that is good once, for a few minutes."""
        code = secrets.token_urlsafe(32)
        self._codes[_digest(code.encode())] = self._now() + CODE_SECONDS
        while len(self._codes) > MOST_CODES:
            self._codes.popitem(last=False)
        return code

    def take(self, code: str) -> bool:
        """Whether this code was good; now it is not any more."""
        until = self._codes.pop(_digest(code.encode("utf-8", "surrogatepass")), None)
        return until is not None and self._now() < until

    # --- inside

    def _is_token(self, given: str) -> bool:
        """Of digests, so that not even the length can be learned from how long it takes."""
        return hmac.compare_digest(_digest(given.encode("latin-1")), _digest(self._token.token().encode()))

    def _signed(self, text: str) -> str:
        return hmac.new(self._token.token().encode(), text.encode(), hashlib.sha256).hexdigest()


def cookie_name(scope: Scope) -> str:
    """Browsers send cookies to every port of a host, so each server has its own name."""
    server = scope.get("server") or ("", None)
    return f"outlast-{server[1]}" if server[1] is not None else "outlast"


def _flags(scope: Scope) -> str:
    return "; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if scope["scheme"] == "https" else "")


def _cookies(scope: Scope, name: str) -> list[str]:
    """Every value under this name: another server of this machine may have set one of its own."""
    pairs = [pair.strip().partition("=") for sent in header_values(scope, b"cookie") for pair in sent.split(";")]
    return [value for found, _, value in pairs if found == name][:8]


def _digest(given: bytes) -> str:
    return hashlib.sha256(given).hexdigest()


LOGIN_PATH = "/login"
USED = "That link was used already, or is too old. Get a fresh one."


async def send_login_page(send: Send, status: int) -> None:
    """What those get who come without the cookie."""
    found = login_page()
    headers = [(name.lower().encode(), value.encode()) for name, value in found.headers.items()]
    headers.append((b"content-length", str(len(found.body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": found.body})
