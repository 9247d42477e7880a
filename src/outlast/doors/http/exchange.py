"""How bodies come in and answers go out: strictly typed JSON one way, JSON that never fails the other."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from litestar import Request, Response
from litestar.datastructures.state import State

from outlast.core.errors import InvalidInput
from outlast.core.secrets import mapped


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
