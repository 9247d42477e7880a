"""Converts a window to pydantic-ai's messages.

Promises: the system prompt is only the request's, so that the prefix stays the same byte for byte; runtime messages
inside the window become user content in a `<system-reminder>`. Each user message stays separate, unless the server
refuses that. Without tools, calls and results are sent as text, because some providers refuse them otherwise.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from pydantic_ai import messages as p

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
from outlast.models.provider_signature import ProviderSignature, unpacked

INVALID_JSON = "INVALID_JSON"
"""The argument name under which invalid JSON arguments of a call are sent back."""

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")


class RequestMessages:
    """Converts windows to messages for one provider. `merged` joins consecutive user messages."""

    def __init__(self, provider: str, sdk_provider: str, *, tools: bool, images: bool, merged: bool = False) -> None:
        self.provider = provider
        self.sdk_provider = sdk_provider
        self.tools = tools
        self.images = images
        self.merged = merged

    def messages(self, window: Iterable[Message]) -> list[p.ModelMessage]:
        """Return alternating requests and responses: neighbours of the same kind become one, with separate parts."""
        said: list[p.ModelMessage] = []
        names: dict[str, str] = {}
        for message in window:
            names.update((call.id, call.name) for call in message.tool_calls)
            last = said[-1] if said else None
            if message.role is Role.ASSISTANT:
                parts = self._response(message)
                if isinstance(last, p.ModelResponse):
                    last.parts = [*last.parts, *parts]
                elif parts:
                    said.append(p.ModelResponse(parts=parts, provider_name=self.sdk_provider))
            else:
                asked = self._request(message, names)
                if isinstance(last, p.ModelRequest):
                    last.parts = [*last.parts, *asked]
                elif asked:
                    said.append(p.ModelRequest(parts=asked))
        return [_merged(message) for message in said] if self.merged else said

    # ---- messages from the model ------------------------------------------------------------------------------------

    def _response(self, message: Message) -> list[p.ModelResponsePart]:
        parts: list[p.ModelResponsePart] = []
        proof = ProviderSignature()
        for part in message.parts:
            match part:
                case ReasoningPart():
                    held = unpacked(part.signature) if part.provider == self.provider else ProviderSignature()
                    if held.of_next:
                        proof = held
                        continue
                    parts += self._thinking(part, held)
                case TextPart(text=text):
                    parts.append(p.TextPart(text, **self._proven(proof)))
                case ToolCall() if self.tools:
                    parts.append(self._call(part, proof))
                case ToolCall():
                    parts.append(p.TextPart(f"[called {part.name} with {_arguments(part)}]"))
                case _:
                    pass  # a model does not attach images or answer calls
            proof = ProviderSignature()
        return parts

    def _thinking(self, part: ReasoningPart, held: ProviderSignature) -> list[p.ModelResponsePart]:
        if held.empty:
            return []  # without a proof it would be sent back as the model's text
        return [p.ThinkingPart(part.text, signature=held.signature, **self._proven(held))]

    def _call(self, call: ToolCall, proof: ProviderSignature) -> p.ToolCallPart:
        arguments = call.arguments if call.raw is None else {INVALID_JSON: call.raw}
        return p.ToolCallPart(call.name, arguments, call_id(call.id), **self._proven(proof))

    def _proven(self, proof: ProviderSignature) -> dict[str, Any]:
        if proof.empty:
            return {}
        return {"id": proof.id, "provider_name": self.sdk_provider, "provider_details": proof.details}

    # ---- messages to the model --------------------------------------------------------------------------------------

    def _request(self, message: Message, names: dict[str, str]) -> list[p.ModelRequestPart]:
        if message.role is Role.SYSTEM:
            return [p.UserPromptPart(reminder(message.content))] if message.content else []
        if message.role is Role.TOOL or message.tool_results:
            return self._results(message, names)
        return self._user(message.parts)

    def _results(self, message: Message, names: dict[str, str]) -> list[p.ModelRequestPart]:
        """Convert tool results; the parts after a result belong to it."""
        parts: list[p.ModelRequestPart] = []
        groups: list[tuple[ToolResult, list[Part]]] = []
        loose: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                groups.append((part, []))
            else:
                (groups[-1][1] if groups else loose).append(part)
        for result, rest in groups:
            content = [content for part in rest for content in self._content(part)]
            parts.append(self._result(result, names.get(result.call_id) or result.name or "tool", content))
        return [*parts, *self._user(loose)]

    def _result(self, result: ToolResult, name: str, content: list[p.UserContent]) -> p.ModelRequestPart:
        if not self.tools:
            told = f"[result of {name}]\n{result.content}"
            return p.UserPromptPart([told, *content] if content else told)
        return p.ToolReturnPart(
            name,
            [result.content, *content] if content else result.content,
            call_id(result.call_id),
            outcome="failed" if result.is_error else "success",
        )

    def _user(self, parts: Iterable[Part]) -> list[p.ModelRequestPart]:
        content = [content for part in parts for content in self._content(part)]
        if not content:
            return []
        return [p.UserPromptPart(content[0] if len(content) == 1 and isinstance(content[0], str) else content)]

    def _content(self, part: Part) -> list[p.UserContent]:
        match part:
            case TextPart(text=text):
                return [text]
            case ImagePart():
                return [self._image(part)]
            case FilePart():
                return [self._file(part)]
            case _:
                return []

    def _image(self, part: ImagePart) -> p.UserContent:
        name = part.alt or "an image"
        if not self.images:
            return f"[{name} ({part.media_type}) is attached; this model cannot see images]"
        if part.data and part.media_type in _IMAGES:
            return p.BinaryContent(part.data, media_type=part.media_type)
        if part.url and part.url.startswith("https://"):
            return p.ImageUrl(part.url, media_type=part.media_type)
        return f"[{name} ({part.media_type}) is attached, in a form that models do not take]"

    def _file(self, part: FilePart) -> p.UserContent:
        if part.media_type in _IMAGES and self.images:
            return p.BinaryContent(part.data, media_type=part.media_type)
        if part.media_type == "application/pdf" and self.images:
            return p.BinaryContent(part.data, media_type=part.media_type)
        try:
            text = part.data.decode()
        except UnicodeDecodeError:
            return f"[{part.name} ({part.media_type}, {len(part.data)} bytes) is attached; this model cannot read it]"
        return f'<file name="{part.name}">\n{text}\n</file>'


def reminder(text: str) -> str:
    """Wrap a runtime message for the middle of a window. A quoted closing tag in the text cannot end it early."""
    return f"<system-reminder>\n{text.replace('</system-reminder', '< /system-reminder')}\n</system-reminder>"


def call_id(given: str) -> str:
    """Return the id of a call for providers: our id, or a hash if they would refuse its characters or length."""
    if _CALL_ID.fullmatch(given):
        return given
    return f"call_{hashlib.sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def _arguments(call: ToolCall) -> str:
    return call.raw if call.raw is not None else msgspec.json.encode(call.arguments).decode()


def _merged(message: p.ModelMessage) -> p.ModelMessage:
    if not isinstance(message, p.ModelRequest):
        return message
    parts: list[p.ModelRequestPart] = []
    for part in message.parts:
        last = parts[-1] if parts else None
        if isinstance(part, p.UserPromptPart) and isinstance(last, p.UserPromptPart):
            last.content = _joined(last.content, part.content)
        else:
            parts.append(part)
    message.parts = parts
    return message


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}"
    return [*([one] if isinstance(one, str) else one), *([other] if isinstance(other, str) else other)]
