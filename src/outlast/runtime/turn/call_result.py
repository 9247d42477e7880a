"""The result of a tool call, and the event that records it."""

from __future__ import annotations

import asyncio

import msgspec

from outlast.core.events import EffectClass, ToolCallFinished
from outlast.core.messages import TextPart, ToolCall
from outlast.core.repair import OUTCOME_UNKNOWN
from outlast.core.state import OpenCall
from outlast.runtime.tools.port import ToolOutcome
from outlast.runtime.turn.whole_output import stored_facts


class CallResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call. `note` is what the user's hooks say about it."""

    call: ToolCall
    outcome: ToolOutcome
    status: str
    note: str | None = None


async def finished_event(result: CallResult) -> ToolCallFinished:
    """Build the event of a result; the whole output of an excerpt is stored in it."""
    outcome = result.outcome
    facts = dict(outcome.facts)
    if outcome.whole_file is not None:
        facts |= await asyncio.to_thread(stored_facts, outcome.whole_file)
    elif outcome.whole is not None:
        facts["whole"] = outcome.whole
    parts = outcome.parts()
    if result.note:
        parts = (*parts, TextPart(f"\n[hook] {result.note}"))
    return ToolCallFinished(
        call_id=result.call.id,
        name=result.call.name,
        parts=parts,
        status=result.status,
        is_error=outcome.is_error,
        facts=facts,
    )


def cancelled(call: OpenCall) -> ToolCallFinished:
    """Build the answer to a call that was open when its turn was stopped."""
    text = OUTCOME_UNKNOWN if call.started_seq and call.effect is not EffectClass.READ else "Not executed: cancelled."
    return ToolCallFinished(
        call_id=call.call_id, name=call.name, parts=(TextPart(text),), status="cancelled", is_error=True
    )
