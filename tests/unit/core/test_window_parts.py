"""Each part of a message is seen in a form that every provider takes, and the log stays as it is."""

import pytest

from outlast.core import events as e
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
from outlast.core.repair import EMPTY, GO_ON, NOT_EXECUTED
from outlast.core.window import SUMMARY_MARK, said, window
from tests.support.histories import Log, appended, asked, call, finished, replied, text, whole_turn
from tests.support.random_histories import PNG
from tests.unit.core.window_view import LIMIT, lines, seen


def thought(provider: str | None, redacted: bool = False) -> ReasoningPart:
    return ReasoningPart(text="hm", signature="proof", provider=provider, redacted=redacted)


def reasoning_seen(part: Part, provider: str | None) -> list[Part]:
    log = Log()
    log.add(appended(Role.USER, "hi"), replied(part, TextPart("hello")))
    return [part for part in seen(log, provider).messages[-1].parts if isinstance(part, ReasoningPart)]


def test_reasoning_keeps_its_signature_for_the_provider_that_signed_it() -> None:
    assert reasoning_seen(thought("anthropic"), "anthropic") == [thought("anthropic")]
    assert reasoning_seen(thought("anthropic"), None) == [thought("anthropic")]


def test_reasoning_of_another_provider_loses_its_signature_and_what_only_that_one_can_read_is_dropped() -> None:
    assert reasoning_seen(thought("anthropic"), "openai") == [ReasoningPart(text="hm")]
    assert reasoning_seen(thought(None), "openai") == [ReasoningPart(text="hm")]
    assert reasoning_seen(thought("anthropic", redacted=True), "openai") == []


def picture(size: int = len(PNG)) -> bytes:
    return PNG + bytes(size - len(PNG))


def attached(*parts: Part, role: Role = Role.USER) -> list[Part]:
    """What is seen of these parts in a message."""
    log = Log()
    log.add(e.MessageAppended(role=role, parts=(TextPart("see"), *parts)))
    return list(seen(log).messages[-1].parts[1:])


def test_an_image_over_the_limit_becomes_a_note() -> None:
    small, large = ImagePart("image/png", picture(LIMIT)), ImagePart("image/png", picture(LIMIT + 1), alt="map")
    first, second, third = attached(small, large, FilePart("a.bin", "x/y", b"x" * 2000))
    assert first == small
    assert second == TextPart("[map (image/png) is left out: 1001 bytes, the limit is 1000]")
    assert third == TextPart("[a.bin (x/y) is left out: 2000 bytes, the limit is 1000]")


def test_an_image_is_what_its_bytes_say() -> None:
    assert attached(ImagePart("image/jpeg", PNG)) == [ImagePart("image/png", PNG)]
    tall = PNG[:16] + (10).to_bytes(4, "big") + (9000).to_bytes(4, "big")
    [note] = attached(ImagePart("image/png", tall))
    assert note == TextPart("[image (image/png) is left out: it has 10 x 9000 pixels, the limit is 8000 a side]")
    [note] = attached(ImagePart("image/png", b"GIF8 not"))
    assert note == TextPart("[image (image/png) is left out: it is not a PNG, JPEG, GIF or WebP image]")


def test_an_image_by_its_address_is_sent_only_from_the_web() -> None:
    link = ImagePart("image/png", url="https://example.org/a.png")
    assert attached(link, ImagePart("image/png", url="file:///etc/passwd")) == [link]


def test_files_go_as_pdf_as_image_as_text_or_as_a_note() -> None:
    pdf = FilePart("a.pdf", "application/pdf", b"%PDF-1.7")
    text_file, picture_file = FilePart("a.py", "text/x-python", b"x = 1"), FilePart("a.png", "image/png", PNG)
    first, second, third, fourth = attached(pdf, text_file, picture_file, FilePart("a.zip", "application/zip", b"PK"))
    assert (first, second) == (pdf, TextPart('<file name="a.py">\nx = 1\n</file>'))
    assert third == ImagePart("image/png", PNG, alt="a.png")
    assert fourth == TextPart("[a.zip (application/zip) is left out: only PDF and text files can be sent]")


