"""The validator has teeth: whatever a provider is known to refuse, it refuses too, and says why."""

from collections.abc import Callable

import pytest

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
from outlast.testing.validity import as_anthropic, as_openai_chat, as_openai_responses, rejections
from outlast.testing.wire import anthropic, openai_chat, openai_responses
from outlast.testing.wire.rules import MAX_ENCODED_IMAGE, Wire
from tests.support.random_histories import PNG


def said(role: Role, *parts: Part | str) -> Message:
    return Message(role=role, parts=tuple(TextPart(part) if isinstance(part, str) else part for part in parts))


def user(*parts: Part | str) -> Message:
    return said(Role.USER, *(parts or ("hi",)))


def model(*parts: Part | str) -> Message:
    return said(Role.ASSISTANT, *parts)


def call(call_id: str = "c1", name: str = "bash") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments={"a": 1})


def result(call_id: str = "c1", content: str = "ok", *attached: Part) -> Message:
    return said(Role.TOOL, ToolResult(call_id=call_id, content=content, name="bash"), *attached)


SIGNED = ReasoningPart(text="hm", signature="proof", provider="anthropic")
GOOD = [
    said(Role.SYSTEM, "[COMPACTED CONTEXT]\nlong ago"),
    user("look", ImagePart("image/png", PNG), FilePart("a.pdf", "application/pdf", b"%PDF-")),
    model(SIGNED, "I look.", call("c1"), call("c2")),
    result("c1"),
    result("c2", "a picture", ImagePart("image/png", PNG)),
    model("Done."),
    user("thanks"),
]


def test_a_good_window_is_taken_by_all() -> None:
    assert rejections(GOOD) == []


def test_a_window_that_is_only_looked_at_may_end_with_the_assistant_or_be_empty() -> None:
    assert rejections(GOOD[:-1]) != []
    assert rejections(GOOD[:-1], request=False) == []
    assert rejections([], request=False) == []
    assert len(rejections([])) == 3


ALL = "chat responses anthropic"
UNREADABLE = ReasoningPart(text="\ud800", signature="proof", provider="anthropic")
TOO_LARGE = ImagePart("image/png", PNG + bytes(MAX_ENCODED_IMAGE * 3 // 4))
BAD: dict[str, tuple[list[Message], str]] = {
    "a call without a result": ([user(), model(call()), user()], ALL),
    "a call without a result at the end": ([user(), model(call())], ALL),
    "a result without a call": ([user(), result()], ALL),
    "a result too many": ([user(), model(call()), result(), result()], ALL),
    "a result that is not right behind": ([user(), model(call()), user(), result()], ALL),
    "an id used twice": ([user(), model(call()), result(), model(call()), result()], ALL),
    "one message that asks twice": ([user(), model(call(), call()), result()], ALL),
    "an id that is too long for chat": ([user(), model(call("x" * 41)), result("x" * 41)], "chat"),
    "an id that is too long": ([user(), model(call("x" * 65)), result("x" * 65)], "chat responses"),
    "an id with a blank": ([user(), model(call("a b")), result("a b")], "anthropic"),
    "an empty id": ([user(), model(call("")), result("")], ALL),
    "a name with a dot": ([user(), model(call(name="a.b")), result()], ALL),
    "an empty name": ([user(), model(call(name="")), result()], ALL),
    "an empty text": ([user(" ")], ALL),
    "an empty text beside another": ([user("", "x")], ALL),
    "an empty result": ([user(), model(call()), result("c1", "")], ALL),
    "half a character": ([user("\ud800")], ALL),
    "a window that begins with the assistant": ([model("x"), user()], "anthropic"),
    "an image in what the assistant says": (
        [user(), model("x", ImagePart("image/png", PNG)), user()],
        "responses anthropic",
    ),
    "an image of another type": ([user(ImagePart("image/tiff", b"II*"))], ALL),
    "an image that is another": ([user(ImagePart("image/png", b"GIF89a"))], ALL),
    "an image that is empty": ([user(ImagePart("image/png"))], ALL),
    "an image that is too large": ([user(TOO_LARGE)], ALL),
    "an image on our own disk": ([user(ImagePart("image/png", url="file:///a.png"))], ALL),
    "a file that is no PDF": ([user(FilePart("a", "text/plain", b"x"))], ALL),
    "reasoning that leads to nothing": ([user(), model("x", SIGNED), user()], "responses anthropic"),
    "half a character in a thought": ([user(), model(UNREADABLE, "x"), user()], "responses anthropic"),
    "reasoning behind a text": ([user(), model("x", SIGNED, "y"), user()], "anthropic"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_window_is_refused_by_those_who_would(what: str) -> None:
    messages, by = BAD[what]
    assert {fault.split()[0] for fault in rejections(messages, request=False)} == set(by.split())


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_signature_must_be_the_providers_own_and_belong_to_the_text(provider: str) -> None:
    assert rejections(GOOD, provider, genuine=lambda signature, text: (signature, text) == ("proof", "hm")) == []
    [fault] = rejections(GOOD, provider, genuine=lambda signature, text: False)
    assert "verified" in fault or "signature" in fault


def broken(wire: list[Wire], breaks: Callable[[list[Wire]], object]) -> list[Wire]:
    breaks(wire)
    return wire


def test_what_only_a_wire_can_have_is_refused_there() -> None:
    chat = broken(as_openai_chat(GOOD), lambda wire: wire[2]["tool_calls"][0]["function"].update(arguments='{"a": '))
    assert any("not JSON" in fault for fault in openai_chat.faults(chat))
    chat = broken(as_openai_chat(GOOD), lambda wire: wire[0].update(role="developer"))
    assert any("role" in fault for fault in openai_chat.faults(chat))
    items = broken(as_openai_responses(GOOD), lambda wire: wire.insert(3, wire[2]))
    assert any("duplicate item" in fault for fault in openai_responses.faults(items))
    blocks = broken(as_anthropic(GOOD), lambda wire: wire[2]["content"].insert(0, {"type": "text", "text": "x"}))
    assert any("must come first" in fault for fault in anthropic.faults(blocks))
    blocks = broken(as_anthropic(GOOD), lambda wire: wire.append({"role": "user", "content": []}))
    assert any("alternate" in fault for fault in anthropic.faults(blocks))


def test_system_messages_in_the_middle_are_marked_user_text() -> None:
    reminder = "<system-reminder>\nx\n</system-reminder>"
    assert as_openai_chat([said(Role.SYSTEM, "x")]) == [{"role": "user", "content": reminder}]
    assert as_anthropic([said(Role.SYSTEM, "x")])[0]["content"] == [{"type": "text", "text": reminder}]


def test_what_a_tool_attached_follows_all_results_in_chat() -> None:
    roles = [message["role"] for message in as_openai_chat(GOOD)]
    assert roles == ["user", "user", "assistant", "tool", "tool", "user", "assistant", "user"]
