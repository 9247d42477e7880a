"""Tool calls that a model wrote as text: JSON in a code block, `<tool_call>` tags, or ReAct's Action / Action Input.

Text can quote anything, including a hostile file. So a call counts only if the reply ends with it, it names an offered
tool, and its arguments are one complete JSON object. It then goes through schema checks, permissions and records like
any other call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

import msgspec

from outlast.core.messages import Part, TextPart, ToolCall, text_of

MAX_CALLS = 8
MAX_TEXT = 256 * 1024

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FENCE = re.compile(r"^[ ]{0,3}(`{3,}|~{3,})[ \t]*([\w-]*)[ \t]*$", re.MULTILINE)
_ACTION = re.compile(r"^[ \t]*Action:[ \t]*([\w.-]+)[ \t]*\n[ \t]*Action Input:[ \t]*", re.MULTILINE)
_AFTER_ACTION = re.compile(r"\s*(?:Observation:\s*)?\Z")

_NAME_KEYS = ("name", "tool", "tool_name", "function", "action")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "action_input")


def calls_in(text: str, tools: Collection[str], id_prefix: str) -> tuple[ToolCall, ...]:
    """Return the calls at the end of this text, with ids `<prefix>1`, `<prefix>2`, ...; empty for plain text."""
    if len(text) > MAX_TEXT:
        return ()
    for found in (_tagged(text), _fenced(text), _react(text), _bare(text)):
        calls = [call for value in found for call in _calls(value, tools)]
        if calls:
            return tuple(
                ToolCall(id=f"{id_prefix}{n}", name=name, arguments=arguments)
                for n, (name, arguments) in enumerate(calls[:MAX_CALLS], 1)
            )
    return ()


def before_calls(text: str) -> str:
    """Return the text before the calls at its end."""
    tags, block, action = _tags(text), _last_block(text), _ACTION.search(text)
    starts = [tags[0]] if tags else []
    starts += [block[0]] if block else []
    starts += [action.start()] if action else []
    return text[: min(starts)].rstrip() if starts else ""


def with_calls(parts: tuple[Part, ...], calls: tuple[ToolCall, ...]) -> tuple[Part, ...]:
    """Return the parts of a reply with the calls at the end of its text replaced by `ToolCall` parts."""
    before = before_calls(text_of(parts))
    kept = tuple(part for part in parts if not hasattr(part, "text"))
    return (*((TextPart(before),) if before else ()), *kept, *calls)


def _tags(text: str) -> tuple[int, list[str]] | None:
    """Return the start of the tags at the end of the text, and the content of each. Scans from the end, in one pass."""
    inner: list[str] = []
    first, rest = 0, text.rstrip()
    while rest.endswith(_CLOSE) and (start := rest.rfind(_OPEN)) >= 0:
        if len(inner) == MAX_CALLS:
            return None
        inner.append(rest[start + len(_OPEN) : -len(_CLOSE)])
        first, rest = start, rest[:start].rstrip()
    return (first, inner[::-1]) if inner else None


def _tagged(text: str) -> Iterator[object]:
    tags = _tags(text)
    if tags is not None and not _inside_a_block(text, tags[0]):
        yield from (_json(inner) for inner in tags[1])


def _fenced(text: str) -> Iterator[object]:
    block = _last_block(text)
    if block is not None:
        yield _json(block[1])


def _react(text: str) -> Iterator[object]:
    last = max(_ACTION.finditer(text), key=lambda found: found.start(), default=None)
    if last is None or _inside_a_block(text, last.start()):
        return
    value, rest = _leading_object(text[last.end() :])
    if value is not None and _AFTER_ACTION.fullmatch(rest):
        yield {"name": last.group(1), "arguments": value}


def _bare(text: str) -> Iterator[object]:
    if text.lstrip().startswith(("{", "[")):
        yield _json(text)


def _last_block(text: str) -> tuple[int, str] | None:
    """Return the start and the content of the code block at the end of the text."""
    opened: re.Match[str] | None = None
    last: tuple[int, str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence.group(1).startswith(opened.group(1)) and not fence.group(2):
            closed_last = not text[fence.end() :].strip()
            if closed_last and opened.group(2).lower() in ("", "json", "tool_call", "tool_code"):
                last = opened.start(), text[opened.end() : fence.start()]
            opened = None
    return last


def _inside_a_block(text: str, at: int) -> bool:
    opened = None
    for fence in _FENCE.finditer(text[:at]):
        if opened is None:
            opened = fence.group(1)
        elif fence.group(1).startswith(opened) and not fence.group(2):
            opened = None
    return opened is not None


def _leading_object(text: str) -> tuple[object, str]:
    """Return the JSON object at the start of the text, and the text after it."""
    if not text.startswith("{"):
        return None, text
    depth, quoted, escaped = 0, False, False
    for at, char in enumerate(text):
        if quoted:
            escaped, quoted = char == "\\" and not escaped, not (char == '"' and not escaped)
        elif char == '"':
            quoted = True
        elif char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0:
                return _json(text[: at + 1]), text[at + 1 :]
    return None, text


def _json(text: str) -> object:
    try:
        return msgspec.json.decode(text.strip().encode("utf-8", "surrogatepass"))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _calls(value: object, tools: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _calls(item, tools)
    elif isinstance(value, Mapping):
        call = cast("Mapping[str, object]", value)
        if isinstance(call.get("tool_calls"), list):
            yield from _calls(call["tool_calls"], tools)
        elif isinstance(call.get("function"), Mapping):
            yield from _calls(call["function"], tools)
        else:
            yield from _call(call, tools)


def _call(value: Mapping[str, object], tools: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    name = next((value[key] for key in _NAME_KEYS if key in value), None)
    arguments = next((value[key] for key in _ARGUMENT_KEYS if key in value), None)
    if isinstance(arguments, str):  # OpenAI encodes the arguments as a JSON string
        arguments = _json(arguments)
    if isinstance(name, str) and name in tools and isinstance(arguments, dict):
        yield name, cast("dict[str, Any]", arguments)
