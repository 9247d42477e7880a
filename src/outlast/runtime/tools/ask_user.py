"""ask_user: a question to the user. The waiting is durable: after a restart it is asked again."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.built_in import Arguments, BuiltIn
from outlast.runtime.tools.port import Context, Outcome


class AskUserArguments(Arguments, frozen=True, kw_only=True):
    question: Annotated[str, Meta(description="One clear question.", min_length=1)]
    choices: Annotated[list[str], Meta(description="Answers to choose from; leave out for a free answer.")] | None = (
        None
    )


async def ask_user(arguments: AskUserArguments, context: Context) -> Outcome:
    answer = await context.ask(arguments.question, arguments.choices or [])
    return Outcome(text=answer, facts={"question": arguments.question})


ASK_USER = BuiltIn(
    "ask_user",
    "Ask the user something that you cannot find out yourself and that decides how to go on.",
    AskUserArguments,
    EffectClass.READ,
    ask_user,
)
