"""What really goes to the big providers, and what is made of their answers: their own SDKs, without a network."""

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from outlast.core.errors import ModelUnavailable
from outlast.core.messages import Message, ReasoningPart, Role, TextPart, ToolCall, ToolResult, Usage
from outlast.models import provider_request
from outlast.models.port import Finished, ModelEvent, ModelRequest, TextDelta, ToolSpec
from outlast.models.providers import ProviderModel

READ = ToolSpec(
    name="read",
    description="Read a file.",
    parameters={"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
)
CALL = ToolCall(id="call_1", name="read", arguments={"file_path": "a"})
WINDOW = [
    Message(role=Role.USER, content="look"),
    Message(role=Role.ASSISTANT, parts=(TextPart("I will"), CALL)),
    Message(role=Role.TOOL, parts=(ToolResult(call_id="call_1", content="text of a", is_error=True),)),
    Message(role=Role.SYSTEM, content="be brief"),
    Message(role=Role.USER, content="first"),
    Message(role=Role.USER, content="second"),
]


class Wire:
    """Takes requests, answers each with the same events."""

    def __init__(self, events: Iterable[tuple[str | None, object]]) -> None:
        self.requests: list[httpx2.Request] = []
        self._text = "".join(
            (f"event: {name}\n" if name else "") + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
            for name, data in events
        )

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(200, text=self._text, headers={"content-type": "text/event-stream"})

    @property
    def body(self) -> Any:
        return json.loads(self.requests[-1].content)


def wired(monkeypatch: pytest.MonkeyPatch, events: Iterable[tuple[str | None, object]]) -> Wire:
    wire = Wire(events)

    def client(url: str | None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(wire), timeout=60)

    monkeypatch.setattr(provider_request, "_client", client)
    return wire


async def reply(model: ProviderModel, **more: Any) -> tuple[list[ModelEvent], Finished]:
    wanted: dict[str, Any] = {"system": "You are Outlast.", "messages": WINDOW, "tools": (READ,), "session_id": "s1"}
    events = [event async for event in model.stream(ModelRequest(**(wanted | more)))]
    await model.close()
    assert isinstance(events[-1], Finished)
    return events, events[-1]


# ---- OpenAI chat completions ----------------------------------------------------------------------------------------


def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[None, dict[str, Any]]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return None, {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


CHAT: list[tuple[str | None, object]] = [
    chunk({"role": "assistant", "content": "He"}),
    chunk({"content": "llo"}),
    chunk({"tool_calls": [{"index": 0, "id": "t1", "function": {"name": "read", "arguments": '{"file_'}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'path": "b"}'}}]}),
    chunk({}, "tool_calls"),
    (
        None,
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [],
            "usage": {
                "prompt_tokens": 20,
                "completion_tokens": 5,
                "total_tokens": 25,
                "prompt_tokens_details": {"cached_tokens": 12},
            },
        },
    ),
    (None, "[DONE]"),
]


async def test_chat_completions_there_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = wired(monkeypatch, CHAT)
    events, whole = await reply(ProviderModel("openai:m", key="k", url="http://127.0.0.1:1/v1"), max_output_tokens=99)
    assert str(wire.requests[-1].url) == "http://127.0.0.1:1/v1/chat/completions"
    said = wire.body["messages"]
    assert [message["role"] for message in said] == ["system", "user", "assistant", "tool", "user", "user", "user"]
    assert said[0]["content"] == "You are Outlast."
    assert said[2]["tool_calls"][0]["id"] == said[3]["tool_call_id"] == "call_1"
    assert said[-1]["content"] == "second"
    assert "<system-reminder>" in said[-3]["content"]
    assert wire.body["tools"][0]["function"]["parameters"]["required"] == ["file_path"]
    assert 99 in (wire.body.get("max_tokens"), wire.body.get("max_completion_tokens"))
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello"
    assert whole.parts == (
        TextPart("Hello"),
        ToolCall(id="t1", name="read", arguments={"file_path": "b"}, provider_id="t1"),
    )
    assert whole.usage == Usage(input_tokens=20, output_tokens=5, cache_read_tokens=12)
    assert whole.finish_reason == "tool_calls"


async def test_the_prefix_is_the_same_byte_for_byte_as_the_window_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = wired(monkeypatch, CHAT)
    model = ProviderModel("openai:m", key="k", url="http://127.0.0.1:1/v1")
    sent: list[list[Any]] = []
    for length in (1, 3, 5, 6):
        await reply(model, messages=WINDOW[:length])
        sent.append(wire.body["messages"])
    for shorter, longer in pairwise(sent):
        assert json.dumps(longer[: len(shorter)]) == json.dumps(shorter)


# ---- OpenAI responses -----------------------------------------------------------------------------------------------


def responses_events() -> list[tuple[str, dict[str, Any]]]:
    done: dict[str, Any] = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "model": "gpt-6.1-sol",
        "status": "completed",
    }
    done |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "output": []}
    done["usage"] = {
        "input_tokens": 30,
        "output_tokens": 9,
        "total_tokens": 39,
        "input_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 4},
    }
    thought: dict[str, Any] = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "ENC"}
    call = {"id": "fc_1", "type": "function_call", "call_id": "t1", "name": "read", "status": "completed"}
    arguments = '{"file_path": "b"}'
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": done | {"status": "in_progress", "usage": None}},
        {"type": "response.output_item.added", "output_index": 0, "item": thought},
        {"type": "response.output_item.done", "output_index": 0, "item": thought},
        {"type": "response.output_item.added", "output_index": 1, "item": call | {"arguments": ""}},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": arguments},
        {"type": "response.output_item.done", "output_index": 1, "item": call | {"arguments": arguments}},
        {"type": "response.completed", "response": done},
    ]
    return [(event["type"], event | {"sequence_number": n}) for n, event in enumerate(events)]


