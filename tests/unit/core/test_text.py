"""Plain text: one line, shortening, visible characters, fences, durations."""

import pytest

from outlast.core.text import duration_text, fenced, one_line, shortened, show_invisible, text_tokens, visible_line


def test_one_line_joins_the_words_with_single_spaces() -> None:
    assert one_line("  two\n\twords ") == "two words"


def test_shortened_text_has_the_limit_and_ends_with_an_ellipsis() -> None:
    assert shortened("12345", 5) == "12345"
    assert shortened("123456", 5) == "1234…"


def test_tokens_are_estimated_by_bytes_of_utf8() -> None:
    assert text_tokens("12345") == 2
    assert text_tokens("ü" * 4) == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("größer 😀\ufe0f\n", "größer 😀\ufe0f\n"),
        ("a\u200bb", "a<U+200B>b"),
        ("\x1b[2J", "<U+001B>[2J"),
        ("\u202eevil", "<U+202E>evil"),
        ("a\ufe01\U000e0101", "a<U+FE01><U+E0101>"),
        ("\u3164", "<U+3164>"),
        ("\ue000", "<U+E000>"),
    ],
)
def test_invisible_characters_are_spelled_out_and_visible_ones_stay(text: str, shown: str) -> None:
    assert show_invisible(text) == shown


def test_a_visible_line_is_one_line_with_every_character_visible_and_cut() -> None:
    assert visible_line("one\n\u200btwo", 10) == "one <U+20…"


def test_a_fence_is_longer_than_every_run_of_backticks_in_its_text() -> None:
    assert fenced("x\n") == "```\nx\n```"
    assert fenced("````", "md") == "`````md\n````\n`````"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (89.4, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")]
)
def test_a_duration_has_the_unit_that_keeps_its_number_short(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
