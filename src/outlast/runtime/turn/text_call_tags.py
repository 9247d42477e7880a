"""XML-like tags with which models write tool calls as text, read from the end of the text.

    <tool_call>{"name": ..., "arguments": {...}}</tool_call>
    <function=NAME>{...}</function>                 <function=NAME><parameter=KEY>VALUE</parameter></function>
    <invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>

Several calls may follow each other, and `<function_calls>` or `<tool_calls>` may enclose them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, cast

from outlast.runtime.turn.text_call_json import json_value

MAX_ELEMENTS = 16

_TAG = re.compile(r"<\|?(/?)(?:[a-z]{1,12}:)?([a-z_]{1,20})\|?>")
_ENCLOSING = frozenset({"function_calls", "tool_calls"})
_JSON_TAGS = frozenset({"tool_call", "function_call"})
_OPENED = {
    "function": re.compile(r"<(?:[a-z]{1,12}:)?function=\"?([\w.-]+)\"?\s*>"),
    "invoke": re.compile(r"<(?:[a-z]{1,12}:)?invoke name=\"([\w.-]+)\"\s*>"),
}
_MARKS = {"function": "function=", "invoke": "invoke name="}
_PARAMETER_END = re.compile(r"</(?:[a-z]{1,12}:)?parameter>(?=\s*(?:<(?:[a-z]{1,12}:)?parameter[= ]|\Z))")
_PARAMETER = re.compile(
    r"\s*<(?:[a-z]{1,12}:)?parameter(?:=\"?([\w.-]+)\"?| name=\"([\w.-]+)\"[^<>]{0,40})\s*>(.*)\Z", re.DOTALL
)

Call = tuple[str, dict[str, Any]]


class TaggedCalls(NamedTuple):
    """`elements`: the JSON text of a `<tool_call>`, or a call with its name and arguments."""

    start: int
    elements: list[str | Call]


def tagged_calls(text: str, tools: Collection[str]) -> TaggedCalls | None:
    """Return the tags at the end of the text, None if there are none or one cannot be read. With schemas in `tools`
    the values of parameters get their types."""
    schemas: Mapping[str, Mapping[str, Any]] = {}
    if isinstance(tools, Mapping):
        schemas = cast("Mapping[str, Mapping[str, Any]]", tools)
    elements: list[str | Call] = []
    start, rest = len(text), text.rstrip()
    while (tag := _last_tag(rest)) is not None and len(elements) <= MAX_ELEMENTS:
        at, closing, name = tag
        if name in _ENCLOSING and (closing or elements):
            start, rest = (start if closing else at), rest[:at].rstrip()
            continue
        element = _element(rest, at, name, schemas) if closing else None
        if element is None:
            break
        start, rest = element[0], rest[: element[0]].rstrip()
        elements += reversed(element[1])
    return TaggedCalls(start, elements[::-1]) if elements else None


def _last_tag(text: str) -> tuple[int, bool, str] | None:
    """Return place, kind and name of the tag with which the text ends."""
    at = text.rfind("<", max(0, len(text) - 40)) if text.endswith(">") else -1
    found = _TAG.fullmatch(text, at) if at >= 0 else None
    return (at, bool(found.group(1)), found.group(2)) if found is not None else None


def _element(
    text: str, closed_at: int, name: str, schemas: Mapping[str, Mapping[str, Any]]
) -> tuple[int, list[str | Call]] | None:
    """Return the start and the calls of the element whose closing tag is at `closed_at`."""
    if name in _JSON_TAGS:
        opened = max(text.rfind(f"<{name}>", 0, closed_at), text.rfind(f"<|{name}|>", 0, closed_at))
        if opened < 0:
            return None
        inner = text[text.index(">", opened) + 1 : closed_at]
        if not inner.lstrip().startswith("<"):
            return opened, [inner]
        nested = tagged_calls(inner, schemas)
        return (opened, nested.elements) if nested is not None else None
    if name not in _OPENED:
        return None
    mark = text.rfind(_MARKS[name], 0, closed_at)
    found = _OPENED[name].match(text, text.rfind("<", 0, mark)) if mark > 0 else None
    if found is None:
        return None
    arguments = _arguments(text[found.end() : closed_at], schemas.get(found.group(1), {}))
    return None if arguments is None else (found.start(), [(found.group(1), arguments)])


def _arguments(body: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    if not body.strip():
        return {}
    if body.lstrip().startswith("{"):
        value = json_value(body)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else None
    arguments: dict[str, Any] = {}
    for piece in _PARAMETER_END.split(body):
        if not piece.strip():
            continue
        found = _PARAMETER.match(piece)
        if found is None:
            return None
        key = found.group(1) or found.group(2)
        arguments[key] = _typed(found.group(3), schema.get("properties", {}).get(key, {}))
    return arguments


def _typed(text: str, schema: Mapping[str, Any]) -> object:
    """Return the value in the type of its schema; text stays text, without the line breaks next to the tags."""
    text = text.removeprefix("\n").removesuffix("\n")
    types = schema.get("type", "string")
    if "string" in (types if isinstance(types, list) else [types]):
        return text
    value = json_value(text)
    return text if value is None and text.strip() != "null" else value
