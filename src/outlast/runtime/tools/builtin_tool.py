"""A tool built from a struct of arguments and a function: the form of all built-in tools.

The struct provides the JSON schema that the model sees, and validates the arguments that the model sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar, cast

import msgspec

from outlast.core.events import EffectClass
from outlast.runtime.tools.argument_fault import argument_fault
from outlast.runtime.tools.port import Target, ToolContext, ToolFault, ToolOutcome


def schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of a struct without references and titles, a form that every provider accepts."""
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


class ToolArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The arguments of a tool. Subclasses declare the fields; the model reads the fields' descriptions."""


A = TypeVar("A", bound=ToolArguments)


class BuiltinTool(Generic[A]):
    """A tool that runs a function. `aim` returns what a verifiable write would change."""

    def __init__(
        self,
        name: str,
        description: str,
        arguments: type[A],
        effect: EffectClass,
        does: Callable[[A, ToolContext], Awaitable[ToolOutcome]],
        aim: Callable[[A, ToolContext], Awaitable[Target]] | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.effect = effect
        self.parameters = schema_of(arguments)
        self._arguments = arguments
        self._does = does
        self._aim = aim

    def fault(self, arguments: dict[str, Any]) -> str | None:
        try:
            self._converted(arguments)
        except ValueError as error:
            return str(error)
        return None

    async def target(self, arguments: dict[str, Any], context: ToolContext) -> Target | None:
        return await self._aim(self._typed(arguments), context) if self._aim else None

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        return await self._does(self._typed(arguments), context)

    def _typed(self, arguments: dict[str, Any]) -> A:
        try:
            return self._converted(arguments)
        except ValueError as error:
            raise ToolFault(f"{self.name} was not run: {error}") from error

    def _converted(self, arguments: dict[str, Any]) -> A:
        """Raises ValueError with one sentence if the arguments do not fit."""
        try:
            return msgspec.convert(arguments, self._arguments)
        except UnicodeEncodeError as error:
            raise ValueError("the arguments hold half of a character (a lone surrogate); write it whole") from error
        except msgspec.ValidationError as error:
            raise ValueError(argument_fault(str(error), self.parameters)) from error
