"""Excerpts: head, tail, and a true count of what is missing."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from outlast.runtime.tools.output_limit import bounded, bounded_file, cut


def test_short_text_stays_as_it_is() -> None:
    assert bounded("abc", 3) == "abc"


def test_long_text_keeps_head_and_tail_and_counts_the_rest() -> None:
    assert bounded("abcdefghij", 6) == "abcd\n[... 4 characters left out here ...]\nij"


@given(st.text(max_size=200), st.integers(3, 50))
def test_excerpt_is_never_much_longer_than_its_limit(text: str, limit: int) -> None:
    assert len(bounded(text, limit)) <= limit + 60


def test_file_that_fits_is_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert bounded_file(tmp_path / "f", 3, 10) == ("abc", False)


def test_file_that_is_too_long_keeps_head_and_tail(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abcdefghij")
    assert bounded_file(tmp_path / "f", 10, 6) == ("abcd\n[... 4 bytes left out here ...]\nij", True)


def test_file_that_holds_only_a_part_says_how_much_there_was(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abcdefghij")
    assert bounded_file(tmp_path / "f", 1000, 6)[0] == "abcd\n[... 994 bytes left out here ...]\nij"
    assert bounded_file(tmp_path / "f", 1000, 100)[1] is True


def test_cut_line_says_what_is_missing() -> None:
    assert cut("abcdef", 4) == "abcd[... 2 more characters]"
    assert cut("abcd", 4) == "abcd"
