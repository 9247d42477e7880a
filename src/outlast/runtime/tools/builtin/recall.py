"""recall: shows the model what its window no longer holds: an event of its own session, or a search in that session.

The tool context gives the access to the log (`outlast.runtime.session_recall`); this tool knows only its arguments.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome


class RecallArguments(ToolArguments, frozen=True, kw_only=True):
    query: Annotated[str, Meta(description="Words that the text must hold, in any order.")] | None = None
    seq: (
        Annotated[int, Meta(description="Number of the event to show; with a query, search only older events.", ge=1)]
        | None
    ) = None
    offset: Annotated[int, Meta(description="Character of the event's text to start from.", ge=0)] = 0


async def recall(arguments: RecallArguments, context: ToolContext) -> ToolOutcome:
    """Show one event, or search; a blank query counts as none."""
    query = (arguments.query or "").strip() or None
    if query is None and arguments.seq is None:
        raise ToolFault("recall needs a query to search for or the seq of an event")
    if context.recall is None:
        raise ToolFault("the log of this session cannot be read here")
    return await context.recall(query, arguments.seq, arguments.offset)


RECALL = BuiltinTool(
    "recall",
    "Read what this session no longer shows you: seq shows an earlier message or tool output whole, for example one "
    "that was pruned; query searches all earlier messages and outputs of this session and gives their seq.",
    RecallArguments,
    EffectClass.READ,
    recall,
)
