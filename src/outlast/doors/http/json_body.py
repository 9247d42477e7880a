"""JSON in both directions, and the ASGI types used by the HTTP door.

Requests are decoded strictly into the type that their handler declares. Encoding a response never fails, even if stored
text is not valid Unicode.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast

import msgspec
from litestar import Request, Response
from litestar.datastructures.state import State

from outlast.core.errors import InvalidInput
from outlast.core.redaction import mapped

Scope = Any
"""The ASGI scope of a request. `Any`, because every server and framework has its own type and no two agree."""
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Any, Any], Awaitable[None]]


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Return every value sent under this name, in order. A caller that expects one value must refuse two."""
    return [value.decode("latin-1") for found, value in scope["headers"] if found == name]


def sole_header(scope: Scope, name: bytes) -> str | None:
    """Return the value if there is exactly one; None if the header is missing or was sent twice."""
    values = header_values(scope, name)
    return values[0] if len(values) == 1 else None


class StrictRequest(Request[None, None, State]):
    """Decodes the body into the type that the handler declares, without guessing: an unknown field, a number in quotes
    or a missing field is refused, and the error names it."""

    async def json(self) -> Any:
        body = await self.body()
        field = self.route_handler.parsed_data_field
        wanted: Any = field.annotation if field is not None else object
        try:
            return _decoded(body, wanted)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"the body does not fit: {_plain(str(error))}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"the body is not JSON that can be read: {_plain(str(error))}") from error


def _decoded(body: bytes, wanted: Any) -> Any:
    """Decode the body. Accepts 3.0 for an integer: JSON does not distinguish it from 3."""
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
            raise
        return msgspec.convert(_whole_numbers(msgspec.json.decode(body)), wanted)


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _whole_numbers(one) for key, one in cast("dict[str, Any]", value).items()}
    return value


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "'").split())


class JsonResponse(Response[Any]):
    """Sends stored text that is not valid Unicode with replacement characters, instead of failing."""

    def render(self, content: Any, media_type: str, enc_hook: Any = None) -> bytes:
        if isinstance(content, bytes):
            return content
        if not media_type.startswith("application/json"):
            return super().render(content, media_type, enc_hook)
        return encoded(content)


def encoded(content: Any) -> bytes:
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return msgspec.json.encode(mapped(msgspec.to_builtins(content, str_keys=True), valid_text))


def valid_text(text: str) -> str:
    """Return the text with "?" for each character that UTF-8 cannot encode (lone surrogates)."""
    return text if text.isprintable() else text.encode("utf-8", "replace").decode("utf-8")
