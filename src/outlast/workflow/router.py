"""Router: chooses the workflow mode for a task by deterministic scores.

Its signals come from the task's wording, the brief and plan, and the recent timeline. Three pressures compete; the
highest wins if it reaches its threshold, otherwise the mode is execute. A requested mode or an existing plan decides
without scores.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from outlast.core.workflow_mode import DecisionKind, WorkflowMode
from outlast.core.workflow_records import EntryKind, WorkflowTimelineEntry
from outlast.workflow.text_signals import words

MEMORY = 6
"""Number of recent timeline entries that the router considers."""

UNSURE = re.compile(
    r"\b(not sure|unsure|uncertain|unclear|ambiguous|clarify|don'?t know|do not know|no idea|ask me"
    r"|help me (decide|choose)|figure out what|which (approach|option)|what (should|would) (i|we)"
    r"|open to (ideas|suggestions)"
    r"|interview me)\b",
    re.IGNORECASE,
)
VAGUE = re.compile(
    r"\b(better|nicer|cleaner|improve|improvements?|optimi[sz]e|enhance|polish|stuff|things?|something|somehow|etc"
    r"|various|modern|robust|maybe|perhaps|clean (it )?up|make it work|fix it|as needed|whatever)\b",
    re.IGNORECASE,
)
ANCHOR = re.compile(r"[/\\`]|\b[\w-]+\.[A-Za-z]\w{0,7}\b|\b(tests?|files?|functions?|class(es)?)\b", re.IGNORECASE)
BUILDING = re.compile(r"\b(build|add|improve|refactor|implement)\b", re.IGNORECASE)
STRUCTURAL = re.compile(
    r"\b(refactor(ing)?|migrat(e|ion|ing)|workflows?|reports?|plan|architecture|redesign|rewrite|restructure|overhaul"
    r"|integrat(e|ion)|pipelines?|framework|subsystem|end[- ]to[- ]end|multi[- ]step)\b",
    re.IGNORECASE,
)


def exact(score: float) -> float:
    """Round the score, so that sums like 0.2 + 0.15 + 0.2 reach their thresholds, and clamp it to 0..1."""
    return round(min(max(score, 0.0), 1.0), 4)


def ambiguity(task: str, *, clarify_flag: bool = False) -> float:
    """Score from 0 to 1: how much the wording leaves open."""
    short = len(words(task)) <= 12 and BUILDING.search(task) is not None
    return exact(
        0.65 * (clarify_flag or UNSURE.search(task) is not None)
        + 0.20 * (VAGUE.search(task) is not None)
        + 0.20 * (ANCHOR.search(task) is None)
        + 0.15 * short
    )


def complexity(task: str) -> float:
    """Score from 0 to 1: how much work the wording suggests."""
    said = words(task)
    return exact(
        0.20 * (len(said) >= 18)
        + 0.15 * (len(said) >= 30)
        + 0.30 * (STRUCTURAL.search(task) is not None)
        + 0.15 * (said.count("and") >= 2 or task.count(",") >= 2)
        + 0.10 * (ANCHOR.search(task) is not None)
    )


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """Input of the router. `recent` is the timeline, of which only the last six entries count.

    `stale_plan`: the existing plan no longer fits; `verification_pressure`: the last verification failed;
    `mutating_history`: unfinished earlier work has changed something.
    """

    requested: WorkflowMode | None = None
    clarify_flag: bool = False
    clarify_allowed: bool = True
    plan_allowed: bool = True
    has_brief: bool = False
    has_plan: bool = False
    stale_plan: bool = False
    open_questions: tuple[str, ...] = ()
    verification_pressure: bool = False
    mutating_history: bool = False
    recent: tuple[WorkflowTimelineEntry, ...] = ()

    @property
    def memory(self) -> tuple[WorkflowTimelineEntry, ...]:
        return self.recent[-MEMORY:]

    def lately(self, kind: EntryKind) -> bool:
        return any(entry.kind == kind for entry in self.memory)

    @property
    def recent_clarify(self) -> bool:
        """Whether a recent entry of clarify mode left questions open."""
        return any(entry.mode == WorkflowMode.CLARIFY and entry.unresolved_questions for entry in self.memory)

    def names(self) -> list[str]:
        """Return the names of the set signals, for the timeline."""
        said = {
            "clarify flag": self.clarify_flag,
            "clarify not allowed": not self.clarify_allowed,
            "brief": self.has_brief,
            "plan": self.has_plan,
            "stale plan": self.stale_plan,
            "open questions": bool(self.open_questions),
            "verification pressure": self.verification_pressure,
            "mutating history": self.mutating_history,
            "recent clarify": self.recent_clarify,
            "recent reentry": self.lately(EntryKind.REENTRY),
            "recent plan refresh": self.lately(EntryKind.PLAN_REFRESH),
            "recent verify skip": self.lately(EntryKind.VERIFY_SKIP),
        }
        return [name for name, is_set in said.items() if is_set]


CLARIFY_THRESHOLD = 0.55
PLAN_THRESHOLD = 0.45

SUMMARIES = {
    "explicit_request": "the mode was asked for",
    "stale_plan_artifacts": "the existing plan no longer fits the work and has to be refreshed",
    "existing_plan_artifacts": "there is a plan for this task already",
    "task_is_ambiguous": "workflow pressure favors clarification before execution",
    "task_is_complex": "workflow pressure favors a persisted plan before execution",
    "verification_pressure_requires_plan": "verification pressure and complexity favor a persisted plan",
    "task_is_concrete": "the task is concrete enough to be carried out",
}


class Route(msgspec.Struct, frozen=True, kw_only=True):
    mode: WorkflowMode
    reason_code: str
    summary: str
    decision_kind: DecisionKind
    ambiguity: float
    complexity: float
    score: float
    runner_up_mode: WorkflowMode | None = None
    runner_up_score: float | None = None
    scheduled_next_mode: WorkflowMode | None = None
    unresolved_questions: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()

    def entry(self, timestamp: str, kind: EntryKind = EntryKind.ROUTE) -> WorkflowTimelineEntry:
        return WorkflowTimelineEntry(
            timestamp=timestamp,
            kind=str(kind),
            mode=str(self.mode),
            reason_code=self.reason_code,
            summary=f"{self.mode}: {self.summary}",
            decision_kind=str(self.decision_kind),
            route_score=self.score,
            runner_up_mode=_text(self.runner_up_mode),
            runner_up_score=self.runner_up_score,
            scheduled_next_mode=_text(self.scheduled_next_mode),
            unresolved_questions=list(self.unresolved_questions),
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
            "workflow_scheduled_next_mode": _text(self.scheduled_next_mode),
        }


def _text(mode: WorkflowMode | None) -> str | None:
    return None if mode is None else str(mode)


def route(task: str, signals: Signals) -> Route:
    """Choose the mode for this task; the result includes the scores behind the choice."""
    unclear, much = ambiguity(task, clarify_flag=signals.clarify_flag), complexity(task)
    chosen = _short_cut(signals) or _by_pressure(unclear, much, signals)
    mode, code, kind, score, runner_up, runner_up_score = chosen
    return Route(
        mode=mode,
        reason_code=code,
        summary=SUMMARIES[code],
        decision_kind=kind,
        ambiguity=unclear,
        complexity=much,
        score=score,
        runner_up_mode=runner_up,
        runner_up_score=runner_up_score,
        scheduled_next_mode=_next(mode, plan_pressure(much, signals) >= PLAN_THRESHOLD and signals.plan_allowed),
        unresolved_questions=signals.open_questions,
        signals=tuple(signals.names()),
    )


Choice = tuple[WorkflowMode, str, DecisionKind, float, WorkflowMode | None, float | None]


def _short_cut(signals: Signals) -> Choice | None:
    if signals.requested is not None:
        return signals.requested, "explicit_request", DecisionKind.REQUESTED, 1.0, None, None
    if signals.has_plan and signals.stale_plan:
        return WorkflowMode.PLAN, "stale_plan_artifacts", DecisionKind.REENTRY, 0.95, WorkflowMode.EXECUTE, 0.9
    if signals.has_plan:
        return WorkflowMode.EXECUTE, "existing_plan_artifacts", DecisionKind.ARTIFACT_REUSE, 0.9, None, None
    return None


def _by_pressure(unclear: float, much: float, signals: Signals) -> Choice:
    pressures = {
        WorkflowMode.CLARIFY: clarify_pressure(unclear, much, signals),
        WorkflowMode.PLAN: plan_pressure(much, signals) if signals.plan_allowed else 0.0,
        WorkflowMode.EXECUTE: execute_pressure(unclear, much, signals),
    }
    best = max(pressures, key=lambda mode: pressures[mode])  # ties go to the more careful: clarify, plan, execute
    if best is WorkflowMode.CLARIFY and pressures[best] >= CLARIFY_THRESHOLD:
        mode, code = best, "task_is_ambiguous"
    elif best is WorkflowMode.PLAN and pressures[best] >= PLAN_THRESHOLD:
        pressed = signals.verification_pressure
        mode, code = best, "verification_pressure_requires_plan" if pressed else "task_is_complex"
    else:
        mode, code = WorkflowMode.EXECUTE, "task_is_concrete"
    score = pressures.pop(mode)
    second = max(pressures, key=lambda other: pressures[other])
    return mode, code, DecisionKind.INITIAL_ROUTE, score, second, pressures[second]


def clarify_pressure(unclear: float, much: float, signals: Signals) -> float:
    if not signals.clarify_allowed:
        return 0.0
    return exact(
        unclear
        + 0.15 * (not signals.has_brief)
        + min(0.12, 0.04 * len(signals.open_questions))
        + 0.05 * (much < 0.55)
        + 0.04 * signals.recent_clarify
    )


def plan_pressure(much: float, signals: Signals) -> float:
    return exact(
        much
        + 0.18 * signals.verification_pressure
        + 0.12 * signals.mutating_history
        + 0.06 * signals.has_brief
        + 0.06 * bool(signals.open_questions)
        + 0.06 * signals.lately(EntryKind.REENTRY)
        + 0.04 * signals.lately(EntryKind.PLAN_REFRESH)
    )


def execute_pressure(unclear: float, much: float, signals: Signals) -> float:
    return exact(
        0.35
        + 0.14 * signals.has_brief
        + 0.16 * (unclear < 0.35)
        + 0.12 * (much < 0.45)
        + 0.05 * (not signals.open_questions)
        + 0.03 * signals.lately(EntryKind.VERIFY_SKIP)
    )


def _next(mode: WorkflowMode, wants_plan: bool) -> WorkflowMode | None:
    after_clarify = WorkflowMode.PLAN if wants_plan else WorkflowMode.EXECUTE
    return {
        WorkflowMode.CLARIFY: after_clarify,
        WorkflowMode.PLAN: WorkflowMode.EXECUTE,
        WorkflowMode.EXECUTE: WorkflowMode.VERIFY,
        WorkflowMode.VERIFY: None,
    }[mode]
