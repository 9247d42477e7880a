"""Windows as pydantic-ai's messages."""

from typing import Any

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
from outlast.models.provider_signature import ProviderSignature, bearer, packed
from outlast.models.request_messages import INVALID_JSON, RequestMessages, call_id, reminder

PNG = ImagePart(media_type="image/png", data=b"\x89PNG")


def user(*parts: Part | str) -> Message:
    return Message(role=Role.USER, parts=tuple(TextPart(x) if isinstance(x, str) else x for x in parts))


def assistant(*parts: Part) -> Message:
    return Message(role=Role.ASSISTANT, parts=parts)


def result(call: str, content: str = "done", *rest: Part, is_error: bool = False) -> Message:
    parts = (ToolResult(call_id=call, content=content, is_error=is_error), *rest)
    return Message(role=Role.TOOL, parts=parts)


def sent(*window: Message, tools: bool = True, images: bool = True, merged: bool = False) -> list[p.ModelMessage]:
    return RequestMessages("anthropic", "anthropic", tools=tools, images=images, merged=merged).messages(window)


def contents(message: p.ModelMessage) -> list[Any]:
    return [getattr(part, "content", None) for part in message.parts]


def test_user_messages_in_a_row_stay_messages_of_their_own_in_one_request() -> None:
    [request] = sent(user("one"), user("two"))
    assert contents(request) == ["one", "two"]


def test_user_messages_in_a_row_are_joined_where_a_server_wants_turns() -> None:
    [request] = sent(user("one"), user("two"), user("see", PNG), merged=True)
    [content] = contents(request)
    assert content[0] == "one\n\ntwo"
    assert content[1] == "see"


def test_what_the_runtime_says_is_user_content_in_a_tag_and_never_the_system_prompt() -> None:
    [request] = sent(Message(role=Role.SYSTEM, content="be brief"), user("hi"))
    assert contents(request) == ["<system-reminder>\nbe brief\n</system-reminder>", "hi"]
    assert all(isinstance(part, p.UserPromptPart) for part in request.parts)


def test_text_that_quotes_the_closing_tag_cannot_end_a_reminder() -> None:
    assert reminder("a</system-reminder>b").count("</system-reminder>") == 1


def test_a_call_and_its_result_are_paired_by_our_id() -> None:
    call = ToolCall(id="ours", name="read", arguments={"file_path": "a"}, provider_id="theirs")
    request, response, answer = sent(user("go"), assistant(TextPart("so"), call), result("ours"))
    assert isinstance(response, p.ModelResponse)
    assert response.parts[1] == p.ToolCallPart("read", {"file_path": "a"}, "ours")
    [returned] = answer.parts
    assert isinstance(returned, p.ToolReturnPart)
    assert (returned.tool_name, returned.tool_call_id, returned.content, returned.outcome) == (
        "read",
        "ours",
        "done",
        "success",
    )
    assert isinstance(request, p.ModelRequest)


def test_results_of_one_reply_stand_in_one_request_with_what_the_user_said_after() -> None:
    calls = (ToolCall(id="a", name="x"), ToolCall(id="b", name="y"))
    *_, answer = sent(user("go"), assistant(*calls), result("a"), result("b", is_error=True), user("and?"))
    assert [type(part) for part in answer.parts] == [p.ToolReturnPart, p.ToolReturnPart, p.UserPromptPart]
    assert isinstance(answer.parts[1], p.ToolReturnPart)
    assert answer.parts[1].outcome == "failed"


def test_an_image_behind_a_result_goes_with_it() -> None:
    *_, answer = sent(user("go"), assistant(ToolCall(id="a", name="shot")), result("a", "a picture", PNG))
    [content] = contents(answer)
    assert content == ["a picture", p.BinaryContent(b"\x89PNG", media_type="image/png")]


def test_a_call_that_was_no_json_goes_back_as_what_was_written() -> None:
    *_, response, _ = sent(user("go"), assistant(ToolCall(id="a", name="x", raw='{"b": ')), result("a"))
    assert isinstance(response.parts[0], p.ToolCallPart)
    assert response.parts[0].args == {INVALID_JSON: '{"b": '}


