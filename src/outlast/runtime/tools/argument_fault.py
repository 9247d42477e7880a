"""Turns an argument error of msgspec into one sentence for the model that names the argument and the remedy."""

from __future__ import annotations

import re
from typing import Any, cast

_PLACE = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_TYPE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_RANGE = re.compile(r"Expected `(?:int|float)` ([<>]=) (.*)")
_STEP = re.compile(r"[^.\[]+|\[\d+\]")
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def argument_fault(error: str, schema: dict[str, Any]) -> str:
    """Return the sentence for an error of `msgspec.convert`; `schema` is the schema of the arguments."""
    found = _PLACE.fullmatch(error)
    what, where = (found[1], found[2]) if found else (error, "")
    if missing := _MISSING.fullmatch(what):
        return f"{_called(where, missing[1])} is missing"
    if unknown := _UNKNOWN.fullmatch(what):
        return f"there is no {_called(where, unknown[1])}; there are {', '.join(_at(schema, where)['properties'])}"
    if wrong := _TYPE.fullmatch(what):
        wanted = [_TYPES.get(name, name) for name in wrong[1].split(" | ") if name != "null"]
        return f"{_called(where)} must be of type {' or '.join(wanted)}, not {_TYPES.get(wrong[2], wrong[2])}"
    if limit := _RANGE.fullmatch(what):
        return f"{_called(where)} must be {'at least' if limit[1] == '>=' else 'at most'} {limit[2]}"
    if what == "Expected `str` of length >= 1":
        return f"{_called(where)} must not be empty"
    if what.startswith("Invalid enum value"):
        return f"{_called(where)} must be one of {', '.join(map(str, _at(schema, where)['enum']))}"
    return f"{_called(where)}: {what}"


def _called(*names: str) -> str:
    name = ".".join(filter(None, names))
    return f"argument '{name}'" if name else "the arguments"


def _at(schema: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the part of the schema that checks a location such as `items[0].status`."""
    for step in _STEP.findall(where):
        below = schema["items"] if step.startswith("[") else schema["properties"][step]
        options = cast("list[dict[str, Any]]", below.get("anyOf", [below]))
        schema = next(option for option in options if option.get("type") != "null")
    return schema
