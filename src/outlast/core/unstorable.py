"""Where in an event a value stands that a log cannot hold, for the sentence that refuses it.

Fields of our own types are JSON by nature. What a caller puts into a free field (a tool call's arguments, facts) must
come back equal: texts, numbers, booleans, None, bytes, lists, and dicts with text keys. A tuple, a set, a date or a
decimal would come back as something else, so it is refused rather than turned into what it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import msgspec

MAX_DEPTH = 64


class UnstorableValue(NamedTuple):
    """The path to a value, from the event's kind on, and what is wrong with it."""

    path: str
    why: str


class _Place(NamedTuple):
    value: Any
    path: str
    depth: int
    free: bool
    """Inside a field that may hold anything."""


def find_unstorable(event: Any, kind: str) -> UnstorableValue | None:
    """The first value in this event that would not come back as it is."""
    waiting = [_Place(event, kind, 0, free=False)]
    while waiting:
        place = waiting.pop()
        why = _objection(place)
        if why is not None:
            return UnstorableValue(named(place.path), why)
        waiting.extend(reversed(list(_inside(place))))
    return None


def largest(written: Any, path: str, size: Callable[[Any], int]) -> str:
    """The path to the smallest part of a value that still makes up most of it."""
    while isinstance(written, dict | list) and written:
        whole, inside = size(written), [*_children(written, path)]
        below = max(inside, key=lambda child: size(child[1]))
        if 2 * size(below[1]) <= whole:
            break
        path, written = below
    return named(path)


def named(path: str) -> str:
    """A path fit for a message: keys may be long, or no valid text."""
    shown = path if len(path) <= 200 else f"{path[:160]}...{path[-32:]}"
    return shown.encode("utf-8", "backslashreplace").decode("utf-8")


def _objection(place: _Place) -> str | None:
    value = place.value
    if value is None or isinstance(value, str | int | float | bytes):
        return None  # how large a number may be is told where it is written
    if not isinstance(value, dict | list) and (place.free or not isinstance(value, tuple | msgspec.Struct)):
        return f"is of type {type(value).__name__}, which would not come back as it is; a log holds what JSON can say"
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
