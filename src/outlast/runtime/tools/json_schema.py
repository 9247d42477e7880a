"""The JSON schema of a tool's arguments."""

from __future__ import annotations

from typing import Any, cast

import msgspec


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
