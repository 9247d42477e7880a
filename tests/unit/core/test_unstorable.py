"""The path of a value that cannot be stored, and of the largest part of one that is too large."""

from outlast.core import events as e
from outlast.core.unstorable import UnstorableValue, find_unstorable, largest, named


def test_the_largest_part_is_followed_down_to_the_value_that_makes_it_large() -> None:
    assert largest({"a": "x", "b": ["y", "z" * 100]}, "Kind", lambda value: len(repr(value))) == "Kind.b[1]"
    assert largest({"a": "x" * 50, "b": "y" * 50}, "Kind", lambda value: len(repr(value))) == "Kind"
    assert largest({}, "Kind", len) == "Kind"


def test_an_unstorable_value_is_named_by_its_path() -> None:
    found = find_unstorable(e.RuntimeStateChanged(changes={"a": [1, {2}]}), "RuntimeStateChanged")
    assert isinstance(found, UnstorableValue)
    assert found.path == "RuntimeStateChanged.changes.a[1]"
    assert "is of type set" in found.why
    assert find_unstorable(e.RuntimeStateChanged(changes={"a": [1]}), "RuntimeStateChanged") is None


def test_a_long_or_invalid_path_stays_printable() -> None:
    assert len(named("k" * 1000)) < 200
    assert named("a\ud800") == "a\\ud800"
