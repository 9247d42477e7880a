"""What every provider asks of a list of messages, written down apart from the code that makes one."""

from collections.abc import Iterator
from typing import Any, cast

from holdfast.core.messages import (
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
)


def faults(messages: list[Message], provider: str | None, max_image_bytes: int) -> list[str]:
    """Everything that some provider would refuse."""
    return [
        *pairing_faults(messages),
        *opening_faults(messages),
        *(fault for message in messages for fault in part_faults(message, provider, max_image_bytes)),
    ]


def pairing_faults(messages: list[Message]) -> list[str]:
    found: list[str] = []
    owed: list[str] = []
    seen: set[str] = set()
    for n, message in enumerate(messages):
        if message.role is Role.TOOL:
            ids = [result.call_id for result in message.tool_results]
            if len(ids) != 1 or ids[0] not in owed:
                found.append(f"{n}: answers {ids}, owed are {owed}")
            owed = [call_id for call_id in owed if call_id not in ids]
            continue
        if owed:
            found.append(f"{n}: comes before the answers to {owed}")
        if message.tool_results:
            found.append(f"{n}: a result in a {message.role} message")
        if message.tool_calls and message.role is not Role.ASSISTANT:
            found.append(f"{n}: a call in a {message.role} message")
        owed = [call.id for call in message.tool_calls]
        found += [f"{n}: call id {call_id!a} is used twice" for call_id in owed if call_id in seen or not call_id]
        found += [f"{n}: one message asks twice" for _ in range(len(owed) - len(set(owed)))]
        seen.update(owed)
    return [*found, *(f"{call_id} is never answered" for call_id in owed)]


def opening_faults(messages: list[Message]) -> list[str]:
    spoken = [message for message in messages if message.role is not Role.SYSTEM]
    return [f"begins with {spoken[0].role}"] if spoken and spoken[0].role is not Role.USER else []


def part_faults(message: Message, provider: str | None, max_image_bytes: int) -> list[str]:
    if all(isinstance(part, ReasoningPart) for part in message.parts):
        return [f"an empty {message.role} message"]
    found: list[str] = []
    for part in message.parts:
        match part:
            case TextPart(text=text):
                found += [] if text.strip() and is_unicode(text) else [f"text {text!a}"]
            case ToolResult(content=content):
                found += [] if content.strip() and is_unicode(content) else [f"result {content!a}"]
            case ReasoningPart(signature=signature, provider=author):
                foreign = signature is not None and provider is not None and author != provider
                found += ["a foreign signature"] if foreign else []
            case ToolCall(arguments=arguments):
                found += [f"argument {text!a}" for text in texts_in(arguments) if not is_unicode(text)]
            case ImagePart(data=data) | FilePart(data=data):
                found += [f"{len(data)} bytes"] if len(data) > max_image_bytes else []
    return found


def is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def texts_in(value: Any) -> Iterator[str]:
    """Every key and value that is text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast("dict[Any, Any]", value).items():
            yield from (*texts_in(key), *texts_in(item))
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from texts_in(item)
