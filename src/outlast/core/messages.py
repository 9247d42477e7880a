"""Messages and their parts.

`parts` is authoritative, in the order the model produced them; `content`, `tool_calls` and `tool_results` are views of
it. A message can be built from either.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from outlast.core.errors import InvalidInput


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class TextPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", tag="text"):
    text: str


class ReasoningPart(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type", tag="reasoning"
):
    """The model's reasoning; `signature` is the provider's proof and is valid only for that `provider`."""

    text: str = ""
    signature: str | None = None
    provider: str | None = None
    redacted: bool = False


class ToolCall(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type", tag="tool_call"
):
    """A call the model requests. `id` is ours and unique; `provider_id` is the provider's id.

    `raw` keeps the argument text if it was not complete, valid JSON; a call with `raw` is never executed.
    """

    id: str
    name: str
    arguments: dict[str, Any] = {}
    provider_id: str | None = None
    raw: str | None = None


class ToolResult(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type", tag="tool_result"
):
    call_id: str
    content: str = ""
    is_error: bool = False
    name: str | None = None


class ImagePart(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type", tag="image"
):
    media_type: str
    data: bytes = b""
    url: str | None = None
    alt: str | None = None


class FilePart(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type", tag="file"
):
    name: str
    media_type: str
    data: bytes = b""


Part = TextPart | ReasoningPart | ToolCall | ToolResult | ImagePart | FilePart


put = msgspec.structs.force_setattr


class Message(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One message. `seq`, `at` and the flags are set when it is read from a log; equality ignores them.

    `interrupted` marks a partial reply that broke off; it is never an answer.
    """

    role: Role
    content: str = ""
    tool_calls: list[ToolCall] = []
    tool_results: list[ToolResult] = []
    parts: tuple[Part, ...] = ()
    seq: int | None = None
    at: int | None = None
    archived: bool = False
    is_summary: bool = False
    interrupted: bool = False

    def __post_init__(self) -> None:
        text_only = not (self.parts or self.tool_calls or self.tool_results)
        if text_only and type(self.role) is Role and type(self.content) is str:
            if self.content:  # the common case: the views are correct already
                put(self, "parts", (TextPart(self.content),))
            return
        if type(self.role) is not Role:
            put(self, "role", Role(self.role))
        parts = self.parts
        if len(parts) == 1 and type(parts[0]) is TextPart and type(parts) is tuple:  # the common case on reading
            put(self, "content", parts[0].text)
            if self.tool_calls or self.tool_results:  # `parts` is authoritative
                put(self, "tool_calls", [])
                put(self, "tool_results", [])
            return
        if not parts:
            text: tuple[Part, ...] = (TextPart(self.content),) if self.content else ()
            if not isinstance(self.content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInput(f"a message's content is text, not {type(self.content).__name__}")
            parts = (*text, *self.tool_calls, *self.tool_results)
        put(self, "parts", tuple(parts))
        put(self, "content", text_of(parts))
        put(self, "tool_calls", [part for part in parts if isinstance(part, ToolCall)])
        put(self, "tool_results", [part for part in parts if isinstance(part, ToolResult)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self.role == other.role and self.parts == other.parts

    def __hash__(self) -> int:
        return hash((self.role, self.content))


def text_of(parts: tuple[Part, ...] | list[Part]) -> str:
    """Return the readable text of parts: the joined texts or, if there are none, the tool results."""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if not texts:
        texts = [part.content for part in parts if isinstance(part, ToolResult)]
    return "".join(texts)


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Tokens of one reply as counted by the provider; cost in millionths of a US dollar, None if unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_micros: int | None = None
