"""The model port. Its one request method streams; a caller that wants the whole reply collects the stream.

A model never retries: `outlast.runtime` does, in one place. Errors are those of `outlast.core.errors`: a caller may
retry after `ModelUnavailable`, never after `ModelRefused`, and with a smaller window after `ContextOverflow`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import msgspec

from outlast.core.messages import Message, Part, TextPart, ToolCall, Usage

UNKNOWN_WINDOW = 32_768


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as described to the model. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class WindowSource(StrEnum):
    """Where the size of a context window comes from."""

    SETTING = "setting"
    KNOWN_MODEL = "known model"
    PROVIDER = "provider"
    ASSUMED = "assumed"

    def described(self, tokens: int) -> str:
        """Return the source as users read it; a guess says what to do about it."""
        return f"assumed {tokens:,}: set context_window" if self is WindowSource.ASSUMED else str(self)


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a model supports. `context_window` defaults to 32k if it is unknown. `window_source` says where it comes
    from; None if that follows from the value."""

    context_window: int = UNKNOWN_WINDOW
    window_source: WindowSource | None = None
    max_output_tokens: int | None = None
    tools: bool = True
    images: bool = True
    reasoning: bool = False
    summarises: bool = True
    chat_profile: bool = False
    """True for a small demo model: short prompt, no tools unless requested, no nudges."""
    on_this_machine: bool = False
    """True if the model runs on this machine, where reading a long prompt can take minutes."""


@runtime_checkable
class WindowSettler(Protocol):
    """A model whose window may still be unknown because a server was asked for it."""

    def settle_window(self) -> None:
        """Wait until the window is known, at most two seconds."""
        ...


@runtime_checkable
class LoadedModel(Protocol):
    """A model with a slow part, such as an SDK, that can be loaded before a request."""

    async def load(self) -> None:
        """Load what the next request needs, beside the event loop. Raises `ConfigError` if the model cannot be used."""
        ...


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. `messages` is a window that every provider accepts; `replies` counts the session's replies.
    `answer_only`: the model must answer in text; its tools stay listed, because the prefix is cached with them."""

    system: str
    messages: list[Message]
    tools: tuple[ToolSpec, ...] = ()
    answer_only: bool = False
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
    """A piece of a tool call's argument text; `index` identifies the call within the reply."""

    index: int
    name: str
    text: str


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """The whole reply, yielded last. A stream that ends without it broke off.

    A call whose arguments are not one complete JSON object has `raw` set and is never executed. `finish_reason` is
    stop, length, tool_calls, content_filter, error, or the provider's own value.
    """

    parts: tuple[Part, ...]
    usage: Usage = Usage()
    model: str | None = None
    finish_reason: str | None = None


ModelEvent = TextDelta | ReasoningDelta | CallDelta | Finished


class Model(Protocol):
    """A model. `name` is recorded in the log (`provider:model`); `provider` names whose signatures it accepts."""

    @property
    def name(self) -> str: ...

    @property
    def provider(self) -> str: ...

    @property
    def abilities(self) -> Abilities: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the reply, `Finished` last. Closing the iterator stops the provider's work."""
        ...

    async def close(self) -> None: ...


class CompletionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply, as written by scripts and callers. `usage` accepts our names and the providers' names."""

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
    """Convert token counts to our field names, from any provider's names. Unknown names are ignored."""
    if isinstance(given, Usage):
        return given
    counted: dict[str, int] = {}
    for name, count in (given or {}).items():
        ours = _NAMES.get(name, name)
        if ours in Usage.__struct_fields__:
            counted[ours] = counted.get(ours, 0) + int(count)
    return Usage(**counted)
