"""Logging in with a browser: the link that `outlast serve` prints is good once and becomes a cookie."""

from __future__ import annotations

from outlast.doors.http.asgi import Send
from outlast.doors.web.pages import login_page

LOGIN_PATH = "/login"
USED = "That link was used already, or is too old. Get a fresh one."


async def send_login_page(send: Send, status: int) -> None:
    """What those get who come without the cookie."""
    found = login_page()
    headers = [(name.lower().encode(), value.encode()) for name, value in found.headers.items()]
    headers.append((b"content-length", str(len(found.body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": found.body})
