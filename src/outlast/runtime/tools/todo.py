"""todo: the list of what is to be done, kept in the session's own state."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlast.core.events import EffectClass, RuntimeStateChanged
from outlast.runtime.tools.built_in import Arguments, BuiltIn
from outlast.runtime.tools.port import Context, Outcome

_SIGNS = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}


class TodoItem(Arguments, frozen=True, kw_only=True):
    content: Annotated[str, Meta(description="What is to be done.", min_length=1)]
    status: Annotated[Literal["pending", "in_progress", "completed"], Meta(description="How far it is.")] = "pending"


class TodoArguments(Arguments, frozen=True, kw_only=True):
    items: Annotated[list[TodoItem], Meta(description="The whole list; it replaces the one before.")]


async def todo(arguments: TodoArguments, context: Context) -> Outcome:
    items = [msgspec.structs.asdict(item) for item in arguments.items]
    open_ones = sum(item.status != "completed" for item in arguments.items)
    lines = [f"{_SIGNS[item.status]} {item.content}" for item in arguments.items]
    return Outcome(
        text="\n".join(lines) or "The list is empty.",
        facts={"items": len(items), "open": open_ones},
        events=(RuntimeStateChanged(changes={"todos": items}),),
    )


TODO = BuiltIn(
    "todo",
    "Keep the list of steps of a longer task, so that it survives compaction and restarts. Send the whole list.",
    TodoArguments,
    EffectClass.READ,
    todo,
)
