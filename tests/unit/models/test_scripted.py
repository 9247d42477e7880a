"""A model that says what it was told to say."""

import json
from pathlib import Path
from typing import Any

import pytest

from outlast.core.errors import ConfigError, ModelRefused, ModelUnavailable, ScriptExhausted
from outlast.core.messages import Message, ReasoningPart, Role, TextPart, ToolCall, Usage
from outlast.models.port import (
    CallDelta,
    CompletionResponse,
    Finished,
    Model,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
)
from outlast.models.scripted import Line, ScriptedBackend, ScriptedFile

CALL = ToolCall(id="c1", name="read", arguments={"file_path": "a.txt"})


def asked(replies: int = 0, session_id: str = "s") -> ModelRequest:
    messages = [Message(role=Role.USER, content="hi")]
    return ModelRequest(system="", messages=messages, replies=replies, session_id=session_id)


async def said(model: Model, request: ModelRequest | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(request or asked())]


def script(tmp_path: Path, *lines: Any) -> ScriptedFile:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(lines))
    return ScriptedFile(path)


async def test_replies_come_in_order_and_requests_are_kept() -> None:
    model = ScriptedBackend(["one", CompletionResponse(content="two")])
    first, second = await said(model), await said(model, asked(replies=1))
    assert isinstance(first[-1], Finished)
    assert isinstance(second[-1], Finished)
    assert [first[-1].parts, second[-1].parts] == [(TextPart("one"),), (TextPart("two"),)]
    assert [request.replies for request in model.requests] == [0, 1]
    assert model.left == 0


async def test_one_request_too_many_is_loud() -> None:
    model = ScriptedBackend(["one"])
    await said(model)
    with pytest.raises(ScriptExhausted, match="has 1 replies and was asked for number 2"):
        await said(model)


async def test_text_reasoning_and_calls_come_in_pieces_that_add_up() -> None:
    reply = CompletionResponse(content="a rather long answer", tool_calls=[CALL], reasoning="because")
    events = await said(ScriptedBackend([reply]))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "a rather long answer"
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "because"
    calls = [event for event in events if isinstance(event, CallDelta)]
    assert json.loads("".join(event.text for event in calls)) == CALL.arguments
    assert len([event for event in events if isinstance(event, TextDelta)]) > 1
    assert isinstance(events[-1], Finished)
    assert events[-1].parts == (ReasoningPart(text="because"), TextPart("a rather long answer"), CALL)
    assert events[-1].finish_reason == "tool_calls"


async def test_without_streaming_there_is_only_the_whole_reply() -> None:
    assert [type(event) for event in await said(ScriptedBackend(["one"], stream=False))] == [Finished]


async def test_an_exception_is_raised_in_its_turn() -> None:
    model = ScriptedBackend([ModelUnavailable("overloaded", retry_after=3), "after"])
    with pytest.raises(ModelUnavailable, match="overloaded"):
        await said(model)
    assert len(await said(model)) > 1


async def test_a_reply_can_break_off_after_some_characters() -> None:
    heard: list[ModelEvent] = []
    model = ScriptedBackend([Line(reply="0123456789", breaks_after=5, error=ModelUnavailable("cut"))])
    try:
        async for event in model.stream(asked()):
            heard.append(event)
    except ModelUnavailable as error:
        assert str(error) == "cut"  # noqa: PT017 what came before it counts as well
    assert "".join(event.text for event in heard if isinstance(event, TextDelta)) == "01234"


async def test_a_reply_can_break_off_without_a_word() -> None:
    events = await said(ScriptedBackend([Line(reply="0123456789", breaks_after=7)]))
    assert not any(isinstance(event, Finished) for event in events)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "0123456"


async def test_usage_takes_the_names_of_providers() -> None:
    events = await said(ScriptedBackend([CompletionResponse(content="x", usage={"prompt_tokens": 3, "total": 9})]))
    assert isinstance(events[-1], Finished)
    assert events[-1].usage == Usage(input_tokens=3)


# ---- a script in a file ---------------------------------------------------------------------------------------------


async def test_a_file_goes_on_where_the_session_stopped(tmp_path: Path) -> None:
    model = script(tmp_path, {"content": "one"}, {"content": "two", "usage": {"input_tokens": 2}})
    events = await said(model, asked(replies=1))
    assert isinstance(events[-1], Finished)
    assert events[-1].parts == (TextPart("two"),)
    assert events[-1].usage.input_tokens == 2
    with pytest.raises(ScriptExhausted, match="2 entries"):
        await said(model, asked(replies=2))


async def test_calls_in_a_file_get_an_id_each(tmp_path: Path) -> None:
    model = script(tmp_path, {"tool_calls": [{"name": "a"}, {"name": "b", "arguments": {"x": 1}, "id": "mine"}]})
    events = await said(model)
    assert isinstance(events[-1], Finished)
    assert events[-1].parts == (
        ToolCall(id="call_0_0", name="a"),
        ToolCall(id="mine", name="b", arguments={"x": 1}),
    )


async def test_an_error_in_a_file_is_no_reply_and_is_over_when_it_was_raised(tmp_path: Path) -> None:
    model = script(tmp_path, {"content": "one"}, {"error": "overloaded"}, {"content": "two"})
    with pytest.raises(ModelUnavailable, match="overloaded"):
        await said(model, asked(replies=1))
    events = await said(model, asked(replies=1))
    assert isinstance(events[-1], Finished)
    assert events[-1].parts == (TextPart("two"),)
    with pytest.raises(ScriptExhausted):
        await said(model, asked(replies=2))
    restarted = ScriptedFile(model.path)
    with pytest.raises(ScriptExhausted):
        await said(restarted, asked(replies=2))


async def test_an_error_at_the_end_of_a_file_stays(tmp_path: Path) -> None:
    model = script(tmp_path, {"error": "down", "status": 400})
    for _ in range(3):
        with pytest.raises(ModelRefused, match="down"):
            await said(model)


@pytest.mark.parametrize("text", ["{", '{"content": "x"}', '[{"contents": "x"}]', '[{"tool_calls": [{}]}]', "\udcff"])
def test_a_malformed_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "script.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match="is not a script") as caught:
        ScriptedFile(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        ScriptedFile(tmp_path / "none.json")
