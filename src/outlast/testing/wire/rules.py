"""Rules shared by all three formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from outlast.core.messages import ToolCall

Wire = dict[str, Any]
Genuine = Callable[[str, str], bool]
"""Checks whether a signature is the provider's own and belongs to this text."""

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IMAGES = {"image/png": "iVBORw0KGgo", "image/jpeg": "/9j/", "image/gif": "R0lGOD", "image/webp": "UklGR"}
"""Accepted media types, with the base64 prefix of their images."""
MAX_ENCODED_IMAGE = 5 * 1024 * 1024
_DATA_URL = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,")


def tagged(text: str) -> str:
    """Mark a system message inside a session as text that the user did not write."""
    return f"<system-reminder>\n{text}\n</system-reminder>"


def thought(text: str) -> str:
    return f"<thinking>\n{text}\n</thinking>"


def object_of(call: ToolCall) -> Wire:
    """Return the arguments as an object; invalid JSON text is sent back under the name `INVALID_JSON`."""
    return call.arguments if call.raw is None else {"INVALID_JSON": call.raw}


def arguments_of(call: ToolCall) -> str:
    return msgspec.json.encode(object_of(call)).decode()


def text_faults(text: Any, where: str) -> Iterator[str]:
    if not isinstance(text, str):
        yield f"{where}: {type(text).__name__} is not text"
    elif not text.strip():
        yield f"{where}: text must not be empty"
    else:
        yield from unicode_faults(text, where)


def unicode_faults(text: str, where: str) -> Iterator[str]:
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        yield f"{where}: not valid Unicode"


def argument_faults(arguments: Any, where: str) -> Iterator[str]:
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, TypeError) as error:
        yield f"{where}: arguments are not JSON: {error}"
        return
    if not isinstance(value, dict):
        yield f"{where}: arguments are not an object"


def name_faults(name: Any, where: str) -> Iterator[str]:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"{where}: name {name!a} does not fit {NAME.pattern}"


def id_faults(call_id: Any, where: str, longest: int) -> Iterator[str]:
    if not isinstance(call_id, str) or not call_id:
        yield f"{where}: no call id"
    elif len(call_id) > longest:
        yield f"{where}: call id has {len(call_id)} characters, at most {longest} are allowed"


def image_faults(media_type: Any, encoded: Any, where: str) -> Iterator[str]:
    if media_type not in IMAGES:
        yield f"{where}: media type {media_type!a}"
    if not encoded:
        yield f"{where}: an empty image"
    elif not encoded.startswith(IMAGES.get(media_type, "")):
        yield f"{where}: image does not match the provided media type {media_type}"
    if encoded and len(encoded) > MAX_ENCODED_IMAGE:
        yield f"{where}: image exceeds 5 MB maximum: {len(encoded)} bytes > {MAX_ENCODED_IMAGE} bytes"


def link_faults(url: Any, where: str) -> Iterator[str]:
    """Check an image given by its address or as a data URL."""
    if not isinstance(url, str):
        yield f"{where}: no address"
        return
    data = _DATA_URL.match(url)
    if data is not None:
        yield from image_faults(data[1], url[data.end() :], where)
    elif not url.startswith(("https://", "http://")):
        yield f"{where}: address {url[:40]!a}"


def pdf_faults(url: Any, where: str) -> Iterator[str]:
    prefix = "data:application/pdf;base64,"
    if not isinstance(url, str) or not url.startswith(prefix) or len(url) == len(prefix):
        yield f"{where}: only PDF files are taken"


def items_in(value: Any) -> list[Wire]:
    return cast("list[Wire]", value) if isinstance(value, list) else []
