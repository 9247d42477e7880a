"""Tool calls that a model wrote as text, and calls and results written as text for such a model.

The forms: `Action:` / `Action Input:` lines (which the text dialect teaches), `<tool_call>`, `<function=...>` and
`<invoke name=...>` tags, JSON in a code block, and bare JSON. Text can quote anything, including a hostile file. So a
call counts only if the reply ends with it, it begins a line outside of code blocks, and it names an offered tool with
one complete JSON object as arguments. It then goes through schema checks, permissions and records like any other call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from outlast.core.messages import Message, Part, ReasoningPart, Role, TextPart, ToolCall, ToolResult
from outlast.runtime.turn.text_call_json import json_value, leading_object
from outlast.runtime.turn.text_call_tags import tagged_calls

MAX_CALLS = 8
MAX_ACTIONS = 16
MAX_TEXT = 256 * 1024

TAGS, ACTIONS, FENCED, BARE = "tags", "actions", "fenced", "bare"
EXPLICIT = frozenset({TAGS, ACTIONS})
"""Forms that mean a call and nothing else; JSON may also be what the user asked to see."""
ALL_FORMS = frozenset({TAGS, ACTIONS, FENCED, BARE})

_FENCE = re.compile(r"^[ ]{0,3}(`{3,}|~{3,})[ \t]*([\w-]*)[ \t]*$", re.MULTILINE)
_ANY_FENCE = re.compile(r"^[ \t>*+-]*(`{3,}|~{3,})([^`\n]*)$", re.MULTILINE)
_ACTION = re.compile(r"^[ \t]*\**Action:\**[ \t]*`?([\w.-]+)`?[ \t]*\n[ \t]*\**Action Input:\**[ \t]*", re.MULTILINE)
_AFTER_ACTION = re.compile(r"\s*(?:Observation:\s*)?\Z")
_INVENTED = re.compile(r"\s{0,20}\**Observation")
_CALL_BLOCKS = ("", "json", "tool_call", "tool_code")

_NAME_KEYS = ("name", "tool", "tool_name", "function", "action")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "action_input")


class WrittenCalls(NamedTuple):
    """The calls at the end of a text, and the text before them."""

    before: str
    calls: tuple[ToolCall, ...]


class _Found(NamedTuple):
    """Where the calls begin, and each as (name, arguments); text instead of an object is malformed JSON."""

    start: int
    calls: list[tuple[str, dict[str, Any] | str]]


def read_calls(
    text: str,
    tools: Collection[str] | Mapping[str, Mapping[str, Any]],
    id_prefix: str,
    *,
    forms: frozenset[str] = ALL_FORMS,
    taught: bool = False,
) -> WrittenCalls | None:
    """Return the calls at the end of this text, with ids `<prefix>1`, `<prefix>2`, ...; None for plain text.

    `tools` are names, or names with JSON schemas. `taught`: the model was told to write calls as text. A malformed or
    unknown call is then returned, too, so that the model gets its error, and a result that the model invented after
    its call is ignored.
    """
    if len(text) > MAX_TEXT:
        return None
    known = None if taught else tools
    for form, find in ((TAGS, _tagged), (ACTIONS, _actions), (FENCED, _fenced), (BARE, _bare)):
        found = find(text, tools, taught) if form in forms else None
        if found is None or not found.calls:
            continue
        if known is not None and any(name not in known or isinstance(given, str) for name, given in found.calls):
            continue
        calls = [_tool_call(f"{id_prefix}{n}", *call) for n, call in enumerate(found.calls[:MAX_CALLS], 1)]
        return WrittenCalls(text[: found.start].rstrip(), tuple(calls))
    return None


def _tool_call(call_id: str, name: str, given: dict[str, Any] | str) -> ToolCall:
    if isinstance(given, str):
        return ToolCall(id=call_id, name=name, raw=given)
    return ToolCall(id=call_id, name=name, arguments=given)


def with_calls(parts: tuple[Part, ...], written: WrittenCalls) -> tuple[Part, ...]:
    """Return the parts of a reply with the calls at the end of its text replaced by `ToolCall` parts. Reasoning loses
    its signature, which belongs to the reply as the model wrote it."""
    thought = tuple(ReasoningPart(text=part.text) for part in parts if isinstance(part, ReasoningPart) and part.text)
    return (*thought, *((TextPart(written.before),) if written.before else ()), *written.calls)


# ---- the forms ------------------------------------------------------------------------------------------------------


def _tagged(text: str, tools: Collection[str], taught: bool) -> _Found | None:
    found = tagged_calls(text, tools)
    if found is None or _is_quoted(text, found.start) or len(found.elements) > MAX_CALLS:
        return None
    calls: list[tuple[str, dict[str, Any] | str]] = []
    for element in found.elements:
        if isinstance(element, str):
            read = list(_calls(json_value(element), None))
            if not read and taught:
                read = [("tool_call", element.strip())]
            calls += read
        else:
            calls.append(element)
    return _Found(found.start, calls)


def _actions(text: str, tools: Collection[str], taught: bool) -> _Found | None:
    block = _last_block(text, ("", "text", "action")) if taught else None
    if block is not None and _ACTION.search(block[1]):
        found = _action_chain(block[1], taught)
        return _Found(block[0], found.calls) if found is not None else None
    found = _action_chain(text, taught)
    return None if found is None or _is_quoted(text, found.start) else found


def _action_chain(text: str, taught: bool) -> _Found | None:
    """Return the actions at the end of the text: neighbours, with nothing but white space between them."""
    matches = list(_ACTION.finditer(text))
    if len(matches) > MAX_ACTIONS:
        return None
    start, end = 0, 0
    calls: list[tuple[str, dict[str, Any] | str]] = []
    for match in matches:
        if match.start() < end:
            continue  # inside the arguments of the call before it
        if not calls or text[end : match.start()].strip():
            calls, start = [], match.start()
        given, end = leading_object(text, match.end())
        if isinstance(given, dict):
            calls.append((match.group(1), cast("dict[str, Any]", given)))
            if taught and _INVENTED.match(text, end):
                return _Found(start, calls)
        elif taught:
            following = next((m.start() for m in matches if m.start() > match.end()), len(text))
            calls.append((match.group(1), text[match.end() : following].strip()))
            end = following
        else:
            calls = []
    return _Found(start, calls) if calls and _AFTER_ACTION.fullmatch(text, end) else None


def _fenced(text: str, tools: Collection[str], taught: bool) -> _Found | None:
    block = _last_block(text, _CALL_BLOCKS)
    return None if block is None else _Found(block[0], list(_calls(json_value(block[1]), tools)))


def _bare(text: str, tools: Collection[str], taught: bool) -> _Found | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    return _Found(0, list(_calls(json_value(text), tools)))


def _last_block(text: str, languages: Collection[str]) -> tuple[int, str] | None:
    """Return the start and the content of the code block at the end of the text."""
    opened: re.Match[str] | None = None
    last: tuple[int, str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence.group(1).startswith(opened.group(1)) and not fence.group(2):
            closed_last = not text[fence.end() :].strip()
            if closed_last and opened.group(2).lower() in languages:
                last = opened.start(), text[opened.end() : fence.start()]
            opened = None
    return last


def _is_quoted(text: str, at: int) -> bool:
    """Whether what stands here is in a code block, or has other text before it on its line, such as the `>` of a
    quotation or a line number."""
    if text[text.rfind("\n", 0, at) + 1 : at].strip(" \t"):
        return True
    opened = None
    for fence in _ANY_FENCE.finditer(text[:at]):
        if opened is None:
            opened = fence.group(1)
        elif fence.group(1).startswith(opened) and not fence.group(2).strip():
            opened = None
    return opened is not None


def _calls(value: object, tools: Collection[str] | None) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Yield the calls in a JSON value; with `tools`, only calls of these."""
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


