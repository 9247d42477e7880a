"""What a compaction leaves: references in place of old outputs, the summary and the user's words."""

from outlast.core.compacted_view import PRUNED, SUMMARY_MARK, WORDS_MARK, pruned_message, summary_message
from outlast.core.events import UserWords
from outlast.core.header import REDACTED
from outlast.core.messages import ImagePart, Message, Role, TextPart, ToolResult

SHORT, LONG = ToolResult(call_id="a", content="ok"), ToolResult(call_id="b", content="x" * 50)
IMAGE = ImagePart("image/png", b"...")


def result(*parts: ToolResult | ImagePart | TextPart, seq: int | None = 5, role: Role = Role.TOOL) -> Message:
    return Message(role=role, parts=parts, seq=seq)


def test_a_long_output_before_the_boundary_becomes_a_reference_and_a_short_one_stays() -> None:
    pruned = pruned_message(result(SHORT, LONG, TextPart("note")), upto=5, over=10)
    assert pruned.parts == (SHORT, ToolResult(call_id="b", content=PRUNED.format(5)), TextPart("note"))


def test_attachments_of_a_tool_go_with_its_output_however_short_it_is() -> None:
    assert pruned_message(result(SHORT, IMAGE), upto=5, over=10).parts == (
        ToolResult(call_id="a", content=PRUNED.format(5)),
    )


def test_attachments_of_another_role_stay() -> None:
    message = result(LONG, IMAGE, role=Role.USER)
    assert pruned_message(message, upto=5, over=10).parts == (ToolResult(call_id="b", content=PRUNED.format(5)), IMAGE)


def test_newer_messages_short_outputs_and_messages_without_an_event_stay_as_they_are() -> None:
    for message in (result(LONG, seq=6), result(SHORT), result(LONG, seq=None), result(TextPart("x" * 50))):
        assert pruned_message(message, upto=5, over=10) is message


def test_a_summary_is_marked_once_and_followed_by_the_users_words_without_redacted_ones() -> None:
    marked = Message(role=Role.SYSTEM, content=f"{SUMMARY_MARK}\nshort")
    assert summary_message(marked).content == marked.content
    words = (UserWords(seq=3, text="keep"), UserWords(seq=4, text="secret"))
    plain = summary_message(Message(role=Role.SYSTEM, content="short"), words, redacted={4})
    assert plain.content == "\n\n".join(
        [f"{SUMMARY_MARK}\nshort", WORDS_MARK, "[event 3]\nkeep", f"[event 4]\n{REDACTED}"]
    )
    assert plain.is_summary
