"""Statistics of a turn: counts for the running turn, and the summary of the last turn that ended.

Both are derived from the session's events and folded state, so they survive a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from outlast.core.events import AssistantReplied, CompletionDecided, ToolCallFinished, ToolCallStarted, TurnStarted
from outlast.core.fold import Row
from outlast.core.messages import ToolCall, text_of
from outlast.core.record_storage import load
from outlast.core.state import SessionState
from outlast.core.usage import UsageTotals
from outlast.core.workflow_records import DefinitionOfDone

RAN = frozenset({"executed", "failed", "recovered"})
DENIED = frozenset({"declined", "blocked"})
TEXT_CALL = "text-"
"""Prefix of the ids of calls that the model wrote as text."""
REPLY_CUT_OFF = "reply_cut_off"
"""Code of the decision that asks the model to continue a reply which the length limit cut off."""


class FinishedCall(NamedTuple):
    """A call of the model, and its result."""

    call: ToolCall
    result: ToolCallFinished


class TurnRecord:
    """The record of the running turn. `answers` are the texts of replies without calls, oldest first; a reply that was
    cut off and continued is one answer. `cut_text` is the text of a cut-off reply that is being continued, `cuts` the
    number of its pieces, and `idle_cuts` that of the newest pieces without text. `declined`: a call was denied.
    `trail` holds the finished calls and the codes of decisions, in the order of their records. `native_callers` names
    the models that have made native calls, in the whole window."""

    def __init__(self, rows: Iterable[Row], turn_seq: int) -> None:
        self.answers: tuple[str, ...] = ()
        self.performed = 0
        self.declined = False
        self.trail: list[FinishedCall | str] = []
        self.cut_text: str = ""
        self.cuts: int = 0
        self.idle_cuts: int = 0
        self.native_callers: set[str | None] = set()
        self._codes: Counter[str] = Counter()
        said = ""
        cuts = idle_cuts = 0
        open_calls: dict[str, ToolCall] = {}
        for stored, event in rows:
            if isinstance(event, AssistantReplied) and _has_native_call(event):
                self.native_callers.add(event.model)
            if stored.seq < turn_seq:
                continue
            match event:
                case TurnStarted():
                    self.answers, self.performed, self.cut_text = (), 0, ""
                case AssistantReplied(parts=parts):
                    calls = [part for part in parts if isinstance(part, ToolCall)]
                    said = text_of(parts)
                    if not calls:
                        self.answers = (*self.answers, self.cut_text + said)
                    self.cut_text = ""
                    cuts, idle_cuts = self.cuts, self.idle_cuts
                    self.cuts = self.idle_cuts = 0
                    open_calls = {call.id: call for call in calls}
                case ToolCallFinished(call_id=call_id, status=status):
                    call = open_calls.pop(call_id, None)
                    self.trail += [FinishedCall(call, event)] if call is not None else []
                    self.performed += status in RAN
                    self.declined = self.declined or status in DENIED
                case CompletionDecided(code=code):
                    self._codes[code] += 1
                    self.trail.append(code)
                    if code == REPLY_CUT_OFF and self.answers:
                        self.answers, self.cut_text = self.answers[:-1], self.answers[-1]
                        self.cuts = cuts + 1
                        self.idle_cuts = 0 if said.strip() else idle_cuts + 1
                case ToolCallStarted() | _:
                    pass

    @property
    def last_answer(self) -> str:
        return self.cut_text or (self.answers[-1] if self.answers else "")

    def count(self, *codes: str) -> int:
        return sum(self._codes[code] for code in codes)

    def decided_since_call(self, code: str) -> bool:
        """Whether this was decided since the newest finished call."""
        since = takewhile(lambda entry: isinstance(entry, str), reversed(self.trail))
        return code in since


def _has_native_call(event: AssistantReplied) -> bool:
    return any(isinstance(part, ToolCall) and not part.id.startswith(TEXT_CALL) for part in event.parts)


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