@pytest.mark.parametrize("role", [Role.ASSISTANT, Role.SYSTEM])
def test_only_users_and_tools_attach_anything(role: Role) -> None:
    [note] = attached(ImagePart("image/png", PNG), role=role)
    assert note == TextPart(f"[image (image/png) is left out: a message of the {role} takes text only]")


def test_an_image_that_a_tool_gave_stays_with_its_result() -> None:
    log = Log()
    asked(log)
    image = ImagePart("image/png", PNG)
    log.add(replied(call("c1"), call("c2")))
    log.add(e.ToolCallFinished(call_id="c1", name="shot", parts=(TextPart("here"), image)))
    log.add(e.ToolCallFinished(call_id="c2", name="shot", parts=(image, FilePart("a.bin", "x/y", b"x"))))
    one, other = seen(log).messages[-2:]
    assert one.parts == (ToolResult(call_id="c1", content="here", name="bash"), image)
    assert other.parts[1:] == (image,)
    assert other.content.startswith("(see the attachment)\n[a.bin (x/y) is left out")


# --- names, ids, reasoning, requests -----------------------------------------------------------------------------


def test_names_and_ids_are_put_into_the_form_that_providers_take() -> None:
    log = Log()
    asked(log)
    odd = ToolCall(id="call é" + "x" * 60, name="mcp.server/tool name")
    log.add(replied(odd, ToolCall(id="", name="")))
    log.add(e.ToolCallFinished(call_id=odd.id, name=odd.name, parts=text("one")))
    first, second = seen(log).messages[1].tool_calls
    assert (first.id, first.name) == ("call__" + "x" * 34, "mcp_server_tool_name")
    assert (second.id, second.name) == ("call", "tool")
    answers = [message.tool_results[0] for message in seen(log).messages[2:]]
    assert [(answer.call_id, answer.name) for answer in answers] == [(first.id, first.name), ("call", "tool")]
    assert log.rows[3][1] == replied(odd, ToolCall(id="", name=""))


def test_long_ids_that_differ_only_at_their_end_stay_apart() -> None:
    log = Log()
    asked(log)
    log.add(replied(*(ToolCall(id="y" * 50 + str(n), name="x") for n in range(12))))
    ids = [one.id for one in seen(log).messages[1].tool_calls]
    assert len(set(ids)) == 12
    assert {len(one) for one in ids} == {40}


def test_text_that_was_no_json_goes_back_as_it_was() -> None:
    log = Log()
    asked(log)
    log.add(replied(ToolCall(id="c1", name="bash", raw='{"command": "l\ud800')))
    assert seen(log).messages[1].tool_calls[0].raw == '{"command": "l\ufffd'


def test_reasoning_that_leads_to_nothing_is_dropped() -> None:
    assert reasoning_seen(thought("anthropic"), "anthropic") == [thought("anthropic")]
    log = Log()
    log.add(appended(Role.USER, "hi"), replied(TextPart("hello"), thought("openai")))
    assert seen(log, "openai").messages[-1].parts == (TextPart("hello"),)


def test_anthropic_gets_signed_reasoning_only_at_the_beginning() -> None:
    log = Log()
    log.add(appended(Role.USER, "hi"), replied(TextPart("well"), thought("anthropic"), TextPart("hello")))
    assert seen(log, "anthropic").messages[-1].parts[1] == ReasoningPart(text="hm")
    again = Log()
    again.add(appended(Role.USER, "hi"), appended(Role.ASSISTANT, "well"), replied(thought("anthropic"), TextPart("x")))
    assert seen(again, "anthropic").messages[-1].parts[0] == ReasoningPart(text="hm")


def test_reasoning_whose_text_had_to_be_changed_is_not_signed_any_more() -> None:
    assert reasoning_seen(ReasoningPart("a\ud800", "proof", "openai"), "openai") == [ReasoningPart("a\ufffd")]


