"""Ids are 26 characters that are safe in a path, a URL and a shell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.errors import InvalidInput
from outlast.core.ids import ID_LENGTH, id_from, is_id, is_prefix


@given(st.binary(min_size=16, max_size=16))
def test_sixteen_random_bytes_spell_an_id(data: bytes) -> None:
    assert is_id(id_from(data))
    assert is_prefix(id_from(data)[:6])
    assert len(id_from(data)) == ID_LENGTH


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16))
def test_other_bytes_spell_another_id(one: bytes, two: bytes) -> None:
    assert (one == two) == (id_from(one) == id_from(two))


def test_fewer_bytes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="16 random bytes"):
        id_from(b"short")


@pytest.mark.parametrize("text", ["", "a" * 25, "a" * 27, "A" * 26, "a" * 25 + "1", "../" + "a" * 23, "a" * 26 + "\n"])
def test_what_is_no_id_is_none(text: str) -> None:
    assert not is_id(text)


@pytest.mark.parametrize("text", ["", "abcde", "abcde.", "ABCDEF", "abcdef\n", "a" * 27])
def test_what_is_no_prefix_is_none(text: str) -> None:
    assert not is_prefix(text)


def test_an_id_needs_exactly_sixteen_random_bytes() -> None:
    with pytest.raises(InvalidInput, match="16 random bytes, got 15"):
        id_from(bytes(15))


def test_sixteen_bytes_always_give_the_same_id() -> None:
    assert id_from(bytes(16)) == "a" * ID_LENGTH
