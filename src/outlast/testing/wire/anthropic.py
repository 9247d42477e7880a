"""Anthropic messages: user and assistant alternate; the user message after calls starts with their results."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from outlast.core.messages import FilePart, ImagePart, Message, Part, ReasoningPart, Role, TextPart, ToolCall
from outlast.testing.wire.rules import (
    Genuine,
    Wire,
    image_faults,
    items_in,
    link_faults,
    name_faults,
    object_of,
    tagged,
    text_faults,
    thought,
    unicode_faults,
)

ID = re.compile(r"[a-zA-Z0-9_-]+")
THINKING = ("thinking", "redacted_thinking")
ROLES = {
    "user": {"text", "image", "document", "tool_result"},
    "assistant": {"text", "tool_use", *THINKING},
}


def rendered(messages: list[Message]) -> list[Wire]:
    """Return the `messages` of a request; neighbours with the same role become one message."""
    out: list[Wire] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        if not out or out[-1]["role"] != role:
            out.append({"role": role, "content": []})
        out[-1]["content"] += _blocks(message)
    return out


def _blocks(message: Message) -> list[Wire]:
    if message.role is Role.SYSTEM:
        return [{"type": "text", "text": tagged(message.content)}]
    if message.role is not Role.TOOL:
        return [_block(part) for part in message.parts]
    result = message.tool_results[0]
    attached = [_block(part) for part in message.parts if isinstance(part, ImagePart | FilePart)]
    content = [{"type": "text", "text": result.content}, *attached]
    block: Wire = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    return [{**block, "is_error": True} if result.is_error else block]


def _block(part: Part) -> Wire:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ReasoningPart(text=text, signature=None):
            return {"type": "text", "text": thought(text)}
        case ReasoningPart(signature=signature, redacted=True):
            return {"type": "redacted_thinking", "data": signature}
        case ReasoningPart(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolCall(id=call_id, name=name):
            return {"type": "tool_use", "id": call_id, "name": name, "input": object_of(part)}
        case ImagePart(media_type=media_type, data=data, url=url):
            return {"type": "image", "source": _source(media_type, data) if data else {"type": "url", "url": url}}
        case FilePart(media_type=media_type, data=data):
            return {"type": "document", "source": _source(media_type, data)}
        case _:
            return {"type": type(part).__name__}


def _source(media_type: str, data: bytes) -> Wire:
    return {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}


def faults(wire: list[Wire], *, request: bool = True, genuine: Genuine | None = None) -> list[str]:
    """Return what the endpoint would refuse; with `request`, also a list that ends with nothing to answer."""
    found = [*_order(wire), *_pairing(wire), *(_ending(wire) if request else ())]
    for n, message in enumerate(wire):
        blocks = items_in(message["content"])
        if not blocks:
            found.append(f"{n}: content must not be empty")
        if message["role"] == "assistant":
            found += _thinking(blocks, f"{n}")
        for block in blocks:
            if block["type"] not in ROLES[message["role"]]:
                found.append(f"{n}: a {message['role']} message may not hold {block['type']!a}")
            found += _block_faults(block, f"{n}", genuine)
    return found


def _order(wire: list[Wire]) -> Iterator[str]:
    if wire and wire[0]["role"] != "user":
        yield "the first message must be the user's"
    for n, (before, after) in enumerate(pairwise(wire), 1):
        if before["role"] == after["role"]:
            yield f"{n}: roles must alternate"


def _pairing(wire: list[Wire]) -> Iterator[str]:
    owed: list[str] = []
    seen: set[str] = set()
    for n, message in enumerate(wire):
        blocks = items_in(message["content"])
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(answered) != sorted(owed):
            yield f"{n}: tool_use ids {owed} want their tool_result here, found are {answered}"
        if any(block["type"] != "tool_result" for block in blocks[: len(answered)]):
            yield f"{n}: tool_result blocks must come first"
        owed = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(owed)) != len(owed) or seen.intersection(owed):
            yield f"{n}: tool_use ids must be unique: {owed}"
        seen.update(owed)
    if owed:
        yield f"at the end: tool_use ids {owed} are without a tool_result"


def _thinking(blocks: list[Wire], where: str) -> Iterator[str]:
    if not any(block["type"] in THINKING for block in blocks):
        return
    if blocks[0]["type"] not in THINKING:
        yield f"{where}: a message with thinking must begin with it, found {blocks[0]['type']}"
    if blocks[-1]["type"] in THINKING:
        yield f"{where}: the final block in an assistant message cannot be thinking"


def _block_faults(block: Wire, where: str, genuine: Genuine | None) -> Iterator[str]:
    match block["type"]:
        case "text":
            yield from text_faults(block["text"], where)
        case "tool_use":
            yield from name_faults(block["name"], where)
            if not ID.fullmatch(block["id"]):
                yield f"{where}: tool_use id {block['id']!a}"
            if not isinstance(block["input"], dict):
                yield f"{where}: input is not an object"
        case "tool_result":
            for inner in items_in(block["content"]):
                yield from _block_faults(inner, where, genuine)
        case "thinking":
            yield from unicode_faults(block["thinking"], where)
            if not block["signature"] or (genuine and not genuine(block["signature"], block["thinking"])):
                yield f"{where}: invalid signature in thinking block"
        case "redacted_thinking" if genuine is not None and not genuine(block["data"], ""):
            yield f"{where}: invalid data in redacted_thinking block"
        case "image":
            yield from _source_faults(block["source"], where)
        case "document" if block["source"].get("media_type") != "application/pdf" or not block["source"]["data"]:
            yield f"{where}: a document that is not a PDF"
        case _:
            pass


def _source_faults(source: dict[str, Any], where: str) -> Iterator[str]:
    if source["type"] == "url":
        yield from link_faults(source["url"], where)
    else:
        yield from image_faults(source["media_type"], source["data"], where)


def _ending(wire: list[Wire]) -> Iterator[str]:
    if not wire:
        yield "an empty list of messages"
        return
    if wire[-1]["role"] == "assistant":
        yield "the last message is the assistant's"
        last = items_in(wire[-1]["content"])[-1]
        if last["type"] == "text" and last["text"] != last["text"].rstrip():
            yield "final assistant content cannot end with trailing whitespace"
