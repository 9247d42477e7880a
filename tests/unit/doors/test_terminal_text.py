"""How much room a text takes in a terminal."""

from hypothesis import given
from hypothesis import strategies as st

from outlast.doors.terminal_text import cells, cut, padded, pieces


def test_wide_characters_take_two_columns() -> None:
    assert [cells(text) for text in ("abc", "東京", "a🎉", "")] == [3, 4, 3, 0]
    assert padded("東京", 6) == "東京  "


def test_what_does_not_fit_is_cut_and_says_so() -> None:
    assert cut("東京タワー", 10) == "東京タワー"
    assert cut("東京タワー", 9) == "東京タワ…"
    assert cut("abcdef", 4) == "abc…"
    assert cut("abcdef", 0) == ""


@given(st.text(alphabet="ab 東京🎉é\u0301", max_size=60), st.integers(2, 20))
def test_pieces_are_all_of_it_and_fit(text: str, width: int) -> None:
    found = pieces(text, width)
    assert "".join(found) == text
    assert all(cells(piece) <= width for piece in found)
    assert cells(cut(text, width)) <= width
