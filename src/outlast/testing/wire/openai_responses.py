"""OpenAI responses: the input is a list of items."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from outlast.core.messages import FilePart, ImagePart, Message, Part, ReasoningPart, Role, TextPart, ToolCall
from outlast.testing.wire.rules import (
    Genuine,
    Wire,
    argument_faults,
    arguments_of,
    id_faults,
    items_in,
    link_faults,
    name_faults,
    pdf_faults,
    tagged,
    text_faults,
    thought,
    unicode_faults,
)

MAX_ID = 64


def rendered(messages: list[Message]) -> list[Wire]:
    """Return the `input` of a request."""
    items: list[Wire] = []
    for message in messages:
        match message.role:
            case Role.TOOL:
                items.append(_output(message))
            case Role.ASSISTANT:
                items += [_own(part, f"rs_{message.seq}_{n}") for n, part in enumerate(message.parts)]
            case Role.SYSTEM:
                items.append(_said("user", [{"type": "input_text", "text": tagged(message.content)}]))
            case Role.USER:
                items.append(_said("user", [_input(part) for part in message.parts]))
    return items


def _said(role: str, content: list[Wire]) -> Wire:
    return {"type": "message", "role": role, "content": content}


def _input(part: Part) -> Wire:
    match part:
        case TextPart(text=text):
            return {"type": "input_text", "text": text}
        case ImagePart(media_type=media_type, data=data, url=url):
            link = f"data:{media_type};base64,{base64.b64encode(data).decode()}" if data else url
            return {"type": "input_image", "image_url": link}
        case FilePart(name=name, media_type=media_type, data=data):
            link = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
            return {"type": "input_file", "filename": name, "file_data": link}
        case _:
            return {"type": type(part).__name__}


def _own(part: Part, item_id: str) -> Wire:
    match part:
        case TextPart(text=text):
            return _said("assistant", [{"type": "output_text", "text": text}])
        case ReasoningPart(text=text, signature=None):
            return _said("assistant", [{"type": "output_text", "text": thought(text)}])
        case ReasoningPart(text=text, signature=signature):
            summary = [{"type": "summary_text", "text": text}] if text else []
            return {"type": "reasoning", "id": item_id, "summary": summary, "encrypted_content": signature}
        case ToolCall(id=call_id, name=name):
            return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments_of(part)}
        case _:
            return {"type": type(part).__name__}


def _output(message: Message) -> Wire:
    result = message.tool_results[0]
    attached = [_input(part) for part in message.parts if isinstance(part, ImagePart | FilePart)]
    output: Any = [{"type": "input_text", "text": result.content}, *attached] if attached else result.content
    return {"type": "function_call_output", "call_id": result.call_id, "output": output}


def faults(wire: list[Wire], *, request: bool = True, genuine: Genuine | None = None) -> list[str]:
    """Return what the endpoint would refuse; with `request`, also a list that ends with nothing to answer."""
    contents = (fault for n, item in enumerate(wire) for fault in _item_faults(item, f"{n}", genuine))
    return [*_pairing(wire), *_reasoning(wire), *contents, *(_ending(wire) if request else ())]


def _pairing(wire: list[Wire]) -> Iterator[str]:
    owed: set[str] = set()
    seen: set[str] = set()
    for n, item in enumerate(wire):
        match item["type"]:
            case "function_call":
                if item["call_id"] in seen:
                    yield f"{n}: call id {item['call_id']!a} is used twice"
                owed.add(item["call_id"])
                seen.add(item["call_id"])
            case "function_call_output":
                if item["call_id"] not in owed:
                    yield f"{n}: no tool call found for function call output {item['call_id']!a}"
                owed.discard(item["call_id"])
            case "message" if owed and item["role"] == "user":
                yield f"{n}: no tool output found for function calls {sorted(owed)}"
            case _:
                pass
    if owed:
        yield f"at the end: no tool output found for function calls {sorted(owed)}"


def _reasoning(wire: list[Wire]) -> Iterator[str]:
    seen: set[str] = set()
    for n, item in enumerate(wire):
        if item["type"] != "reasoning":
            continue
        if item["id"] in seen:
            yield f"{n}: duplicate item found with id {item['id']}"
        seen.add(item["id"])
        following = next((other for other in wire[n + 1 :] if other["type"] != "reasoning"), None)
        if following is None or not _of_assistant(following):
            yield f"{n}: reasoning was provided without its required following item"


def _of_assistant(item: Wire) -> bool:
    return item["type"] == "function_call" or (item["type"] == "message" and item["role"] == "assistant")


def _item_faults(item: Wire, where: str, genuine: Genuine | None) -> Iterator[str]:
    match item["type"]:
        case "message":
            allowed = {"user": "input_", "assistant": "output_"}.get(item["role"])
            if allowed is None:
                yield f"{where}: role {item['role']!a}"
            yield from _content_faults(items_in(item["content"]), allowed or "", where)
        case "function_call":
            yield from id_faults(item["call_id"], where, MAX_ID)
            yield from name_faults(item["name"], where)
            yield from argument_faults(item["arguments"], where)
        case "function_call_output":
            yield from id_faults(item["call_id"], where, MAX_ID)
            if isinstance(item["output"], list):
                yield from _content_faults(items_in(item["output"]), "input_", where)
            else:
                yield from text_faults(item["output"], where)
        case "reasoning":
            text = "".join(part["text"] for part in item["summary"])
            yield from unicode_faults(text, where)
            if not item["encrypted_content"]:
                yield f"{where}: reasoning without encrypted content"
            elif genuine is not None and not genuine(item["encrypted_content"], text):
                yield f"{where}: the encrypted content could not be verified"
        case other:
            yield f"{where}: an item of type {other!a}"


def _content_faults(parts: list[Wire], allowed: str, where: str) -> Iterator[str]:
    if not parts:
        yield f"{where}: an empty list of parts"
    for part in parts:
        if not part["type"].startswith(allowed):
            yield f"{where}: a part of type {part['type']!a}"
        match part["type"]:
            case "input_text" | "output_text":
                yield from text_faults(part["text"], where)
            case "input_image":
                yield from link_faults(part["image_url"], where)
            case "input_file":
                yield from pdf_faults(part["file_data"], where)
            case other:
                yield f"{where}: a part of type {other!a}"


def _ending(wire: list[Wire]) -> Iterator[str]:
    if not wire:
        yield "an empty list of items"
    elif _of_assistant(wire[-1]) or wire[-1]["type"] == "reasoning":
        yield "the last item is the assistant's"
