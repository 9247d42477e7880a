"""What a turn came to: a projection of the folded state, so it is there after a restart too."""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.state import SessionState
from outlast.core.usage import UsageTotals
from outlast.runtime.workflow.done import DefinitionOfDone
from outlast.runtime.workflow.readback import read

COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_micros",
    "unpriced",
)


class TurnSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`usage` is this turn's, `cumulative_usage` the session's. `cost_micros` adds up what is known; replies whose
    price is not known are counted in `unpriced`."""

    session_id: str
    outcome: str
    reason: str | None = None
    task: str | None = None
    workflow_mode: str | None = None
    decision_code: str | None = None
    definition_of_done: DefinitionOfDone | None = None
    usage: dict[str, int] = {}
    cumulative_usage: dict[str, int] = {}
    final_response: str = ""


def totals(usage: UsageTotals) -> dict[str, int]:
    counted = {name: int(getattr(usage.total, name)) for name in COUNTS}
    return {**counted, "tool_calls": usage.tool_calls, "iterations": usage.replies, "turns": usage.turns}


def last_turn(session_id: str, state: SessionState, final_response: str = "") -> TurnSummary | None:
    """The last turn that ended here; None when none did."""
    told: Any = state.runtime.get("last_turn")
    if not isinstance(told, dict):
        return None
    before: Any = state.runtime.get("usage_before_turn") or {}
    now = totals(state.usage)
    spent = {name: count - int(before.get(name, 0)) for name, count in now.items()}
    definition = state.definition_of_done
    return TurnSummary(
        session_id=session_id,
        outcome=str(told.get("outcome", "")),  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        reason=told.get("reason"),  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        task=state.runtime.get("current_task"),
        workflow_mode=state.runtime.get("workflow_mode"),
        decision_code=state.runtime.get("last_completion_decision_code"),
        definition_of_done=None if definition is None else read(DefinitionOfDone, definition),
        usage=spent,
        cumulative_usage=now,
        final_response=final_response,
    )