def test_without_tools_calls_and_results_are_told_as_text() -> None:
    call = ToolCall(id="a", name="read", arguments={"file_path": "f"})
    _, response, answer = sent(user("go"), assistant(call), result("a", "text of f"), tools=False)
    assert contents(response) == ['[called read with {"file_path":"f"}]']
    assert contents(answer) == ["[result of read]\ntext of f"]


def test_reasoning_goes_back_only_with_a_proof_of_this_provider() -> None:
    mine = ReasoningPart(text="so", signature="sig", provider="anthropic")
    foreign = ReasoningPart(text="thus", signature="x", provider="openai")
    bare = ReasoningPart(text="hm")
    _, response = sent(user("go"), assistant(mine, foreign, bare, TextPart("yes")))
    assert response.parts == [
        p.ThinkingPart("so", signature="sig", provider_name="anthropic"),
        p.TextPart("yes"),
    ]


def test_the_proof_of_a_call_goes_back_on_the_call() -> None:
    proof = bearer(ProviderSignature(id="fc_1", details={"thought_signature": "abc"}), "anthropic")
    assert proof is not None
    _, response = sent(user("go"), assistant(proof, ToolCall(id="a", name="x")))
    [call] = response.parts
    assert isinstance(call, p.ToolCallPart)
    assert (call.id, call.provider_details) == ("fc_1", {"thought_signature": "abc"})


def test_a_proof_of_another_version_is_no_proof() -> None:
    part = ReasoningPart(text="so", signature='outlast:{"id": 3}', provider="anthropic")
    assert len(sent(user("go"), assistant(part, TextPart("yes")))[1].parts) == 1


def test_a_signature_that_stands_alone_is_kept_as_it_is() -> None:
    assert packed(ProviderSignature(signature="sig")) == "sig"
    assert packed(ProviderSignature()) is None


def test_files_are_text_where_they_are_text() -> None:
    text = FilePart(name="a.py", media_type="text/x-python", data=b"x = 1")
    binary = FilePart(name="a.bin", media_type="application/octet-stream", data=b"\xff\xfe")
    pdf = FilePart(name="a.pdf", media_type="application/pdf", data=b"%PDF")
    [request] = sent(user(text, binary, pdf))
    [content] = contents(request)
    assert content[0] == '<file name="a.py">\nx = 1\n</file>'
    assert "cannot read it" in content[1]
    assert content[2].media_type == "application/pdf"


def test_images_that_a_model_cannot_take_are_named() -> None:
    strange = ImagePart(media_type="image/svg+xml", data=b"<svg/>")
    linked = ImagePart(media_type="image/png", url="https://example.org/a.png")
    local = ImagePart(media_type="image/png", url="file:///etc/passwd")
    [request] = sent(user(strange, linked, local))
    [content] = contents(request)
    assert isinstance(content[1], p.ImageUrl)
    assert [type(content[0]), type(content[2])] == [str, str]
    [blind] = sent(user("see", PNG), images=False)
    assert "cannot see images" in contents(blind)[0][1]


def test_ids_that_providers_refuse_are_replaced_the_same_way_each_time() -> None:
    assert call_id("toolu_01") == "toolu_01"
    assert call_id("a:b") == call_id("a:b") != call_id("a:c")
    assert len(call_id("x" * 99)) <= 40


def test_the_beginning_stays_the_same_while_a_window_grows() -> None:
    window = [user("go"), assistant(ToolCall(id="a", name="x")), result("a"), assistant(TextPart("done")), user("more")]
    longest = [part for message in sent(*window) for part in message.parts]
    for length in range(1, len(window)):
        parts = [part for message in sent(*window[:length]) for part in message.parts]
        assert [repr_of(part) for part in parts] == [repr_of(part) for part in longest[: len(parts)]]


def repr_of(part: Any) -> tuple[Any, ...]:
    return (part.part_kind, *(getattr(part, name, None) for name in ("content", "args", "tool_call_id")))
