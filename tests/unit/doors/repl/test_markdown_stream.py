"""A reply as it comes: what may be printed for good, and when."""

from hypothesis import given
from hypothesis import strategies as st

from outlast.doors.repl.render.markdown_stream import MarkdownStream


def test_a_block_is_given_out_at_the_empty_line_that_ends_it() -> None:
    stream = MarkdownStream()
    assert stream.add("One para") == ""
    assert stream.add("graph.\n\nAno") == "One paragraph.\n\n"
    assert stream.tail == "Ano"
    assert stream.close("One paragraph.\n\nAnother.") == "Another."


def test_a_code_block_is_never_cut_at_an_empty_line_in_it() -> None:
    stream = MarkdownStream()
    assert stream.add("```python\na = 1\n\nb = 2\n") == ""
    assert stream.add("```\n\nAfter") == "```python\na = 1\n\nb = 2\n```\n\n"


def test_a_longer_fence_holds_a_shorter_one() -> None:
    stream = MarkdownStream()
    assert stream.add("````\n```\n\n```\n\n") == ""
    assert stream.add("````\n\nx") == "````\n```\n\n```\n\n````\n\n"


def test_a_reply_that_turns_out_otherwise_is_printed_whole() -> None:
    stream = MarkdownStream()
    assert stream.add("Wrong.\n\nmore") == "Wrong.\n\n"
    assert stream.close("Right from the start.") == "Right from the start."


@given(st.lists(st.sampled_from(["a", "\n", "\n\n", "```", "text ", "```\n", "- x\n"])))
def test_what_is_given_out_is_the_text_and_nothing_twice(pieces: list[str]) -> None:
    stream = MarkdownStream()
    given_out = "".join(stream.add(piece) for piece in pieces)
    assert given_out + stream.close() == "".join(pieces)


def test_of_a_long_code_block_only_its_end_is_drawn_as_code() -> None:
    stream = MarkdownStream()
    stream.add("Look:\n\n```python\n" + "".join(f"x = {n}\n" for n in range(1000)))
    assert stream.is_speaking
    assert stream.end_of_tail(3) == "```python\nx = 997\nx = 998\nx = 999\n"
    stream.add("```\n\n")
    assert not stream.is_speaking
    stream.add("short")
    assert stream.end_of_tail(3) == "short"
    stream.add("y" * 100_000)
    assert len(stream.end_of_tail(3)) <= 12_000
