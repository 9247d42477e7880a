"""JSON in both directions, and the ASGI types used by the HTTP door.

Requests are decoded strictly into the type that their handler declares. Encoding a response never fails, even if stored
text is not valid Unicode.
"""

from __future__ import annotations

import asyncio
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


LARGE_BODY = 256 * 1024
"""A body of this size is decoded in a thread, so that other requests are answered meanwhile."""


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
            if len(body) < LARGE_BODY:
                return _decoded(body, wanted)
            return await asyncio.to_thread(decoded_in_pieces, body, wanted)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"invalid request body: {_plain(str(error))}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"the request body is not valid JSON: {_plain(str(error))}") from error


def _decoded(body: bytes, wanted: Any) -> Any:
    """Decode the body. Accepts 3.0 for an integer: JSON does not distinguish it from 3."""
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.ValidationError as error:
        if "got `float`" not in str(error):
            raise
        return msgspec.convert(_whole_numbers(msgspec.json.decode(body)), wanted)


PIECE = 1024 * 1024
_string_decoder = msgspec.json.Decoder(str)
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decoded_in_pieces(body: bytes, wanted: Any) -> Any:
    """Decode a large body like `_decoded`, its long texts piece by piece: one call of the decoder on all of it would
    stop every thread of the process."""
    if not (isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)):
        return _decoded(body, wanted)
    raw_fields = _fields_decoder.decode(body)
    known = {field.encode_name: field for field in msgspec.structs.fields(wanted)}
    texts = {
        name: _text_in_pieces(memoryview(raw))
        for name, raw in raw_fields.items()
        if name in known and len(raw) > PIECE and memoryview(raw)[0] == ord('"')
    }
    try:
        values = {known[name].name: msgspec.convert(text, known[name].type) for name, text in texts.items()}
    except msgspec.ValidationError:
        values = {}
    if not values:
        return _decoded(body, wanted)  # also names the field that does not fit
    beginnings = {name: msgspec.Raw(msgspec.json.encode(text[:1])) for name, text in texts.items()}
    found = _decoded(msgspec.json.encode(raw_fields | beginnings), wanted)
    return msgspec.structs.replace(found, **values)


def _text_in_pieces(quoted: memoryview) -> str:
    texts: list[str] = []
    at, end = 1, len(quoted) - 1
    while at < end:
        cut = _cut(quoted, min(at + PIECE, end), end)
        texts.append(_string_decoder.decode(b'"%b"' % quoted[at:cut]))
        at = cut
    return "".join(texts)


def _cut(quoted: memoryview, at: int, end: int) -> int:
    """Return the first place from `at` on that is not inside a character, an escape or a pair of surrogate escapes."""
    while at < end:
        byte, before = quoted[at], bytes(quoted[at - LONGEST_ESCAPE : at])
        if byte & 0xC0 != 0x80 and b"\\" not in before:
            return at
        if byte == BACKSLASH and _backslashes(quoted, at) % 2 == 0:
            second = bytes(quoted[at : at + 4]).lower()
            if second[:3] != b"\\ud" or second[3:] not in (b"c", b"d", b"e", b"f"):
                return at
        at += 1
    return end


BACKSLASH = ord("\\")
LONGEST_ESCAPE = 12


def _backslashes(quoted: memoryview, at: int) -> int:
    """Return the number of backslashes directly before this place."""
    first = at
    while quoted[first - 1] == BACKSLASH:
        first -= 1
    return at - first


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
