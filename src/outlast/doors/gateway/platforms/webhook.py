"""Generic webhook adapter: any program that can sign a POST can be a chat platform.

Both directions are signed as in Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`, which is
`v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`. A message arrives by `POST /gateway/webhook/NAME` and is
stored before the response is sent; replies go to the callback URL of the settings. Repeats are recognised by the id, in
both directions; a signature older than five minutes is rejected.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Mapping

import httpx
import msgspec

from outlast.core.chat_route import ChatAddress
from outlast.core.errors import InvalidInput
from outlast.doors.gateway.platform import ChatUpdate, MaybeSent, NotSent, OutgoingMessage, Rejected, size_in_bytes

TOLERANCE_SECONDS = 300
LONGEST_ID = 200
TIMEOUT = 20.0
PREFIX = "whsec_"


class WebhookBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message as a program posts it. `private` is False if others can read it. `press` is the data of a button."""

    chat: str
    user: str
    text: str | None = None
    thread: str = ""
    message_id: str | None = None
    reply_to: str | None = None
    press: str | None = None
    private: bool = True
    addressed: bool = True
    forwarded: bool = False


class BadSignature(Exception):
    """The request was not signed with the secret within the allowed time."""


class Webhook:
    """One callback URL and the shared secret."""

    name = "webhook"
    longest = 60_000
    typing_seconds = 3600.0
    can_edit = False
    knows_repeats = True  # by the `webhook-id`, which stays the same

    def __init__(self, secret: str, callback_url: str) -> None:
        self._key = key_of(secret)
        self._callback_url = callback_url
        self._client: httpx.AsyncClient | None = None

    def size(self, text: str) -> int:
        return size_in_bytes(text)

    async def open(self) -> str:
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False, trust_env=False)
        return "webhook"

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def receive(self) -> AsyncIterator[ChatUpdate]:
        """Never yields: messages arrive by HTTP (`outlast.doors.gateway.platforms.webhook_endpoint`)."""
        await asyncio.Event().wait()
        yield ChatUpdate(update_id="", address=ChatAddress(""), user="")

    def update(self, headers: Mapping[str, str], body: bytes, now: float) -> ChatUpdate:
        """The update in a signed request. Raises BadSignature, or InvalidInput if the signed body is not a message."""
        message_id = self.verify(headers, body, now)
        try:
            found = msgspec.json.decode(body, type=WebhookBody)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidInput(f"the body is not a message: {error}") from error
        if not found.chat or not found.user:
            raise InvalidInput("chat and user must not be empty")
        return ChatUpdate(
            update_id=message_id,
            address=ChatAddress(found.chat, found.thread),
            user=found.user,
            private=found.private,
            addressed=found.addressed,
            forwarded=found.forwarded,
            message_id=found.message_id,
            reply_to=found.reply_to,
            text=found.text,
            media=None if found.text is not None else "a message without text",
            pressed=found.press,
        )

    def verify(self, headers: Mapping[str, str], body: bytes, now: float) -> str:
        """Verify the signature and its age, and return the id of the request. Raises BadSignature."""
        message_id, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not 0 < len(message_id) <= LONGEST_ID or not message_id.isprintable() or not message_id.isascii():
            raise BadSignature
        if not at.isdecimal() or not at.isascii() or len(at) > 12 or abs(now - int(at)) > TOLERANCE_SECONDS:
            raise BadSignature
        wanted = signature(self._key, message_id, at, body)
        for given in headers.get("webhook-signature", "").split():
            if hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode()):
                return message_id
        raise BadSignature

    async def send(self, address: ChatAddress, message: OutgoingMessage) -> str:
        assert self._client is not None
        body = msgspec.json.encode(
            {
                "chat": address.chat,
                "thread": address.thread,
                "text": message.text,
                "reply_to": message.reply_to,
                "repeat": message.repeat,
                "buttons": message.buttons,
                **message.facts,
            }
        )
        headers = {"content-type": "application/json", **signed(self._key, message.key, body, int(time.time()))}
        try:
            answer = await self._client.post(self._callback_url, content=body, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise NotSent(f"the callback address cannot be reached: {error or type(error).__name__}") from error
        except httpx.HTTPError as error:
            raise MaybeSent(f"the callback address did not confirm it: {error or type(error).__name__}") from error
        return _taken(answer, message.key)

    async def edit(self, address: ChatAddress, message_id: str, message: OutgoingMessage) -> None:
        raise Rejected("messages of a webhook cannot be edited")

    async def typing(self, address: ChatAddress) -> None:
        """Does nothing: a program does not watch."""

    async def acknowledge(self, update: ChatUpdate) -> None:
        """The HTTP response is the acknowledgement."""

    async def is_private(self, chat: str) -> bool:
        return True  # the program that signs the requests is responsible for who can read them


def _taken(answer: httpx.Response, key: str) -> str:
    if answer.is_success:
        return key
    if answer.status_code in (429, 503):
        after = answer.headers.get("retry-after", "")
        raise NotSent("the callback address asks to wait", retry_after=float(after) if after.isdecimal() else None)
    if answer.status_code == 410:
        raise Rejected("the callback address says that the chat is gone (410)")
    if 400 <= answer.status_code < 500 and answer.status_code not in (408, 409, 425):
        raise NotSent(f"the callback address refuses it with status {answer.status_code}; correct its settings")
    raise MaybeSent(f"the callback address answered with status {answer.status_code}")


def key_of(secret: str) -> bytes:
    """Key bytes of a secret: base64 after `whsec_`, as the libraries write it, otherwise the text itself."""
    if secret.startswith(PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error as error:
            raise InvalidInput("the secret begins with whsec_, but the rest is not base64; copy it again") from error
    return secret.encode()


def signature(key: bytes, message_id: str, at: str, body: bytes) -> str:
    digest = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def signed(key: bytes, message_id: str, body: bytes, at: int) -> dict[str, str]:
    """Headers of a signed request."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": signature(key, message_id, str(at), body),
    }
