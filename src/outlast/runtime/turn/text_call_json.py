"""JSON inside of a model's text: one value, or the object at a place of the text."""

from __future__ import annotations

import json
import re

import msgspec

_FENCE_OPEN = re.compile(r"\s{0,8}(`{3,})(?:json)?[ \t]*\n")


def json_value(text: str) -> object:
    """Parse the text as one JSON value; None if it is none. Line breaks inside of strings are accepted, because small
    models forget to escape them."""
    stripped = text.strip()
    try:
        return msgspec.json.decode(stripped.encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, RecursionError, ValueError):
        pass
    if "\n" not in stripped:
        return None
    try:
        return json.loads(stripped, strict=False)
    except (ValueError, RecursionError):
        return None


def leading_object(text: str, at: int) -> tuple[object, int]:
    """Return the JSON object at this place, in a code block or not, and the place after it. None if there is none."""
    fence = _FENCE_OPEN.match(text, at)
    start = fence.end() if fence is not None else at
    while start < len(text) and text[start] in " \t\r\n":
        start += 1
    end = _object_end(text, start)
    if end is None:
        return None, at
    value = json_value(text[start:end])
    if fence is not None:
        closing = re.compile(rf"\s{{0,8}}{fence.group(1)}").match(text, end)
        end = closing.end() if closing is not None else end
    return value, end


def _object_end(text: str, start: int) -> int | None:
    """Return the place after the brace that closes the object at `start`."""
    if not text.startswith("{", start):
        return None
    depth, quoted, escaped = 0, False, False
    for at in range(start, len(text)):
        char = text[at]
        if quoted:
            escaped, quoted = char == "\\" and not escaped, not (char == '"' and not escaped)
        elif char == '"':
            quoted = True
        elif char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0:
                return at + 1
    return None