def _call(value: Mapping[str, object], tools: Collection[str] | None) -> Iterator[tuple[str, dict[str, Any] | str]]:
    name = next((value[key] for key in _NAME_KEYS if key in value), None)
    arguments = next((value[key] for key in _ARGUMENT_KEYS if key in value), None)
    if isinstance(arguments, str):  # OpenAI encodes the arguments as a JSON string
        arguments = json_value(arguments)
    if isinstance(name, str) and (tools is None or name in tools) and isinstance(arguments, dict):
        yield name, cast("dict[str, Any]", arguments)


# ---- for a model that writes calls as text --------------------------------------------------------------------------


def messages_as_text(messages: Iterable[Message]) -> list[Message]:
    """Write every call as `Action:` lines of the assistant and every result as a message of the user: a server
    without tool support refuses both otherwise."""
    names: dict[str, str] = {}
    written: list[Message] = []
    for message in messages:
        names.update((call.id, call.name) for call in message.tool_calls)
        if message.tool_calls:
            written.append(_replaced(message, message.role, _as_actions(message.parts)))
        elif message.role is Role.TOOL or message.tool_results:
            written.append(_replaced(message, Role.USER, tuple(_observed(part, names) for part in message.parts)))
        else:
            written.append(message)
    return written


def _replaced(message: Message, role: Role, parts: tuple[Part, ...]) -> Message:
    return msgspec.structs.replace(message, role=role, parts=parts)


def _as_actions(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    texts = [part.text.rstrip() if isinstance(part, TextPart) else _action(part) for part in parts if _is_said(part)]
    others = tuple(part for part in parts if not _is_said(part))
    return (*others, TextPart("\n".join(text for text in texts if text)))


def _is_said(part: Part) -> bool:
    return isinstance(part, TextPart | ToolCall)


def _action(call: Part) -> str:
    assert isinstance(call, ToolCall)
    given = call.raw if call.raw is not None else msgspec.json.encode(call.arguments).decode()
    return f"Action: {call.name}\nAction Input: {given}"


def _observed(part: Part, names: Mapping[str, str]) -> Part:
    if not isinstance(part, ToolResult):
        return part
    name = names.get(part.call_id) or part.name or "the tool"
    return TextPart(f"Observation of {name}{' (error)' if part.is_error else ''}:\n{part.content}")
