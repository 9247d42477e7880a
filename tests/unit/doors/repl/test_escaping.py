"""Nothing that a model, a tool or a file says can steer the terminal or hide from its user."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.doors.terminal_text import exact, readable


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\x1b[2Jb", "a<U+001B>[2Jb"),
        ("a\x9bb", "a<U+009B>b"),
        ("user\u202egnp.exe", "user<U+202E>gnp.exe"),
        ("half \ud800", "half <U+D800>"),
        ("line\r\nline\rline", "line\nline\nline"),
        ("tab\tstays", "tab\tstays"),
        ("family 👨\u200d👩\u200d👧 한국어 العربية", "family 👨\u200d👩\u200d👧 한국어 العربية"),
    ],
)
def test_answers_can_be_read_and_cannot_steer(text: str, seen: str) -> None:
    assert readable(text) == seen


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("rm -rf \u200b/", "rm -rf <U+200B>/"),
        ("a\tb", "a<TAB>b"),
        ("ends here  ", "ends here··"),
        ("e\u0301\u00ad", "e\u0301<U+00AD>"),
        ("\U000e0041", "<U+E0041>"),
    ],
)
def test_what_is_approved_shows_every_character(text: str, seen: str) -> None:
    assert exact(text) == seen


@given(st.text())
def test_no_control_character_reaches_the_terminal(text: str) -> None:
    for seen in (readable(text), exact(text)):
        assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in seen)
