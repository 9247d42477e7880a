"""The provider path against a real HTTP server: what it answers, and where it is cut."""

import asyncio
import queue
import random
import threading

import pytest

from outlast.core.errors import ContextOverflow, ModelError, ModelRefused, ModelUnavailable
from outlast.core.messages import Message, Role, TextPart, ToolCall
from outlast.models.port import CallDelta, Finished, ModelEvent, ModelRequest, TextDelta
from outlast.models.providers import ProviderModel
from tests.integration.models.server import Answer, Server, chunk, error, said, serving, stream

KEY = "sk-test-0123456789abcdef"


def request(*texts: str) -> ModelRequest:
    return ModelRequest(system="s", messages=[Message(role=Role.USER, content=text) for text in texts or ("hi",)])


def model_at(server: Server) -> ProviderModel:
    return ProviderModel("openai:m", key=KEY, url=server.url, variable="OPENAI_API_KEY")


async def asked(model: ProviderModel, *texts: str) -> list[ModelEvent]:
    return [event async for event in model.stream(request(*texts))]


async def failed(*answers: Answer) -> ModelError:
    async with serving(*answers) as server:
        model = model_at(server)
        with pytest.raises(ModelError) as caught:
            await asked(model)
        await model.close()
        assert len(server.requests) == 1  # nothing below the runtime retries
        assert KEY not in str(caught.value)
        return caught.value


async def test_a_reply_comes_in_several_deltas_over_chat_completions() -> None:
    async with serving(said("Hel|lo |there")) as server:
        model = model_at(server)
        events = await asked(model)
        await model.close()
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hel", "lo ", "there"]
    assert isinstance(events[-1], Finished)
    assert server.requests[0][0] == "POST /v1/chat/completions HTTP/1.1"
    assert server.requests[0][1]["stream"] is True


async def test_too_many_requests_keeps_the_wait() -> None:
    found = await failed(error(429, "slow down", retry_after="7"))
    assert isinstance(found, ModelUnavailable)
    assert (found.status, found.retry_after) == (429, 7.0)


@pytest.mark.parametrize("status", [500, 503, 529])
async def test_a_server_fault_may_be_asked_again(status: int) -> None:
    assert type(await failed(error(status, "oops"))) is ModelUnavailable


async def test_a_window_too_large_is_told_apart_from_other_bad_requests() -> None:
    text = "This model's maximum context length is 10 tokens"
    assert type(await failed(error(400, text))) is ContextOverflow
    assert type(await failed(error(400, "unknown field 'x'"))) is ModelRefused


async def test_a_refused_key_names_its_variable() -> None:
    assert "OPENAI_API_KEY" in str(await failed(error(401, f"bad key {KEY}")))


async def test_an_unknown_model_names_the_command_that_lists_them() -> None:
    assert "outlast models" in str(await failed(error(404, "no such model")))


async def test_an_address_where_nobody_listens_is_one_sentence() -> None:
    async with serving() as server:
        pass
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await asked(ProviderModel("openai:m", url=server.url))


@pytest.mark.parametrize("body", [b"<html>no</html>", b"", stream("{", "[DONE]"), stream({"choices": 3}), stream([])])
async def test_an_answer_that_is_none_may_be_asked_again(body: bytes) -> None:
    answer = Answer(body=body, headers={"content-type": "text/event-stream"})
    assert type(await failed(answer)) is ModelUnavailable


async def test_an_error_inside_a_stream_counts_like_one_before_it() -> None:
    body = stream(chunk({"content": "Hel"}), {"error": {"message": "overloaded", "code": "server_error"}})
    answer = Answer(body=body, headers={"content-type": "text/event-stream"})
    assert isinstance(await failed(answer), ModelUnavailable)


WHOLE = stream(
    chunk({"role": "assistant", "content": "I will "}),
    chunk({"content": "wr\u00f6te"}),
    chunk({"tool_calls": [{"index": 0, "id": "t1", "function": {"name": "rm", "arguments": '{"path": '}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"a/b"'}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": ', "deep": true}'}}]}),
    chunk({}, "tool_calls"),
    "[DONE]",
)
END = WHOLE.index(b'"finish_reason": "tool_calls"')


async def test_a_stream_cut_anywhere_breaks_off_and_never_calls_what_was_not_asked_for() -> None:
    dice = random.Random(20261116)
    cuts = sorted({dice.randrange(len(WHOLE)) for _ in range(60)} | {0, 1, END, len(WHOLE) - 1})
    event_stream = {"content-type": "text/event-stream"}
    async with serving() as server:
        model = model_at(server)
        for polite in (False, True):
            for cut in cuts:
                body = WHOLE[:cut] if polite else WHOLE
                server.answers.append(Answer(body=body, headers=event_stream, cut=None if polite else cut))
                whole = await _to_the_end(model)
                if whole is not None:
                    assert cut > END
                    assert whole.parts == (
                        TextPart("I will wr\u00f6te"),
                        ToolCall(id="t1", name="rm", arguments={"path": "a/b", "deep": True}, provider_id="t1"),
                    )
        server.answers.append(Answer(body=WHOLE, headers=event_stream))
        assert await _to_the_end(model) is not None
        await model.close()


async def _to_the_end(model: ProviderModel) -> Finished | None:
    try:
        events = await asked(model)
    except ModelUnavailable:
        return None
    assert isinstance(events[-1], Finished)
    assert any(isinstance(event, CallDelta) for event in events)
    return events[-1]


async def test_a_server_that_wants_turns_is_given_turns_from_then_on() -> None:
    refusal = error(500, "Conversation roles must alternate user/assistant/user/assistant/...")
    async with serving(refusal, said("o|k"), said("o|k")) as server:
        model = model_at(server)
        await asked(model, "one", "two")
        await asked(model, "one", "two")
        await model.close()
    contents = [[message["content"] for message in body["messages"][1:]] for _, body in server.requests]
    assert contents == [["one", "two"], ["one\n\ntwo"], ["one\n\ntwo"]]


def test_one_model_serves_several_event_loops_one_after_another() -> None:
    def served() -> None:
        asyncio.run(serve())

    async def serve() -> None:
        async with serving(said("o|k"), said("o|k")) as server:
            urls.put(server.url)
            while len(server.requests) < 2:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(done.wait)

    urls: queue.Queue[str] = queue.Queue()
    done = threading.Event()
    thread = threading.Thread(target=served)
    thread.start()
    model = ProviderModel("openai:m", url=urls.get())

    async def once() -> ModelEvent:
        events = await asked(model)
        await model.close()
        return events[-1]

    try:
        assert [type(asyncio.run(once())) for _ in range(2)] == [Finished, Finished]
    finally:
        done.set()
        thread.join()
