"""Codec: encodes events to bytes, and decodes the bytes of this and every earlier version.

Canonical JSON: keys sorted, defaults omitted. Every Python string survives: text with lone surrogates is written as
`{"$b64": ...}` of its surrogatepass bytes, byte strings as `{"$bytes": ...}`, and both from 64 KiB on as
`{"$blob": sha256, ...}`, with the blob's bytes returned separately. A caller's key that starts with `$` is escaped
with another `$`. Numbers that JSON cannot hold, and values over the depth and size limits, are refused by field name.

A kind, version or field that this version does not know decodes to `Opaque`; its bytes are never changed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from outlast.core.errors import InvalidInput
from outlast.core.events import KIND_OF, KINDS, Event, InputAdmitted, MessageAppended, Opaque
from outlast.core.messages import Role, TextPart
from outlast.core.unstorable import MAX_DEPTH, find_unstorable, largest, named

MAX_BODY = 4 * 1024 * 1024
BLOB_FROM = 64 * 1024
MAX_BLOB = 256 * 1024 * 1024
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

VERSIONS: dict[str, int] = {**dict.fromkeys(KINDS, 1), "ApprovalRequested": 2, "Compacted": 2, "ToolCallStarted": 2}
"""The version this Outlast writes, by kind."""

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTERS: dict[tuple[str, int], Upcaster] = {
    ("ApprovalRequested", 1): lambda body: body,  # version 2 added `mode`, which may be missing
    ("Compacted", 1): lambda body: body,  # version 2 added pruned outputs and the user's words, which may be missing
    ("ToolCallStarted", 1): lambda body: body,  # version 2 added `facts`, which may be missing
}
"""Functions that convert the body of (kind, version) to the next version."""

_encoder = msgspec.json.Encoder(order="deterministic")
_direct_encoder = msgspec.json.Encoder(order="sorted")
_decoders = {kind: msgspec.json.Decoder(cls) for kind, cls in KINDS.items()}


class Encoded(NamedTuple):
    kind: str
    v: int
    body: bytes
    blobs: dict[str, bytes]


def encode(event: Event) -> Encoded:
    """Return the stored form of an event, with the blobs that must be stored before it."""
    kind = KIND_OF[type(event)]
    body = _text_only(event)
    if body is not None:
        return Encoded(kind, VERSIONS[kind], body, {})
    blobs: dict[str, bytes] = {}
    written = _written(_plain(event, kind), kind, 0, blobs)
    body = _encoder.encode(written)
    if len(body) > MAX_BODY:
        field = largest(written, kind, lambda value: len(_encoder.encode(value)))
        raise InvalidInput(f"{field} is too large to store: {len(body)} bytes, the limit is {MAX_BODY}")
    # Structs do not validate their fields, so decode the body: an event that cannot be read must not be acknowledged.
    again = decode(kind, VERSIONS[kind], body, blobs.__getitem__)
    if isinstance(again, Opaque):
        raise InvalidInput(f"{kind} holds a value of the wrong type: {again.why}")
    if again != event and (strange := find_unstorable(event, kind)) is not None:
        raise InvalidInput(f"{strange.path} {strange.why}")
    return Encoded(kind, VERSIONS[kind], body, blobs)


def _text_only(event: Event) -> bytes | None:
    """Fast path for messages with only short, valid texts: same bytes as `_written`. None if it does not apply."""
    if not isinstance(event, MessageAppended | InputAdmitted):
        return None
    if isinstance(event, MessageAppended) and type(event.role) is not Role:
        return None
    for part in event.parts:
        if type(part) is not TextPart or type(part.text) is not str or len(part.text) >= BLOB_FROM:
            return None
    try:
        body = _direct_encoder.encode(event)
    except UnicodeEncodeError:
        return None
    return body if len(body) < BLOB_FROM else None


def to_json(value: Any) -> bytes:
    """Encode a value that is not an event, such as a snapshot, as canonical JSON: any text, no blobs, no limits."""
    plain = msgspec.to_builtins(value, builtin_types=_BINARY)
    return _encoder.encode(_written(plain, type(value).__name__, -MAX_DEPTH, None))


def from_json(data: bytes) -> Any:
    """Decode bytes from `to_json` to a plain value; raises `ValueError` if they are invalid."""
    try:
        return _read(msgspec.json.decode(data), None)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


_BINARY = (bytes, bytearray, memoryview)  # passed through unchanged: msgspec would convert the last two to text


def _plain(event: Event, kind: str) -> Any:
    try:
        return msgspec.to_builtins(event, builtin_types=_BINARY)
    except (TypeError, RecursionError) as error:
        strange = find_unstorable(event, kind)
        if strange is None:
            raise InvalidInput(f"{kind} cannot be stored: {error}") from error
        raise InvalidInput(f"{strange.path} {strange.why}") from error


def _written(value: Any, path: str, depth: int, blobs: dict[str, bytes] | None) -> Any:
    if isinstance(value, str):
        return _text(value, path, blobs)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not INT_MIN <= value <= INT_MAX:
            raise InvalidInput(f"{named(path)} is a number beyond 64 bits; send it as text")
        return value
    if isinstance(value, float):
        if value - value != 0.0:
            raise InvalidInput(f"{named(path)} is not a finite number; JSON cannot hold it")
        return value
    if isinstance(value, bytes):
        if blobs is not None and len(value) >= BLOB_FROM:
            return _spilled(value, "bytes", path, blobs)
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if depth >= MAX_DEPTH:
        raise InvalidInput(f"{named(path)} is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {_key(k, path): _written(v, f"{path}.{k}", depth + 1, blobs) for k, v in items}
    if isinstance(value, list | tuple):
        rows = cast("list[Any]", value)
        return [_written(v, f"{path}[{n}]", depth + 1, blobs) for n, v in enumerate(rows)]
    raise InvalidInput(f"{named(path)} is a {type(value).__name__}, which a log cannot hold")


def _text(value: str, path: str, blobs: dict[str, bytes] | None) -> Any:
    if value.isascii() and len(value) < BLOB_FROM:
        return value
    try:
        data, valid = value.encode("utf-8"), True
    except UnicodeEncodeError:
        data, valid = value.encode("utf-8", "surrogatepass"), False
    if blobs is not None and len(data) >= BLOB_FROM:
        return _spilled(data, "text", path, blobs)
    return value if valid else {"$b64": base64.b64encode(data).decode("ascii")}


def _spilled(data: bytes, what: str, path: str, blobs: dict[str, bytes]) -> dict[str, Any]:
    if len(data) > MAX_BLOB:
        raise InvalidInput(f"{named(path)} is too large to store: {len(data)} bytes, the limit is {MAX_BLOB}")
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"$blob": digest, "as": what, "size": len(data)}


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise InvalidInput(f"{named(path)} has a key that is not text: {key!r}")
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return "$b64:" + base64.b64encode(key.encode("utf-8", "surrogatepass")).decode("ascii")
    return "$" + key if key.startswith("$") else key


BlobReader = Callable[[str], bytes]


def decode(kind: str, v: int, body: bytes, blob: BlobReader | None = None) -> Event | Opaque:
    """Decode an event and convert it to the current version; `Opaque` if this Outlast does not know it.

    `blob` reads a blob by its digest; without it, an event that names a blob decodes to `Opaque`.
    """
    return decode_plain(kind, v, body) or _decode_any(kind, v, body, blob)


def decode_plain(kind: str, v: int, body: bytes) -> Event | None:
    """Fast path: decode an event of the current version that has no escaped values; None if it does not apply."""
    decoder = _decoders.get(kind)
    if decoder is None or v != VERSIONS[kind] or (b"$" in body and b'"$' in body):  # a one-byte search is much faster
        return None
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None  # the full decoder reports the reason


def _decode_any(kind: str, v: int, body: bytes, blob: BlobReader | None) -> Event | Opaque:
    newest = VERSIONS.get(kind)
    if newest is None:
        return Opaque(kind, v, "unknown kind")
    if v > newest:
        return Opaque(kind, v, "newer version")
    try:
        plain = cast("dict[str, Any]", _read(msgspec.json.decode(body), blob))
        for version in range(v, newest):
            plain = UPCASTERS[kind, version](plain)
        return msgspec.convert(plain, KINDS[kind], builtin_types=(bytes,))
    except (msgspec.ValidationError, KeyError) as error:
        return Opaque(kind, v, str(error))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return Opaque(kind, v, f"unreadable: {error}")


def blobs_named(body: bytes) -> set[str]:
    """Return the digests of all blobs that a stored body names, even if this version cannot decode the body."""
    found: set[str] = set()
    open_values: list[Any] = [msgspec.json.decode(body)] if b'"$blob"' in body else []
    while open_values:
        value = open_values.pop()
        if isinstance(value, list):
            open_values.extend(cast("list[Any]", value))
        elif isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            open_values.extend(fields.values())
            if isinstance(fields.get("$blob"), str):
                found.add(fields["$blob"])
    return found


def _read(value: Any, blob: BlobReader | None) -> Any:
    if isinstance(value, list):
        return [_read(item, blob) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("Mapping[str, Any]", value)
    if "$b64" in fields:
        return _bytes(fields["$b64"]).decode("utf-8", "surrogatepass")
    if "$bytes" in fields:
        return _bytes(fields["$bytes"])
    if "$blob" in fields:
        if blob is None:
            raise ValueError("its text lies in a blob")
        data = blob(fields["$blob"])
        return data if fields["as"] == "bytes" else data.decode("utf-8", "surrogatepass")
    return {_read_key(key): _read(item, blob) for key, item in fields.items()}


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("base64 that is not text")
    return base64.b64decode(value, validate=True)


def _read_key(key: str) -> str:
    if key.startswith("$b64:"):
        return base64.b64decode(key[5:], validate=True).decode("utf-8", "surrogatepass")
    if key.startswith("$") and not key.startswith("$$"):
        raise ValueError(f"'{key}' is unknown to this version")  # we escape `$`, so a newer version wrote it
    return key[1:] if key.startswith("$") else key
