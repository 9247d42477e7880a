"""Router: scores how much a plan would help, and records the scores. It never enters plan or clarify mode by itself.

A mode that the user or the model asked for, or an existing plan, decides; otherwise the task is executed, and the
scores are a proposal that the timeline shows. The text counts only by its structure (file names, code, list items in
its first `READ` characters), so a text and its translation get the same scores.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from outlast.core.workflow_mode import DecisionKind, WorkflowMode
from outlast.core.workflow_records import EntryKind, WorkflowTimelineEntry

READ = 8_000
"""Number of characters that the router reads, however long the task is."""
MEMORY = 6
"""Number of recent timeline entries that the router considers."""
PLAN_THRESHOLD = 0.45

_ANCHOR = re.compile(
    r"`[^`\n]+`|[A-Za-z0-9_.-]*[A-Za-z0-9_-]{2}(?:/[A-Za-z0-9_.-]+|\.[a-z][a-z0-9]{0,4}(?![A-Za-z0-9]))"
)
_ITEM = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,2}[.)])[ \t]", re.MULTILINE)

SUMMARIES = {
    "explicit_request": "the mode was asked for",
    "existing_plan_artifacts": "there is a plan for this task already",
    "task_is_complex": "the scores favor a plan; none was asked for, so the task is carried out",
    "verification_pressure_requires_plan": "a failed verification favors a plan; none was asked for",
    "task_is_concrete": "the task is concrete enough to be carried out",
}


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """Input of the router besides the text. `forced`: the requested mode comes from this process's configuration and
    counts for this turn only. `recent` is the timeline."""

    requested: WorkflowMode | None = None
    forced: bool = False
    has_brief: bool = False
    has_plan: bool = False
    verification_pressure: bool = False
    mutating_history: bool = False
    recent: tuple[WorkflowTimelineEntry, ...] = ()

    def names(self) -> list[str]:
        """Return the names of the set signals, for the timeline."""
        said = {
            "brief": self.has_brief,
            "plan": self.has_plan,
            "verification pressure": self.verification_pressure,
            "mutating history": self.mutating_history,
            "recent reentry": self.had_reentry,
        }
        return [name for name, is_set in said.items() if is_set]

    @property
    def had_reentry(self) -> bool:
        return any(entry.kind == EntryKind.REENTRY for entry in self.recent[-MEMORY:])


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The mode of the turn. `runner_up_mode` is the mode that the scores rank next, or rank higher."""

    mode: WorkflowMode
    reason_code: str
    decision_kind: DecisionKind
    ambiguity: float
    complexity: float
    score: float
    runner_up_mode: WorkflowMode | None = None
    runner_up_score: float | None = None
    signals: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return SUMMARIES[self.reason_code]

    @property
    def next_mode(self) -> WorkflowMode | None:
        return {WorkflowMode.EXECUTE: WorkflowMode.VERIFY, WorkflowMode.VERIFY: None}.get(
            self.mode, WorkflowMode.EXECUTE
        )

    def entry(self, timestamp: str) -> WorkflowTimelineEntry:
        return WorkflowTimelineEntry(
            timestamp=timestamp,
            kind=str(EntryKind.ROUTE),
            mode=str(self.mode),
            reason_code=self.reason_code,
            summary=f"{self.mode}: {self.summary}",
            decision_kind=str(self.decision_kind),
            route_score=self.score,
            runner_up_mode=None if self.runner_up_mode is None else str(self.runner_up_mode),
            runner_up_score=self.runner_up_score,
            scheduled_next_mode=None if self.next_mode is None else str(self.next_mode),
            signals=list(self.signals),
        )

    def changes(self) -> dict[str, Any]:
        """Return the runtime state changes that record the route."""
        return {
            "workflow_mode": str(self.mode),
            "workflow_reason_code": self.reason_code,
            "workflow_reason_summary": self.summary,
            "workflow_decision_kind": str(self.decision_kind),
            "workflow_ambiguity_score": self.ambiguity,
            "workflow_complexity_score": self.complexity,
            "workflow_scheduled_next_mode": None if self.next_mode is None else str(self.next_mode),
        }


def ambiguity(task: str) -> float:
    """Score from 0 to 1: whether the text names no file and no code that the work could begin with."""
    return 0.0 if _ANCHOR.search(task[:READ]) else 0.2


def complexity(task: str) -> float:
    """Score from 0 to 1: how many list items and different files the text names."""
    text = task[:READ]
    return _score(0.1 * len(_ITEM.findall(text)) + 0.05 * len(set(_ANCHOR.findall(text))))


def _score(total: float) -> float:
    return round(min(total, 1.0), 4)


def route(task: str, signals: Signals) -> Route:
    """Choose the mode for this task; the result includes the scores behind the choice."""
    unclear, much = ambiguity(task), complexity(task)
    if signals.requested is not None:
        kind = DecisionKind.FORCED if signals.forced else DecisionKind.REQUESTED
        mode, code, score = signals.requested, "explicit_request", 1.0
    elif signals.has_plan:
        mode, code, kind, score = WorkflowMode.EXECUTE, "existing_plan_artifacts", DecisionKind.ARTIFACT_REUSE, 0.9
    else:
        return _proposed(unclear, much, signals)
    return Route(
        mode=mode,
        reason_code=code,
        decision_kind=kind,
        ambiguity=unclear,
        complexity=much,
        score=score,
        signals=tuple(signals.names()),
    )


def _proposed(unclear: float, much: float, signals: Signals) -> Route:
    plan = plan_pressure(much, signals)
    execute = execute_pressure(unclear, much, signals)
    code = "task_is_concrete"
    if plan >= PLAN_THRESHOLD and plan > execute:
        code = "verification_pressure_requires_plan" if signals.verification_pressure else "task_is_complex"
    return Route(
        mode=WorkflowMode.EXECUTE,
        reason_code=code,
        decision_kind=DecisionKind.INITIAL_ROUTE,
        ambiguity=unclear,
        complexity=much,
        score=execute,
        runner_up_mode=WorkflowMode.PLAN,
        runner_up_score=plan,
        signals=tuple(signals.names()),
    )


def plan_pressure(much: float, signals: Signals) -> float:
    return _score(
        much
        + 0.18 * signals.verification_pressure
        + 0.12 * signals.mutating_history
        + 0.06 * signals.has_brief
        + 0.06 * signals.had_reentry
    )


def execute_pressure(unclear: float, much: float, signals: Signals) -> float:
    return _score(0.40 + 0.14 * signals.has_brief + 0.16 * (unclear < 0.2) + 0.12 * (much < PLAN_THRESHOLD))
