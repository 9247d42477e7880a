"""`POST /gateway/webhook/{name}` as an ASGI application.

It is served by `outlast serve --gateway` behind its guard, or by `outlast gateway` alone. A response with status 200
means that the message is durable. A wrong name and a wrong signature get the same response, so that a caller cannot
find out which gateways exist.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec

from outlast.app.chat.chat_router import AdmittedMessage
from outlast.core.errors import ConflictError, InvalidInput, OutlastError
from outlast.doors.gateway.log import warned
from outlast.doors.gateway.platform import ChatUpdate
from outlast.doors.gateway.platforms.webhook import BadSignature, Webhook

PATH = "/gateway/webhook/"
LONGEST_BODY = 256 * 1024
UNSIGNED = "the signature is missing, wrong or too old; sign id.timestamp.body with the gateway's secret"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Take = Callable[[str, ChatUpdate], Awaitable[AdmittedMessage | None]]


class TooLarge(Exception):
    """The body is longer than any valid message."""


class WebhookEndpoint:
    """Accepts signed messages. `webhooks` are the adapters by gateway name, `take` stores an update."""

    def __init__(self, webhooks: Mapping[str, Webhook], take: Take) -> None:
        self._webhooks = webhooks
        self._take = take

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PATH):
            await send_json(send, 404, {"detail": "there is nothing here"})
        elif scope["method"] != "POST":
            await send_json(send, 405, {"detail": "send messages with POST"})
        else:
            await send_json(send, *await self._answered(scope, receive))

    async def _answered(self, scope: Scope, receive: Receive) -> tuple[int, dict[str, object]]:
        name = scope["path"].removeprefix(PATH)
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        try:
            body = await _body(receive)
            webhook = self._webhooks.get(name)
            if webhook is None:
                raise BadSignature
            taken = await self._take(name, webhook.update(headers, body, time.time()))
        except TooLarge:
            return 413, {"detail": f"a message has at most {LONGEST_BODY:,} bytes"}
        except BadSignature:
            warned("webhook.bad_signature")
            return 401, {"detail": UNSIGNED}
        except InvalidInput as error:
            return 400, {"detail": str(error)}
        except ConflictError:
            return 409, {"detail": "this webhook-id was used for another message; give each its own"}
        except OutlastError as error:
            return 503, {"detail": str(error)}
        if taken is None:
            return 200, {}
        return 200, {"session_id": taken.session_id, "seq": taken.seq}


async def _body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise BadSignature
        chunk = event.get("body", b"")
        size, more = size + len(chunk), bool(event.get("more_body"))
        if size > LONGEST_BODY:
            raise TooLarge
        chunks.append(chunk)
    return b"".join(chunks)


async def send_json(send: Send, status: int, body: dict[str, object]) -> None:
    data = msgspec.json.encode(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})
