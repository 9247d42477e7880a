"""The port: what answers. One method streams; not streaming is collecting the stream.

A model never retries: `outlast.runtime` does, once, in one place. Its errors are those of `outlast.core.errors`:
`ModelUnavailable` may be asked again, `ModelRefused` never, `ContextOverflow` after the window was made smaller.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec

from outlast.core.messages import Message, Part, TextPart, ToolCall, Usage

UNKNOWN_WINDOW = 32_768


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the model is told of it. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a model can take. `context_window` is 32k where nobody knows it."""

    context_window: int = UNKNOWN_WINDOW
    max_output_tokens: int | None = None
    tools: bool = True
    images: bool = True
    reasoning: bool = False
    summarises: bool = True
    chat_profile: bool = False
    """A small demo model: short prompt, no tools unless asked, no nudges."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. `messages` are a window that every provider accepts; `replies` is how many the session has had."""

    system: str
    messages: list[Message]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    effort: str | None = None
    temperature: float | None = None
    replies: int = 0
    session_id: str = ""


class TextDelta(msgspec.Struct, frozen=True):
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    text: str


class CallDelta(msgspec.Struct, frozen=True):
    """A piece of a tool call's argument text; `index` tells the calls of one reply apart."""

    index: int
    name: str
    text: str


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The whole reply; the last thing a stream yields. A stream that ends without it broke off.

    A call whose arguments are not one complete JSON object has `raw` set, and is never executed. `finish_reason` is one
    of stop, length, tool_calls, content_filter, error, or the provider's own word.
    """

    parts: tuple[Part, ...]
    usage: Usage = Usage()
    model: str | None = None
    finish_reason: str | None = None


ModelEvent = TextDelta | ReasoningDelta | CallDelta | Finished


class Model(Protocol):
    """What answers. `name` is what the log records (`provider:model`), `provider` says whose signatures it takes."""

    @property
    def name(self) -> str: ...

    @property
    def provider(self) -> str: ...

    @property
    def abilities(self) -> Abilities: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The reply as it comes, `Finished` last. Closing the iterator stops the provider's work."""
        ...

    async def close(self) -> None: ...


class CompletionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply, as scripts and callers write it. `usage` takes our names and those of the providers."""

    content: str = ""
    tool_calls: list[ToolCall] = []
    usage: dict[str, int] | Usage | None = None
    finish_reason: str | None = None
    reasoning: str | None = None

    def finished(self, model: str | None = None) -> Finished:
        text: tuple[Part, ...] = (TextPart(self.content),) if self.content else ()
        reason = self.finish_reason or ("tool_calls" if self.tool_calls else "stop")
        return Finished(parts=(*text, *self.tool_calls), usage=usage_of(self.usage), model=model, finish_reason=reason)


_NAMES = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
}


def usage_of(given: dict[str, int] | Usage | None) -> Usage:
    """Tokens under our names, whoever counted them. Names we do not know are left out."""
    if isinstance(given, Usage):
        return given
    counted: dict[str, int] = {}
    for name, count in (given or {}).items():
        ours = _NAMES.get(name, name)
        if ours in Usage.__struct_fields__:
            counted[ours] = counted.get(ours, 0) + int(count)
    return Usage(**counted)
