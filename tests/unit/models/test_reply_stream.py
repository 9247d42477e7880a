"""Replies of pydantic-ai in our words."""

from typing import Any

import pytest
from pydantic_ai import messages as p
from pydantic_ai.usage import RequestUsage

from outlast.core.messages import ReasoningPart, TextPart, ToolCall, Usage
from outlast.models.port import CallDelta, Finished, ReasoningDelta, TextDelta
from outlast.models.provider_signature import unpacked
from outlast.models.reply_stream import ReplyStream, finished


def reply(*parts: p.ModelResponsePart, reason: str | None = "stop", raw: str | None = "end_turn", **more: Any) -> Any:
    details = {"finish_reason": raw} if raw else {}
    return p.ModelResponse(parts=parts, finish_reason=reason, provider_details=details, **more)  # pyright: ignore[reportArgumentType]


def whole(*parts: p.ModelResponsePart, **more: Any) -> Finished:
    found = finished(reply(*parts, **more), provider="anthropic", model="anthropic:m")
    assert found is not None
    return found


def test_deltas_follow_the_stream() -> None:
    incoming = ReplyStream()
    events = [
        p.PartStartEvent(index=0, part=p.ThinkingPart("h")),
        p.PartDeltaEvent(index=0, delta=p.ThinkingPartDelta(content_delta="m")),
        p.PartStartEvent(index=1, part=p.TextPart("a")),
        p.PartDeltaEvent(index=1, delta=p.TextPartDelta("b")),
        p.PartStartEvent(index=2, part=p.ToolCallPart("read", '{"x"', "1")),
        p.PartDeltaEvent(index=2, delta=p.ToolCallPartDelta(args_delta=": 1}")),
        p.PartStartEvent(index=3, part=p.ToolCallPart("write", None, "2")),
        p.PartDeltaEvent(index=3, delta=p.ToolCallPartDelta(args_delta="{}")),
        p.PartEndEvent(index=3, part=p.ToolCallPart("write", "{}", "2")),
    ]
    assert [delta for event in events if (delta := incoming.delta(event)) is not None] == [
        ReasoningDelta("h"),
        ReasoningDelta("m"),
        TextDelta("a"),
        TextDelta("b"),
        CallDelta(0, "read", '{"x"'),
        CallDelta(0, "read", ": 1}"),
        CallDelta(1, "write", ""),
        CallDelta(1, "write", "{}"),
    ]


def test_a_reply_without_a_reason_to_end_broke_off() -> None:
    assert finished(reply(p.TextPart("x"), raw=None), provider="openai", model="m") is None
    assert finished(reply(p.TextPart("x"), state="incomplete"), provider="openai", model="m") is None


def test_parts_keep_their_order() -> None:
    parts = whole(
        p.ThinkingPart("so", signature="s"), p.TextPart("yes"), p.ToolCallPart("read", '{"a": 1}', "id1")
    ).parts
    assert parts == (
        ReasoningPart(text="so", signature="s", provider="anthropic"),
        TextPart("yes"),
        ToolCall(id="id1", name="read", arguments={"a": 1}, provider_id="id1"),
    )


def test_reasoning_that_is_only_a_proof_is_kept() -> None:
    hidden = p.ThinkingPart("", id="redacted_thinking", signature="data", provider_name="anthropic")
    [part] = whole(hidden).parts
    assert isinstance(part, ReasoningPart)
    assert part.redacted
    assert unpacked(part.signature).signature == "data"
    assert unpacked(part.signature).id == "redacted_thinking"


def test_the_proof_of_a_call_stands_before_it() -> None:
    call = p.ToolCallPart("read", {}, "1", provider_name="google", provider_details={"thought_signature": "abc"})
    proof, ours = whole(call).parts
    assert isinstance(proof, ReasoningPart)
    assert unpacked(proof.signature).of_next
    assert unpacked(proof.signature).details == {"thought_signature": "abc"}
    assert isinstance(ours, ToolCall)


@pytest.mark.parametrize("text", ['{"a": ', "[1]", '"x"', "null", '{"a": NaN}', '{"a":1} {"b":2}', "{" * 3000])
def test_arguments_that_are_not_one_json_object_are_never_executed(text: str) -> None:
    [call] = whole(p.ToolCallPart("read", text, "1")).parts
    assert isinstance(call, ToolCall)
    assert call.raw == text
    assert call.arguments == {}


def test_no_arguments_are_none_unless_the_reply_was_cut_off() -> None:
    [call] = whole(p.ToolCallPart("now", "", "1")).parts
    assert isinstance(call, ToolCall)
    assert call.raw is None
    [cut] = whole(p.ToolCallPart("now", "", "1"), reason="length").parts
    assert isinstance(cut, ToolCall)
    assert cut.raw == ""


@pytest.mark.parametrize(
    ("theirs", "raw", "ours"),
    [("stop", "end_turn", "stop"), ("length", "max_tokens", "length"), ("content_filter", "refusal", "content_filter")],
)
def test_finish_reasons_are_in_our_words(theirs: str, raw: str, ours: str) -> None:
    assert whole(p.TextPart("x"), reason=theirs, raw=raw).finish_reason == ours


def test_a_reason_nobody_mapped_is_the_providers_own_word() -> None:
    assert whole(p.TextPart("x"), reason=None, raw="eos_weird").finish_reason == "eos_weird"


def test_a_reply_that_calls_ends_with_tool_calls_whatever_the_server_says() -> None:
    assert whole(p.ToolCallPart("a", "{}", "1"), reason="stop").finish_reason == "tool_calls"
    assert whole(p.ToolCallPart("a", "{}", "1"), reason="tool_call").finish_reason == "tool_calls"


def test_cache_and_reasoning_tokens_are_counted() -> None:
    usage = RequestUsage(
        input_tokens=100, output_tokens=7, cache_read_tokens=60, cache_write_tokens=30, details={"reasoning_tokens": 4}
    )
    assert whole(p.TextPart("x"), usage=usage).usage == Usage(
        input_tokens=100, output_tokens=7, cache_read_tokens=60, cache_write_tokens=30, reasoning_tokens=4
    )
