"""A message may be built from its content or from its parts."""

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
