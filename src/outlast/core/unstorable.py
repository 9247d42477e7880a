"""Finds the value in an event that a log cannot hold, for the error message that refuses it.

Fields of our own types are always valid JSON. A caller's value in a free field (a tool call's arguments, facts) must be
read back equal: texts, numbers, booleans, None, bytes, lists, and dicts with text keys. A tuple, a set, a date or a
decimal would be read back as another type, so it is refused and not converted silently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import msgspec

MAX_DEPTH = 64


class UnstorableValue(NamedTuple):
    """The path to a value, starting with the event's kind, and the reason it is refused."""

    path: str
    why: str


class _Place(NamedTuple):
    value: Any
    path: str
    depth: int
    free: bool
    """Whether the value is inside a field that may hold anything."""


def find_unstorable(event: Any, kind: str) -> UnstorableValue | None:
    """Return the first value in this event that would not be read back equal."""
    waiting = [_Place(event, kind, 0, free=False)]
    while waiting:
        place = waiting.pop()
        why = _objection(place)
        if why is not None:
            return UnstorableValue(named(place.path), why)
        waiting.extend(reversed(list(_inside(place))))
    return None


def largest(written: Any, path: str, size: Callable[[Any], int]) -> str:
    """Return the path to the smallest part that still makes up more than half of the value at each level."""
    while isinstance(written, dict | list) and written:
        whole, inside = size(written), [*_children(written, path)]
        below = max(inside, key=lambda child: size(child[1]))
        if 2 * size(below[1]) <= whole:
            break
        path, written = below
    return named(path)


def named(path: str) -> str:
    """Make a path printable: keys may be long or invalid Unicode."""
    shown = path if len(path) <= 200 else f"{path[:160]}...{path[-32:]}"
    return shown.encode("utf-8", "backslashreplace").decode("utf-8")


def _objection(place: _Place) -> str | None:
    value = place.value
    if value is None or isinstance(value, str | int | float | bytes):
        return None  # the codec checks the range of numbers
    if not isinstance(value, dict | list) and (place.free or not isinstance(value, tuple | msgspec.Struct)):
        return f"is of type {type(value).__name__}, which JSON cannot represent; use JSON values"
    if place.depth >= MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    if isinstance(value, dict):
        strange = [key for key in cast("dict[Any, Any]", value) if not isinstance(key, str)]
        return f"has a key that is not text: {strange[0]!r}" if strange else None
    return None


def _inside(place: _Place) -> Iterable[_Place]:
    value, path, depth, free = place
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield _Place(getattr(value, name), f"{path}.{name}", depth + 1, free)
    elif isinstance(value, dict | list | tuple):
        free = free or isinstance(value, dict)
        for below, item in _children(cast("Any", value), path):
            yield _Place(item, below, depth + 1, free)


def _children(value: Any, path: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return ((f"{path}.{key}", item) for key, item in cast("dict[Any, Any]", value).items())
    return ((f"{path}[{number}]", item) for number, item in enumerate(cast("list[Any]", value)))
