"""Converts workflow records to plain values for the log, and back.

Older and newer versions read each other's records: an unknown field is ignored, a field with an invalid value keeps its
default, an invalid item is left out of its list. Reading never raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def dump(value: msgspec.Struct) -> dict[str, Any]:
    """Convert a record to its stored form, without fields at their default."""
    return msgspec.to_builtins(value)


def load(cls: type[S], value: object) -> S:
    """Read a `cls` from a stored value of any version. Missing required fields (all are texts) become empty."""
    try:
        return msgspec.convert(value, cls)
    except (msgspec.ValidationError, ValueError, OverflowError):
        return _salvaged(cls, value)


def _salvaged(cls: type[S], value: object) -> S:
    """Keep the valid fields of a value that cannot be converted as a whole."""
    given: Mapping[str, object] = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
    kept: dict[str, object] = {}
    for field in _fields(cls):
        found = _fitting(field.type, given[field.name]) if field.name in given else _NOTHING
        if found is not _NOTHING:
            kept[field.name] = found
        elif field.required:
            kept[field.name] = ""
    return cls(**kept)


def read_list(cls: type[S], values: object) -> list[S]:
    """Read every item that is an object, in order."""
    if not isinstance(values, list):
        return []
    return [load(cls, cast("object", value)) for value in cast("list[object]", values) if isinstance(value, Mapping)]


@cache
def _fields(cls: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(cls)  # msgspec evaluates the annotations on every call


_NOTHING = object()


def _fitting(kind: Any, value: object) -> object:
    if isinstance(kind, type) and issubclass(cast("type[object]", kind), msgspec.Struct):
        nested = cast("type[msgspec.Struct]", kind)
        return load(nested, cast("object", value)) if isinstance(value, Mapping) else _NOTHING
    if get_origin(kind) is list and isinstance(value, list | tuple):
        items = [_fitting(get_args(kind)[0], item) for item in cast("list[object]", value)]
        return [item for item in items if item is not _NOTHING]
    try:
        return msgspec.convert(value, cast("Any", kind), strict=False)
    except (msgspec.ValidationError, ValueError, OverflowError):
        return _NOTHING
