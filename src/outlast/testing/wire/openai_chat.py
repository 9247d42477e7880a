"""OpenAI chat completions, and all compatible servers."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from outlast.core.messages import FilePart, ImagePart, Message, Part, Role, TextPart
from outlast.testing.wire.rules import (
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
)

MAX_ID = 40


def rendered(messages: list[Message]) -> list[Wire]:
    """Return the `messages` of a request. Attachments of a tool follow its results: a tool message holds only text."""
    out: list[Wire] = []
    attached: list[Wire] = []
    for message in messages:
        if message.role is not Role.TOOL and attached:
            out.append({"role": "user", "content": attached})
            attached = []
        match message.role:
            case Role.TOOL:
                result = message.tool_results[0]
                out.append({"role": "tool", "tool_call_id": result.call_id, "content": result.content})
                attached += [_part(part) for part in message.parts if isinstance(part, ImagePart | FilePart)]
            case Role.ASSISTANT:
                out.append(_assistant(message))
            case Role.SYSTEM:
                out.append({"role": "user", "content": tagged(message.content)})
            case Role.USER:
                out.append({"role": "user", "content": _content(message)})
    return [*out, {"role": "user", "content": attached}] if attached else out


def _content(message: Message) -> str | list[Wire]:
    if len(message.parts) == 1 and isinstance(message.parts[0], TextPart):
        return message.parts[0].text
    return [_part(part) for part in message.parts]


def _part(part: Part) -> Wire:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart(media_type=media_type, data=data, url=url):
            link = f"data:{media_type};base64,{base64.b64encode(data).decode()}" if data else url
            return {"type": "image_url", "image_url": {"url": link}}
        case FilePart(name=name, media_type=media_type, data=data):
            link = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
            return {"type": "file", "file": {"filename": name, "file_data": link}}
        case _:
            return {"type": type(part).__name__}


def _assistant(message: Message) -> Wire:
    said: Wire = {"role": "assistant", "content": message.content or None}
    if message.tool_calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_of(call)},
            }
            for call in message.tool_calls
        ]
    return said


def faults(wire: list[Wire], *, request: bool = True) -> list[str]:
    """Return what the endpoint would refuse; with `request`, also a list that ends with nothing to answer."""
    return [*_pairing(wire), *_contents(wire), *(_ending(wire) if request else ())]


def _pairing(wire: list[Wire]) -> Iterator[str]:
    owed: list[str] = []
    seen: set[str] = set()
    for n, message in enumerate(wire):
        if message["role"] == "tool":
            answered = message["tool_call_id"]
            if answered not in owed:
                yield f"{n}: 'tool' must follow 'tool_calls': nothing asked for {answered!a}"
            owed = [call_id for call_id in owed if call_id != answered]
            continue
        if owed:
            yield f"{n}: 'tool_calls' must be followed by tool messages: {owed} are not answered"
        owed = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(owed)) != len(owed) or seen.intersection(owed):
            yield f"{n}: call ids are not unique: {owed}"
        seen.update(owed)
    if owed:
        yield f"at the end: {owed} are not answered"


def _contents(wire: list[Wire]) -> Iterator[str]:
    for n, message in enumerate(wire):
        role, content = message["role"], message.get("content")
        if role not in {"user", "assistant", "tool"}:
            yield f"{n}: role {role!a}"
        if role == "assistant" and content is None and message.get("tool_calls"):
            pass
        elif isinstance(content, list) and role == "user":
            yield from _part_faults(items_in(content), f"{n}")
        else:
            yield from text_faults(content, f"{n}: {role}")
        for call in message.get("tool_calls", ()):
            yield from _call_faults(call, f"{n}")
        if "tool_calls" in message and (role != "assistant" or not message["tool_calls"]):
            yield f"{n}: tool_calls must be a filled list of an assistant message"


def _call_faults(call: Wire, where: str) -> Iterator[str]:
    yield from id_faults(call["id"], where, MAX_ID)
    yield from name_faults(call["function"]["name"], where)
    yield from argument_faults(call["function"]["arguments"], where)


def _part_faults(parts: list[Wire], where: str) -> Iterator[str]:
    if not parts:
        yield f"{where}: an empty list of parts"
    for part in parts:
        match part["type"]:
            case "text":
                yield from text_faults(part["text"], where)
            case "image_url":
                yield from link_faults(part["image_url"]["url"], where)
            case "file":
                yield from pdf_faults(part["file"]["file_data"], where)
            case other:
                yield f"{where}: a part of type {other!a}"


def _ending(wire: list[Wire]) -> Iterator[str]:
    if not wire:
        yield "an empty list of messages"
    elif wire[-1]["role"] == "assistant":
        yield "the last message is the assistant's"
