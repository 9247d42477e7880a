"""task: a piece of work for a sub-agent, which has a session and a log of its own."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.built_in import Arguments, BuiltIn
from outlast.runtime.tools.port import Context, Outcome


class TaskArguments(Arguments, frozen=True, kw_only=True):
    prompt: Annotated[str, Meta(description="The whole task: the sub-agent knows nothing else.", min_length=1)]
    persona: Annotated[str, Meta(description="The persona that does it.")] | None = None


async def task(arguments: TaskArguments, context: Context) -> Outcome:
    return await context.delegate(arguments.prompt, arguments.persona)


TASK = BuiltIn(
    "task",
    "Give a self-contained piece of work to a sub-agent and get its answer.",
    TaskArguments,
    EffectClass.OTHER,
    task,
)
