"""The few shapes of ASGI that are used here, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = Any
"""What is known of a request. Every server and framework has a type of its own for it, and no two agree."""
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Any, Any], Awaitable[None]]


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Every value that was sent under this name, in order: whoever expects one must refuse two."""
    return [value.decode("latin-1") for found, value in scope["headers"] if found == name]


def sole_header(scope: Scope, name: bytes) -> str | None:
    """The value if there is exactly one; None when it is missing or was sent twice."""
    values = header_values(scope, name)
    return values[0] if len(values) == 1 else None