async def test_responses_there_and_back_and_reasoning_goes_home(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = wired(monkeypatch, responses_events())
    model = ProviderModel("openai:gpt-6.1-sol", key="k", variable="OPENAI_API_KEY")
    _, whole = await reply(model, effort="high")
    assert wire.requests[-1].url.path == "/v1/responses"
    assert wire.body["store"] is False
    assert wire.body["reasoning"]["effort"] == "high"
    assert wire.body["prompt_cache_key"] == "s1"
    assert wire.body["instructions"] == "You are Outlast." or wire.body["input"][0]["content"] == "You are Outlast."
    assert whole.usage == Usage(input_tokens=30, output_tokens=9, cache_read_tokens=10, reasoning_tokens=4)
    assert whole.finish_reason == "tool_calls"
    assert [part for part in whole.parts if isinstance(part, ToolCall)] == [
        ToolCall(id="t1", name="read", arguments={"file_path": "b"}, provider_id="t1")
    ]
    result = Message(role=Role.TOOL, parts=(ToolResult(call_id="t1", content="ok"),))
    await reply(model, messages=[WINDOW[0], Message(role=Role.ASSISTANT, parts=whole.parts), result])
    items = {item.get("type"): item for item in wire.body["input"]}
    assert (items["reasoning"]["id"], items["reasoning"]["encrypted_content"]) == ("rs_1", "ENC")
    assert (items["function_call"]["call_id"], items["function_call_output"]["call_id"]) == ("t1", "t1")


# ---- Anthropic ------------------------------------------------------------------------------------------------------

USED = {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 40}
ANTHROPIC: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5-5",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": USED,
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "SIG"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": '{"file_path": "b"}'},
    },
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": USED | {"output_tokens": 17},
    },
    {"type": "message_stop"},
]


async def test_anthropic_there_and_back_with_cache_points_and_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = wired(monkeypatch, [(event["type"], event) for event in ANTHROPIC])
    model = ProviderModel("anthropic:claude-sonnet-5-5", key="k", variable="ANTHROPIC_API_KEY")
    _, whole = await reply(model, effort="low")
    system = wire.body["system"]
    assert [block["text"] for block in system] == ["You are Outlast."]
    assert "cache_control" in system[-1]
    assert "cache_control" in wire.body["tools"][-1]
    assert "cache_control" in json.dumps(wire.body["messages"]) or "cache_control" in wire.body
    roles = [message["role"] for message in wire.body["messages"]]
    assert roles == ["user", "assistant", "user"]
    last = wire.body["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "text", "text", "text"]
    assert last[0]["tool_use_id"] == "call_1"
    assert last[0]["is_error"] is True
    assert last[-1]["text"] == "second"
    assert whole.parts == (
        ReasoningPart(text="hm", signature="SIG", provider="anthropic"),
        ToolCall(id="toolu_1", name="read", arguments={"file_path": "b"}, provider_id="toolu_1"),
    )
    assert whole.usage == Usage(input_tokens=135, output_tokens=17, cache_read_tokens=90, cache_write_tokens=40)
    result = Message(role=Role.TOOL, parts=(ToolResult(call_id="toolu_1", content="ok"),))
    await reply(model, messages=[WINDOW[0], Message(role=Role.ASSISTANT, parts=whole.parts), result])
    blocks = wire.body["messages"][1]["content"]
    assert (blocks[0]["type"], blocks[0]["signature"], blocks[0]["thinking"]) == ("thinking", "SIG", "hm")


@pytest.mark.parametrize("kept", range(1, len(ANTHROPIC) - 1))
async def test_an_anthropic_reply_that_ends_early_broke_off(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    wired(monkeypatch, [(event["type"], event) for event in ANTHROPIC[:kept]])
    with pytest.raises(ModelUnavailable):
        await reply(ProviderModel("anthropic:claude-sonnet-5-5", key="k"))


@pytest.mark.parametrize("kept", range(1, 7))
async def test_a_responses_reply_that_ends_early_broke_off(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    wired(monkeypatch, responses_events()[:kept])
    with pytest.raises(ModelUnavailable):
        await reply(ProviderModel("openai:gpt-6.1-sol", key="k"))


# ---- Google ---------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # Google's SDK, when it is compiled
async def test_google_there_and_back_and_the_signature_of_a_call_goes_home(monkeypatch: pytest.MonkeyPatch) -> None:
    call = {"functionCall": {"name": "read", "args": {"file_path": "b"}}, "thoughtSignature": "QUJD"}
    answer = {
        "candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 3, "totalTokenCount": 14},
        "modelVersion": "gemini-3.8-flash",
        "responseId": "r",
    }
    wire = wired(monkeypatch, [(None, answer)])
    model = ProviderModel("google:gemini-3.8-flash", key="k", variable="GOOGLE_API_KEY")
    _, whole = await reply(model)
    assert wire.body["systemInstruction"]["parts"][0]["text"] == "You are Outlast."
    [ours] = [part for part in whole.parts if isinstance(part, ToolCall)]
    assert ours.arguments == {"file_path": "b"}
    assert whole.usage.input_tokens == 11
    result = Message(role=Role.TOOL, parts=(ToolResult(call_id=ours.id, content="ok"),))
    await reply(model, messages=[WINDOW[0], Message(role=Role.ASSISTANT, parts=whole.parts), result])
    assert "QUJD" in json.dumps(wire.body["contents"][1])
