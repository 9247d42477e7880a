"""Repairs the parts of one message so that every provider accepts them.

Result: no empty text, valid Unicode, only readable images and files within the size limits, valid tool names and
arguments, and signatures on reasoning only where they are valid. Every change is reported. `outlast.core.repair`
handles the order and pairing of messages.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, TypeGuard, cast

import msgspec

from outlast.core.image_header import picture_of
from outlast.core.messages import (
    FilePart,
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
)
from outlast.core.text import valid_text

NO_OUTPUT = "(no output)"
MAX_IMAGE = 5 * 1024 * 1024 * 3 // 4
"""Maximum bytes of an image: the providers' limit of 5 MiB applies after base64."""
MAX_SIDE = 8000
SIGNS_FIRST = "anthropic"
PDF = "application/pdf"
_READABLE = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ODD = re.compile(r"[^a-zA-Z0-9_-]")


class Repair(NamedTuple):
    """One change made for the model, and the event it concerns."""

    what: str
    seq: int | None
    detail: str


class PartSanitizer:
    """Cleans the parts of messages and records each change."""

    def __init__(self, provider: str | None, max_image_bytes: int, repairs: list[Repair]) -> None:
        self.provider = provider
        self.limit = max_image_bytes
        self.repairs = repairs

    def cleaned(self, message: Message, parts: tuple[Part, ...], *, goes_on: bool = False) -> Message | None:
        """Return the message with these parts, cleaned for sending; None if nothing is left of it.

        `goes_on`: the previous message is also the assistant's.
        """
        kept = self._kept(message, parts)
        if any(isinstance(part, ReasoningPart) for part in kept):
            kept = self._reasoned(kept, message, goes_on)
        if not kept:
            if message.role is not Role.TOOL and not message.tool_results:
                self._note("message_dropped", message, "nothing in it can be sent")
            return None
        if message.role is Role.TOOL:
            kept = _one_result(kept)
        return message if kept == message.parts else msgspec.structs.replace(message, parts=kept)

    def _kept(self, message: Message, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        kept: list[Part] = []
        for part in parts:
            sent = self._part(part, message)
            if sent is not None:
                kept.append(sent)
            elif kept and not isinstance(part, ReasoningPart) and self._proves_the_next(kept[-1]):
                self._note("part_dropped", message, "the proof of a part that is dropped")
                kept.pop()
        return tuple(kept)

    def _proves_the_next(self, part: Part) -> bool:
        """Whether this part is a signature without text, with which some providers sign the text or call after it."""
        return self.provider != SIGNS_FIRST and _signed(part) and not part.text and not part.redacted

    def _part(self, part: Part, message: Message) -> Part | None:
        match part:
            case TextPart(text=text):
                return self._text(part, text, message)
            case ReasoningPart():
                return self._reasoning(part, message)
            case ToolCall():
                return self._call(part, message)
            case ToolResult(content=content):
                return self._result(part, content, message)
            case ImagePart():
                return self._image(part, message)
            case FilePart():  # pragma: no branch
                return self._file(part, message)

    def _text(self, part: TextPart, text: str, message: Message) -> TextPart | None:
        if not text or text.isspace():
            self._note("part_dropped", message, "an empty text")
            return None
        sent = self._sent(text, message)
        return part if sent is text else TextPart(sent)

    # --- reasoning

    def _reasoning(self, part: ReasoningPart, message: Message) -> ReasoningPart | None:
        if message.role is not Role.ASSISTANT:
            self._note("part_dropped", message, f"a {message.role} message does not reason")
            return None
        if part.signature is None:
            return self._unsigned(part, message)
        foreign = self.provider is not None and part.provider != self.provider
        if foreign or not part.signature or valid_text(part.text) != part.text:
            return self._unsigned(part, message)
        return part

    def _unsigned(self, part: ReasoningPart, message: Message) -> ReasoningPart | None:
        """Return the reasoning without its signature; None if it has no text."""
        if part.signature is not None:
            self._note("signature_stripped", message, f"reasoning of {part.provider!a}")
        if part.redacted or not part.text.strip():
            self._note("part_dropped", message, "reasoning without text")
            return None
        sent = self._sent(part.text, message)
        return part if sent is part.text and part.signature is None and not part.provider else ReasoningPart(text=sent)

    def _reasoned(self, parts: tuple[Part, ...], message: Message, goes_on: bool) -> tuple[Part, ...]:
        """Drop reasoning at the end. Anthropic also requires a message with signed reasoning to start with it."""
        while parts and isinstance(parts[-1], ReasoningPart):
            self._note("part_dropped", message, "reasoning with nothing behind it")
            parts = parts[:-1]
        if self.provider != SIGNS_FIRST or not any(_signed(part) for part in parts):
            return parts
        if _signed(parts[0]) and not goes_on:
            return parts
        plain = (self._unsigned(part, message) if isinstance(part, ReasoningPart) else part for part in parts)
        return tuple(part for part in plain if part is not None)

    # --- calls

    def _call(self, part: ToolCall, message: Message) -> ToolCall:
        name, arguments = sent_name(part.name), _valid_value(part.arguments)
        raw = None if part.raw is None else valid_text(part.raw)
        if name != part.name:
            self._note("name_replaced", message, f"{part.name!a} is now {name!a}")
        if arguments != part.arguments or raw != part.raw:
            self._note("text_replaced", message, "arguments that are not valid Unicode")
        same = name == part.name and arguments == part.arguments and raw == part.raw
        return part if same else msgspec.structs.replace(part, name=name, arguments=arguments, raw=raw)

    def _result(self, part: ToolResult, content: str, message: Message) -> ToolResult:
        sent = self._sent(content, message) if content.strip() else NO_OUTPUT
        return part if sent is content else msgspec.structs.replace(part, content=sent)

    # --- attachments

    def _image(self, part: ImagePart, message: Message) -> Part | None:
        name = part.alt or "image"
        if not part.data:
            if part.url and part.url.startswith(("https://", "http://")) and part.url.isascii():
                return part if self._may_attach(message) else self._left_out(name, part.media_type, message)
            return self._nothing_in(name, message)
        picture = picture_of(part.data)
        if picture is None:
            return self._left_out(name, part.media_type, message, "it is not a PNG, JPEG, GIF or WebP image")
        if len(part.data) > self.limit:
            return self._too_large(name, part.media_type, len(part.data), message)
        if max(picture.width, picture.height) > MAX_SIDE:
            size = f"it has {picture.width} x {picture.height} pixels, the limit is {MAX_SIDE} a side"
            return self._left_out(name, part.media_type, message, size)
        if not self._may_attach(message):
            return self._left_out(name, part.media_type, message)
        if picture.media_type == part.media_type:
            return part
        self._note("type_replaced", message, f"{part.media_type!a} is {picture.media_type}")
        return msgspec.structs.replace(part, media_type=picture.media_type)

    def _file(self, part: FilePart, message: Message) -> Part | None:
        if not part.data:
            return self._nothing_in(part.name, message)
        if len(part.data) > self.limit:
            return self._too_large(part.name, part.media_type, len(part.data), message)
        if part.media_type == PDF and part.data.startswith(b"%PDF-") and self._may_attach(message):
            return part
        if picture_of(part.data) is not None:
            return self._image(ImagePart(part.media_type, part.data, alt=part.name), message)
        text = _readable(part)
        if text is not None:
            self._note("file_inlined", message, f"{part.name!a} is sent as text")
            return TextPart(valid_text(f'<file name="{part.name}">\n{text}\n</file>'))
        return self._left_out(part.name, part.media_type, message, "only PDF and text files can be sent")

    def _may_attach(self, message: Message) -> bool:
        return message.role in {Role.USER, Role.TOOL}

    def _nothing_in(self, name: str, message: Message) -> None:
        self._note("part_dropped", message, f"nothing in {name!a}")

    def _too_large(self, name: str, media_type: str, size: int, message: Message) -> TextPart:
        self._note("part_too_large", message, f"{name!a} has {size} bytes")
        return TextPart(valid_text(f"[{name} ({media_type}) is left out: {size} bytes, the limit is {self.limit}]"))

    def _left_out(self, name: str, media_type: str, message: Message, why: str | None = None) -> TextPart:
        why = why or f"a message of the {message.role} takes text only"
        self._note("part_left_out", message, f"{name!a}: {why}")
        return TextPart(valid_text(f"[{name} ({media_type}) is left out: {why}]"))

    # --- text

    def _sent(self, text: str, message: Message) -> str:
        sent = valid_text(text)
        if sent == text:
            return text
        self._note("text_replaced", message, "text that is not valid Unicode")
        return sent

    def _note(self, what: str, message: Message, detail: str) -> None:
        self.repairs.append(Repair(what, message.seq, detail))


def _signed(part: Part) -> TypeGuard[ReasoningPart]:
    return isinstance(part, ReasoningPart) and part.signature is not None


def _one_result(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Merge the notes about left-out attachments into the result of a tool message; attachments follow it."""
    result = next((part for part in parts if isinstance(part, ToolResult)), None)
    notes = [part.text for part in parts if isinstance(part, TextPart)]
    if result is None or not notes:
        return parts
    said = [] if result.content == NO_OUTPUT else [result.content]
    rest = (part for part in parts if isinstance(part, ImagePart | FilePart))
    return (msgspec.structs.replace(result, content="\n".join([*said, *notes])), *rest)


def _readable(part: FilePart) -> str | None:
    if not part.media_type.startswith(_READABLE):
        return None
    try:
        return part.data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def sent_name(name: str) -> str:
    """Return a tool name in the form that every provider accepts."""
    return name if _NAME.fullmatch(name) else (_ODD.sub("_", name)[:64] or "tool")


def sent_id(call_id: str, length: int) -> str:
    """Return a call id in the form that every provider accepts, at most `length` characters."""
    if len(call_id) <= length and _NAME.fullmatch(call_id):
        return call_id
    return _ODD.sub("_", call_id)[:length] or "call"


def _valid_value(value: Any) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, list):
        return [_valid_value(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_valid_value(key): _valid_value(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value
