"""The few shapes of ASGI that are used here, by name.

How bodies come in and answers go out: strictly typed JSON one way, JSON that never fails the other.
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
"""What is known of a request. Every server and framework has a type of its own for it, and no two agree."""
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Any, Any], Awaitable[None]]


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Every value that was sent under this name, in order: whoever expects one must refuse two."""
    return [value.decode("latin-1") for found, value in scope["headers"] if found == name]


def sole_header(scope: Scope, name: bytes) -> str | None:
    """The value if there is exactly one; None when it is missing or was sent twice."""
    values = header_values(scope, name)
    return values[0] if len(values) == 1 else None


class StrictRequest(Request[None, None, State]):
    """A body is decoded into what its handler takes, and nothing is guessed: an unknown field, a number in quotes or a
    missing field is refused with its name."""

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
    """To JSON, 3.0 is an integer as 3 is."""
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
    """Stored text may hold what is no valid Unicode; it is answered with replacement characters, not with a failure."""

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
    """The text with U+FFFD in place of what is no character."""
    return text if text.isprintable() else text.encode("utf-8", "replace").decode("utf-8")
