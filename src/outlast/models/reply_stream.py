"""Converts a reply from pydantic-ai to our types: deltas while it streams, then the whole reply."""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic_ai import messages as p
from pydantic_ai.usage import RequestUsage

from outlast.core.messages import Part, ReasoningPart, TextPart, ToolCall, Usage
from outlast.models.port import CallDelta, Finished, ReasoningDelta, TextDelta
from outlast.models.provider_signature import ProviderSignature, bearer, packed, plain

Delta = TextDelta | ReasoningDelta | CallDelta

_FINISHED = {"tool_call": "tool_calls"}


class ReplyStream:
    """Converts the events of one stream to deltas."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[int, str]] = {}

    def delta(self, event: object) -> Delta | None:
        match event:
            case p.PartStartEvent(index=index, part=part):
                return self._started(index, part)
            case p.PartDeltaEvent(index=index, delta=p.ToolCallPartDelta() as delta):
                return self._call_went_on(index, delta)
            case p.PartDeltaEvent(delta=p.TextPartDelta(content_delta=text)):
                return TextDelta(text) if text else None
            case p.PartDeltaEvent(delta=p.ThinkingPartDelta(content_delta=text)):
                return ReasoningDelta(text) if text else None
            case _:
                return None

    def _started(self, index: int, part: object) -> Delta | None:
        match part:
            case p.TextPart(content=text):
                return TextDelta(text) if text else None
            case p.ThinkingPart(content=text):
                return ReasoningDelta(text) if text else None
            case p.ToolCallPart(tool_name=name, args=args):
                place = len(self._calls)
                self._calls[index] = (place, name)
                return CallDelta(place, name, _text(args))
            case _:
                return None

    def _call_went_on(self, index: int, delta: p.ToolCallPartDelta) -> CallDelta | None:
        place, name = self._calls.setdefault(index, (len(self._calls), ""))
        if delta.tool_name_delta:
            name += delta.tool_name_delta
            self._calls[index] = (place, name)
        text = _text(delta.args_delta)
        return CallDelta(place, name, text) if text or delta.tool_name_delta else None


def finished(response: p.ModelResponse, *, provider: str, model: str) -> Finished | None:
    """Return the whole reply; None if the provider gave no finish reason, which means that the reply broke off."""
    details = response.provider_details or {}
    reason = details.get("finish_reason") or details.get("refusal")  # pydantic-ai's own value may be a guess
    if response.state != "complete" or reason is None:
        return None
    mapped = str(response.finish_reason or reason)
    parts: list[Part] = []
    for part in response.parts:
        parts += _parts(part, provider, cut=mapped == "length")
    word = _FINISHED.get(mapped, mapped)
    if word == "stop" and any(isinstance(part, ToolCall) for part in parts):
        word = "tool_calls"
    return Finished(parts=tuple(parts), usage=counted(response.usage), model=model, finish_reason=word)


def counted(usage: RequestUsage) -> Usage:
    """Convert usage to our names: `input_tokens` is all input, including cached input."""
    details = usage.details
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=details.get("reasoning_tokens") or details.get("thoughts_tokens") or 0,
    )


def _parts(part: p.ModelResponsePart, provider: str, *, cut: bool) -> list[Part]:
    match part:
        case p.TextPart(content=text) if text:
            return [*_proof(part, provider), TextPart(text)]
        case p.ThinkingPart():
            proof = ProviderSignature(id=part.id, signature=part.signature, details=plain(part.provider_details))
            if proof.empty and not part.content:
                return []
            signature = packed(proof)
            return [
                ReasoningPart(
                    text=part.content,
                    signature=signature,
                    provider=provider if signature is not None else None,
                    redacted=part.id == "redacted_thinking",
                )
            ]
        case p.ToolCallPart():
            return [*_proof(part, provider), _call(part, cut)]
        case _:
            return []  # calls that the provider ran itself are not ours


def _proof(part: p.TextPart | p.ToolCallPart, provider: str) -> list[Part]:
    held = bearer(ProviderSignature(id=part.id, details=plain(part.provider_details)), provider)
    return [held] if held is not None else []


def _call(part: p.ToolCallPart, cut: bool) -> ToolCall:
    arguments = _object(part.args, cut)
    if arguments is None:
        return ToolCall(id=part.tool_call_id, name=part.tool_name, provider_id=part.tool_call_id, raw=_text(part.args))
    return ToolCall(id=part.tool_call_id, name=part.tool_name, arguments=arguments, provider_id=part.tool_call_id)


def _object(args: str | dict[str, Any] | None, cut: bool) -> dict[str, Any] | None:
    """Parse the arguments; None if they are not one complete JSON object. Empty arguments mean `{}`, unless the reply
    was cut off."""
    if isinstance(args, dict):
        return args
    if args is None or not args.strip():
        return None if cut else {}
    try:
        return msgspec.json.decode(args, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _text(args: str | dict[str, Any] | None) -> str:
    return msgspec.json.encode(args).decode() if isinstance(args, dict) else args or ""
