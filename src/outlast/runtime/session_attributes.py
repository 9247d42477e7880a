"""What a session remembers of the runtime that drove it: named values, each a fold of `RuntimeStateChanged`.

An attribute declared here reads the folded state of its owner and nothing else, so it is the same in every process.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, Self, TypeVar, overload

from outlast.core.errors import InvalidInput
from outlast.core.state import SessionState

T = TypeVar("T")


class HasState(Protocol):
    @property
    def state(self) -> SessionState: ...


class LoggedAttribute(Generic[T]):
    """An attribute that is folded from the log. A stored value of another type than the default's reads as default."""

    def __init__(self, default: T, kind: type | tuple[type, ...]) -> None:
        self.default = default
        self.kind = kind
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        NAMES[name] = self.kind

    @overload
    def __get__(self, obj: None, owner: type) -> Self: ...

    @overload
    def __get__(self, obj: HasState, owner: type) -> T: ...

    def __get__(self, obj: HasState | None, owner: type) -> T | Self:
        if obj is None:
            return self
        value = obj.state.runtime.get(self.name)
        if not isinstance(value, self.kind):
            value = self.default
        return list(value) if isinstance(value, list) else value  # pyright: ignore[reportReturnType, reportUnknownVariableType, reportUnknownArgumentType]


NAMES: dict[str, type | tuple[type, ...]] = {}
"""Every name that a session records, and what it may hold besides None."""


def text() -> LoggedAttribute[str | None]:
    return LoggedAttribute[str | None](None, str)


def number() -> LoggedAttribute[float | None]:
    return LoggedAttribute[float | None](None, (float, int))


def texts() -> LoggedAttribute[list[str]]:
    return LoggedAttribute[list[str]]([], list)


def checked(changes: dict[str, Any]) -> dict[str, Any]:
    """These changes, if a session records such values; `InvalidInput` names the first that it does not."""
    for name, value in changes.items():
        kind = NAMES.get(name)
        if kind is None:
            raise InvalidInput(f"a session records no '{name}'; it records {', '.join(sorted(NAMES))}")
        if value is not None and not isinstance(value, kind):
            raise InvalidInput(f"'{name}' cannot be {type(value).__name__} {value!r}")
    owner = changes.get("runtime_owner_type")
    if isinstance(owner, str) and "runtime_owner_path" not in changes:
        changes = {**changes, "runtime_owner_path": owner_path(owner)}
    return changes


def owner_path(owner_type: str) -> str:
    """`RuntimeHandle` to `runtime-handle`."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in owner_type).lstrip("-")
