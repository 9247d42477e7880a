"""ask_user: asks the user a question. The wait is durable: after a restart the question is asked again.

task: gives work to a sub-agent, which has its own session and log.

todo: keeps a task list in the session's state.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlast.core.events import EffectClass, RuntimeStateChanged
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.port import ToolContext, ToolOutcome


class AskUserArguments(ToolArguments, frozen=True, kw_only=True):
    question: Annotated[str, Meta(description="One clear question.", min_length=1)]
    choices: Annotated[list[str], Meta(description="Answers to choose from; leave out for a free answer.")] | None = (
        None
    )


async def ask_user(arguments: AskUserArguments, context: ToolContext) -> ToolOutcome:
    answer = await context.ask(arguments.question, arguments.choices or [])
    return ToolOutcome(text=answer, facts={"question": arguments.question})


ASK_USER = BuiltinTool(
    "ask_user",
    "Ask the user something that you cannot find out yourself and that decides how to go on.",
    AskUserArguments,
    EffectClass.READ,
    ask_user,
)


class TaskArguments(ToolArguments, frozen=True, kw_only=True):
    prompt: Annotated[str, Meta(description="The whole task: the sub-agent knows nothing else.", min_length=1)]
    persona: (
        Annotated[str, Meta(description="A persona that the system prompt lists under Sub-agents; leave out for none.")]
        | None
    ) = None


async def task(arguments: TaskArguments, context: ToolContext) -> ToolOutcome:
    return await context.delegate(arguments.prompt, arguments.persona)


TASK = BuiltinTool(
    "task",
    "Give a self-contained piece of work to a sub-agent and get its answer.",
    TaskArguments,
    EffectClass.OTHER,
    task,
)


_SIGNS = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}


class TodoItem(ToolArguments, frozen=True, kw_only=True):
    content: Annotated[str, Meta(description="What is to be done.", min_length=1)]
    status: Annotated[Literal["pending", "in_progress", "completed"], Meta(description="How far it is.")] = "pending"


class TodoArguments(ToolArguments, frozen=True, kw_only=True):
    items: Annotated[list[TodoItem], Meta(description="The whole list; it replaces the one before.")]


async def todo(arguments: TodoArguments, context: ToolContext) -> ToolOutcome:
    items = [msgspec.structs.asdict(item) for item in arguments.items]
    open_ones = sum(item.status != "completed" for item in arguments.items)
    lines = [f"{_SIGNS[item.status]} {item.content}" for item in arguments.items]
    return ToolOutcome(
        text="\n".join(lines) or "The list is empty.",
        facts={"items": len(items), "open": open_ones},
        events=(RuntimeStateChanged(changes={"todos": items}),),
    )


TODO = BuiltinTool(
    "todo",
    "Keep the list of steps of a longer task, so that it survives compaction and restarts. Send the whole list.",
    TodoArguments,
    EffectClass.READ,
    todo,
)
