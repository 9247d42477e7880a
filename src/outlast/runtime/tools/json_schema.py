"""Arguments against a JSON schema: the subset that tools use, and one sentence naming what does not fit.

Keywords that are not known here are not checked. Nothing is coerced: "5" is not a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def misfit(value: Any, schema: dict[str, Any], name: str = "") -> str | None:
    """Why `value` does not fit the schema, or None when it does."""
    options = cast("list[dict[str, Any]]", schema.get("anyOf") or schema.get("oneOf") or [])
    if options:
        faults = [misfit(value, option, name) for option in options]
        return None if None in faults else faults[0]
    return _wrong_type(value, schema, name) or _wrong_value(value, schema, name) or _wrong_inside(value, schema, name)


def _wrong_type(value: Any, schema: dict[str, Any], name: str) -> str | None:
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else cast("list[str]", wanted or [])
    if not names or any(_TYPES.get(each, lambda _: True)(value) for each in names):
        return None
    return f"{_called(name)} must be of type {' or '.join(names)}, not {_type_of(value)}"


def _wrong_value(value: Any, schema: dict[str, Any], name: str) -> str | None:
    if "enum" in schema and value not in schema["enum"]:
        return f"{_called(name)} must be one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, int | float) and value < schema.get("minimum", value):
        return f"{_called(name)} must be at least {schema['minimum']}"
    if isinstance(value, int | float) and value > schema.get("maximum", value):
        return f"{_called(name)} must be at most {schema['maximum']}"
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        return f"{_called(name)} must not be empty"
    return None


def _wrong_inside(value: Any, schema: dict[str, Any], name: str) -> str | None:
    if isinstance(value, list) and "items" in schema:
        rows = cast("list[Any]", value)
        return _first(misfit(row, schema["items"], f"{name}[{n}]") for n, row in enumerate(rows))
    if not isinstance(value, dict):
        return None
    given = cast("dict[str, Any]", value)
    known = cast("dict[str, Any]", schema.get("properties", {}))
    for wanted in schema.get("required", []):
        if wanted not in given:
            return f"{_called(_joined(name, wanted))} is missing"
    if schema.get("additionalProperties") is False and (unknown := [key for key in given if key not in known]):
        return f"there is no {_called(_joined(name, unknown[0]))}; there are {', '.join(known)}"
    return _first(misfit(given[key], known[key], _joined(name, key)) for key in given if key in known)


def _first(faults: Any) -> str | None:
    return next((fault for fault in faults if fault is not None), None)


def _called(name: str) -> str:
    return f"argument '{name}'" if name else "the arguments"


def _joined(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def _type_of(value: Any) -> str:
    return next((name for name, fits in _TYPES.items() if fits(value)), "something else")


def schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a struct, without references or titles: what every provider takes."""
    (top,), components = msgspec.json.schema_components([arguments])
    return cast("dict[str, Any]", _inlined(top, components))


def _inlined(node: Any, components: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, components) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    fields = cast("dict[str, Any]", node)
    if "$ref" in fields:
        return _inlined(components[fields["$ref"].rpartition("/")[2]], components)
    if "properties" in fields:
        inner = {name: _inlined(below, components) for name, below in fields["properties"].items()}
        rest = {key: value for key, value in fields.items() if key not in ("title", "properties", "description")}
        return {**rest, "properties": inner}
    return {key: _inlined(value, components) for key, value in fields.items() if key != "title"}
