"""The phases of a turn: a state machine that raises on a transition that is not allowed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from outlast.core.errors import InvalidTransition


class Phase(StrEnum):
    START = "start"
    PREPARE = "prepare"
    ASSISTANT = "assistant"
    REPAIR = "repair"
    TOOLS = "tools"
    CRITIQUE = "critique"
    COMPLETION = "completion"
    FINALIZE = "finalize"


class PhaseEnd(StrEnum):
    """Why the turn left a phase: as usual, for a retry, for a reroute, for recovery after a crash, or for its end."""

    NORMAL = "normal"
    RETRY = "retry"
    REROUTE = "reroute"
    RECOVERY = "recovery"
    TERMINAL = "terminal"


_NEXT: Mapping[Phase, frozenset[Phase]] = {
    Phase.START: frozenset({Phase.PREPARE}),
    Phase.PREPARE: frozenset({Phase.ASSISTANT, Phase.FINALIZE}),
    Phase.ASSISTANT: frozenset({Phase.REPAIR, Phase.TOOLS, Phase.CRITIQUE, Phase.COMPLETION, Phase.FINALIZE}),
    Phase.REPAIR: frozenset({Phase.ASSISTANT, Phase.TOOLS, Phase.COMPLETION, Phase.FINALIZE}),
    Phase.TOOLS: frozenset({Phase.ASSISTANT, Phase.CRITIQUE, Phase.COMPLETION, Phase.FINALIZE}),
    Phase.CRITIQUE: frozenset({Phase.ASSISTANT, Phase.COMPLETION, Phase.FINALIZE}),
    Phase.COMPLETION: frozenset({Phase.ASSISTANT, Phase.FINALIZE}),
    Phase.FINALIZE: frozenset(),
}


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    before: Phase
    after: Phase
    kind: PhaseEnd
    reason_code: str
    summary: str

    def text(self) -> str:
        return f"{self.before} -> {self.after} [{self.kind}] {self.summary}"

    def changes(self) -> dict[str, Any]:
        """Return the runtime values that record this transition."""
        return {
            "active_turn_phase": None if self.after is Phase.FINALIZE else str(self.after),
            "last_turn_transition_summary": self.text(),
            "last_turn_transition_kind": str(self.kind),
            "last_turn_transition_reason_code": self.reason_code,
        }


class Phases:
    """The current phase of a turn. `resume` starts in the phase that a recovered turn was in."""

    def __init__(self, now: Phase = Phase.START) -> None:
        self.now = now
        self.last: Transition | None = None

    @classmethod
    def resume(cls, name: str | None) -> Phases:
        known = name in set(Phase)
        return cls(Phase(name) if known and name != Phase.FINALIZE else Phase.PREPARE)

    def enter(self, phase: Phase, reason_code: str, summary: str, kind: PhaseEnd = PhaseEnd.NORMAL) -> None:
        """Enter a phase; entering the current one changes nothing. Raises `InvalidTransition` if it may not follow."""
        if phase is self.now:
            return
        if phase not in _NEXT[self.now]:
            raise InvalidTransition(f"a turn cannot go from {self.now} to {phase} ({reason_code})")
        self.last = Transition(before=self.now, after=phase, kind=kind, reason_code=reason_code, summary=summary)
        self.now = phase

    def changes(self) -> dict[str, Any]:
        return self.last.changes() if self.last is not None else {}
