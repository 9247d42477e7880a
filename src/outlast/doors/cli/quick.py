"""A command that parses plain options itself, because Typer loads pydantic before it parses the first option.

Plain are flags, texts, numbers within limits, and names of an enumeration. Everything else, above all help and errors,
is left to Typer, which has the messages for it.

Measured (15 alternating rounds, two busy cores): `outlast sessions list` takes 329 ms of processor time with this
module and 515 ms without it. A separate parser before the import of Typer would save more, but would define the options
of `list` a second time. `QuickGroup` sets `_protected_args`, a private name of Typer: there is no other way to pass on
the name of the command without the parser.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

from typer.core import TyperCommand, TyperGroup


class Quick(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        values = _plain(self, args)
        if values is None:
            return super().parse_args(ctx, args)
        ctx.params.update(values)
        return []


class QuickGroup(TyperGroup):
    """The same for a group without options of its own: the first word is its command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0].startswith("-"):
            return super().parse_args(ctx, args)
        ctx._protected_args, ctx.args = args[:1], args[1:]
        return ctx.args


def _plain(command: TyperCommand, args: list[str]) -> dict[str, Any] | None:
    """The values of all parameters; None if an argument is not plain."""
    options = {name: option for option in command.params for name in option.opts}
    values = {option.name: option.default for option in command.params if option.name}
    words = iter(args)
    for word in words:
        name, joined, given = word.partition("=")
        option: Any = options.get(name)
        if option is None or option.multiple or option.nargs != 1:
            return None
        if option.is_flag:
            if joined:
                return None
            values[option.name] = True
            continue
        try:
            values[option.name] = _value(option, given if joined else next(words))
        except (ValueError, StopIteration):
            return None
    return values


def _value(option: Any, text: str) -> Any:
    """Parse one value. Raises ValueError if Typer should judge it."""
    kind = next(_kinds(option.type_descriptor.annotation))
    if kind is str:
        return text
    if kind is int:
        least, most = option.type_descriptor.parameter_info.min, option.type_descriptor.parameter_info.max
        number = int(text)
        if (least is not None and number < least) or (most is not None and number > most):
            raise ValueError(text)
        return number
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(text)
    raise ValueError(text)


def _kinds(annotation: Any) -> Iterator[Any]:
    yield from (kind for kind in get_args(annotation) or (annotation,) if kind is not type(None))
