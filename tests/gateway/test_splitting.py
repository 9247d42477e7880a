"""Long replies in several messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outlast.doors.gateway.platform import size_in_utf16
from outlast.doors.gateway.split_message import split

PIECES = st.sampled_from(
    ["word ", "x" * 50, ". ", "\n", "\n\n", "```py\ncode\n```\n", "```\n", "~~~\n", "````\n", "é", "😀"]
)
TEXTS = st.lists(PIECES, max_size=80).map("".join)


@given(TEXTS, st.sampled_from([20, 40, 100]))
def test_every_part_fits_and_nothing_but_fences_and_blanks_is_added_or_lost(text: str, longest: int) -> None:
    parts = split(text, longest)
    assert all(0 < len(part) <= longest for part in parts)
    kept, given_ = ([c for c in t if not c.isspace() and c not in "`~"] for t in ("".join(parts), text))
    assert [c for c in kept if c not in "py"] == [
        c for c in given_ if c not in "py"
    ]  # a fence is opened again as ```py


@given(TEXTS, st.data())
def test_full_parts_stay_as_they_are_while_the_text_grows(text: str, data: st.DataObject) -> None:
    whole = split(text, 40)
    sofar = split(text[: data.draw(st.integers(0, len(text)))], 40)
    assert sofar[:-1] == whole[: max(0, len(sofar) - 1)]


@given(TEXTS)
def test_sizes_are_counted_as_the_platform_counts(text: str) -> None:
    assert all(size_in_utf16(part) <= 30 for part in split(text, 30, size_in_utf16))


def test_paragraphs_are_the_first_place_to_cut() -> None:
    assert split("one one one\n\ntwo two\nthree three", 22) == ["one one one", "two two\nthree three"]


def test_lines_then_sentences_then_words() -> None:
    assert split("aaa aaa aaa\nbbb bbb bbb bbb", 18) == ["aaa aaa aaa", "bbb bbb bbb bbb"]
    assert split("Aaa aaa aaa. Bbb bbb bbb bbb", 18) == ["Aaa aaa aaa. ", "Bbb bbb bbb bbb"]
    assert split("aaaa aaaa aaaa aaaa", 12) == ["aaaa aaaa ", "aaaa aaaa"]
    assert split("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]


def test_a_block_of_code_that_fits_is_kept_whole() -> None:
    code = "```py\n" + "x = 1\n" * 5 + "```"
    assert split(f"{'Some words. ' * 4}\n\n{code}", 60) == [("Some words. " * 4).rstrip("\n"), code]


def test_a_block_of_code_that_does_not_fit_is_closed_and_opened_again() -> None:
    code = "```py\n" + "".join(f"line_{n}\n" for n in range(20)) + "```"
    parts = split(code, 60)
    assert all(part.startswith("```py\n") and part.endswith("\n```") for part in parts)
    lines = [line for part in parts for line in part.splitlines() if not line.startswith("```")]
    assert lines == [f"line_{n}" for n in range(20)]


def test_nothing_is_nothing() -> None:
    assert split("", 10) == split("\n \n", 10) == []


def test_a_hostile_fence_does_not_go_on_for_ever() -> None:
    assert len(split("```" + "y" * 9000 + "\ncode" * 2000, 3500)) < 20
    assert len(split("`" * 9000 + "\ncode" * 2000, 3500)) < 20
