"""Bodies of requests: a large one is decoded in pieces, with the same result."""

from __future__ import annotations

import json
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.doors.http import json_body
from outlast.doors.http.json_body import decoded_in_pieces


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    content: Annotated[str, msgspec.Meta(min_length=1)]
    key: Annotated[str, msgspec.Meta(max_length=40)] | None = None
    many: list[str] | None = None


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_body, "PIECE", 20)


TEXTS = st.text(st.sampled_from('ab \\"/\n\u00e9\u4fee\U0001f600\u0000'), min_size=1, max_size=120)


@pytest.mark.usefixtures("short_pieces")
@given(TEXTS, st.booleans())
def test_a_text_in_pieces_is_the_text(text: str, is_escaped: bool) -> None:
    body = json.dumps({"content": text, "many": [text]}, ensure_ascii=is_escaped).encode()
    assert decoded_in_pieces(body, Note) == Note(text, many=[text])


@pytest.mark.parametrize(
    "body",
    [
        {"content": "x" * 50, "key": "k" * 50},
        {"content": ""},
        {"content": "x" * 50, "unknown": 1},
        {"content": "x" * 50, "unknown": "y" * 50},
        {"content": ["x" * 50]},
        {"key": "x"},
    ],
)
def test_a_body_that_does_not_fit_is_refused_as_if_decoded_at_once(body: object) -> None:
    data = json.dumps(body).encode()
    with pytest.raises(msgspec.ValidationError) as at_once:
        msgspec.json.decode(data, type=Note)
    with pytest.raises(msgspec.ValidationError) as in_pieces:
        decoded_in_pieces(data, Note)
    assert str(in_pieces.value) == str(at_once.value)


@pytest.mark.parametrize("body", [b'{"content": "' + b"x" * 50, b'{"content": "' + b"\\ud800" * 9 + b'"}', b"[1]"])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        decoded_in_pieces(body, Note)