def test_the_proof_of_a_text_goes_with_the_text() -> None:
    log = Log()
    proof = ReasoningPart(signature="of the text", provider="google")
    log.add(appended(Role.USER, "hi"), replied(proof, TextPart(" "), call("c1")))
    assert seen(log, "google").messages[1].parts == (call("c1"),)


def test_an_empty_input_is_seen_as_that() -> None:
    log = Log()
    asked(log, " ")
    assert lines(log) == [f"user: {EMPTY}"]


def test_a_model_that_is_asked_without_a_question_is_told_to_go_on_and_told_so_again() -> None:
    log = Log()
    asked(log)
    log.add(replied(TextPart("1")))
    sent = window(log.rows, log.state, asking=True).messages
    assert sent[-1] == Message(role=Role.USER, content=GO_ON)
    assert lines(log) == ["user: do it", "assistant: 1"]
    log.add(e.ModelRequested(model="m"), replied(TextPart("2")))
    assert lines(log) == ["user: do it", "assistant: 1", f"user: {GO_ON}", "assistant: 2"]


def test_a_result_that_comes_after_the_model_was_told_there_is_none_is_said_where_it_came() -> None:
    log = Log()
    asked(log)
    log.add(replied(call("c1")), e.ModelRequested(model="m"), e.ToolCallStarted(call_id="c1", name="bash"))
    log.add(finished("c1", "done"), finished("c1", "twice"))
    late = "system: [The result of bash c1 came late:]\ndone"
    assert lines(log) == ["user: do it", "assistant: ", f"tool: {NOT_EXECUTED}", late]


def test_said_gives_each_message_with_the_place_where_it_was_read() -> None:
    log = Log()
    whole_turn(log, "one", "1")
    log.add(e.Compacted(summary="it was about x", first_kept_seq=2, tokens_before=9, tokens_after=1))
    assert [(one.place, one.message.content) for one in said(log.rows, log.state)] == [
        (0, f"{SUMMARY_MARK}\nit was about x"),
        (2, "one"),
        (4, "1"),
    ]


def test_text_that_is_not_valid_unicode_is_replaced_for_the_model_only() -> None:
    log = Log()
    log.add(appended(Role.USER, "a\ud800b"), replied(ToolCall(id="c1", name="x", arguments={"\ud800": ["\udfff"]})))
    assert lines(log)[0] == "user: a\ufffdb"
    assert seen(log).messages[1].tool_calls[0].arguments == {"\ufffd": ["\ufffd"]}
    assert log.rows[0][1] == appended(Role.USER, "a\ud800b")


def test_reasoning_of_a_user_is_dropped() -> None:
    assert attached(thought("anthropic")) == []


def test_reasoning_that_was_never_signed_stays_as_it_is_and_odd_text_loses_its_signature() -> None:
    unsigned = ReasoningPart(text="hm")
    assert reasoning_seen(unsigned, "anthropic") == [unsigned]
    odd = ReasoningPart(text="\ud800", signature="proof", provider="anthropic")
    assert reasoning_seen(odd, "anthropic") == [ReasoningPart(text="\ufffd")]
    assert reasoning_seen(ReasoningPart(text=" "), "anthropic") == []


def test_a_file_over_the_limit_becomes_a_note_and_bytes_that_are_no_text_are_left_out() -> None:
    large, broken = attached(FilePart("a.txt", "text/plain", b"x" * 2000), FilePart("b.txt", "text/plain", b"\xff"))
    assert large == TextPart("[a.txt (text/plain) is left out: 2000 bytes, the limit is 1000]")
    assert isinstance(broken, TextPart)
    assert "b.txt" in broken.text
    assert attached(FilePart("empty.txt", "text/plain")) == []


def test_invalid_text_in_arguments_is_replaced_at_every_depth() -> None:
    log = Log()
    asked(log)
    arguments = {"a\ud800": ["\ud800", {"n": 1}]}
    log.add(replied(ToolCall(id="c", name="bash", arguments=arguments)), finished("c"))
    (made,) = [one for message in seen(log).messages for one in message.tool_calls]
    assert made.arguments == {"a\ufffd": ["\ufffd", {"n": 1}]}
