"""Statistics of a turn: counts for the running turn, and the summary of the last turn that ended.

Both are derived from the session's events and folded state, so they survive a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from outlast.core.events import AssistantReplied, CompletionDecided, ToolCallFinished, ToolCallStarted, TurnStarted
from outlast.core.fold import Row
from outlast.core.messages import ToolCall, text_of
from outlast.core.record_storage import load
from outlast.core.state import SessionState
from outlast.core.usage import UsageTotals
from outlast.core.workflow_records import DefinitionOfDone
from outlast.runtime.permissions.evaluate import call_digest

RAN = frozenset({"executed", "failed", "recovered"})


class TurnRecord:
    """The record of the running turn. `answers` are the texts of replies without calls, oldest first. `repeated_calls`
    counts identical calls in a row, whatever their results."""

    def __init__(self, rows: Iterable[Row], turn_seq: int) -> None:
        self.answers: tuple[str, ...] = ()
        self.performed = 0
        self.declined = False
        self.repeated_calls = 0
        self._codes: Counter[str] = Counter()
        last = ""
        for stored, event in rows:
            if stored.seq < turn_seq:
                continue
            match event:
                case TurnStarted():
                    self.answers, self.performed = (), 0
                case AssistantReplied(parts=parts):
                    calls = [part for part in parts if isinstance(part, ToolCall)]
                    if not calls:
                        self.answers = (*self.answers, text_of(parts))
                    for call in calls:
                        digest = call_digest(call.name, call.arguments)
                        self.repeated_calls = self.repeated_calls + 1 if digest == last else 1
                        last = digest
                case ToolCallFinished(status=status):
                    self.performed += status in RAN
                    self.declined = self.declined or status == "declined"
                case CompletionDecided(code=code):
                    self._codes[code] += 1
                case ToolCallStarted() | _:
                    pass

    @property
    def last_answer(self) -> str:
        return self.answers[-1] if self.answers else ""

    def count(self, *codes: str) -> int:
        return sum(self._codes[code] for code in codes)


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
    """`usage` is for this turn, `cumulative_usage` for the session. `cost_micros` sums the known costs; `unpriced`
    counts the replies without a known price."""

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
    """Return the summary of the session's last ended turn, or None."""
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
        definition_of_done=None if definition is None else load(DefinitionOfDone, definition),
        usage=spent,
        cumulative_usage=now,
        final_response=final_response,
    )
