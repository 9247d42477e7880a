"""A message may be built from its content or from its parts."""

from typing import Any, cast

import pytest

from outlast.core.errors import InvalidInput
from outlast.core.messages import ImagePart, Message, Role, TextPart, ToolCall, ToolResult


def test_content_and_calls_become_parts() -> None:
    call = ToolCall(id="c", name="n")
    message = Message(role=Role.ASSISTANT, content="hi", tool_calls=[call])
    assert message.parts == (TextPart("hi"), call)


def test_parts_are_the_truth() -> None:
    result = ToolResult(call_id="c", content="out")
    message = Message(role=Role.TOOL, content="ignored", parts=(result, ImagePart("image/png")))
    assert (message.content, message.tool_results, message.tool_calls) == ("out", [result], [])


def test_where_a_message_was_read_does_not_change_what_it_says() -> None:
    one, other = Message(role=Role.USER, content="hi"), Message(role=Role.USER, content="hi", seq=3, archived=True)
    assert one == other
    assert hash(one) == hash(other)
    assert one != Message(role=Role.ASSISTANT, content="hi")
    assert one != "hi"
    assert "hi" not in [one]


def test_a_message_without_text_has_no_parts() -> None:
    assert Message(role=Role.USER, content="").parts == ()


def test_a_role_may_be_given_as_text() -> None:
    assert Message(role=cast("Any", "user"), content="hi") == Message(role=Role.USER, content="hi")


def test_a_text_part_alone_overrules_calls_and_results_given_apart() -> None:
    message = Message(role=Role.ASSISTANT, parts=(TextPart("hi"),), tool_calls=[ToolCall(id="c", name="n")])
    assert (message.content, message.tool_calls, message.tool_results) == ("hi", [], [])


def test_content_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a message's content is text, not int"):
        Message(role=Role.USER, content=cast("Any", 3))
