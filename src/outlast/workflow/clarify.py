"""Clarify mode: which information is missing, what to ask next, and when to stop asking.

A brief is complete when its required slots are filled and its scope was challenged once (the pressure pass). Rounds are
limited: if the user does not answer, the work starts anyway, with the gaps recorded as open questions.
"""

from __future__ import annotations

import msgspec

from outlast.core.workflow_mode import DecisionKind, WorkflowMode
from outlast.core.workflow_records import EntryKind, WorkflowTimelineEntry
from outlast.workflow.artifacts import Brief, Slot

ROUNDS = 3
REQUIRED = (Slot.DESIRED_OUTCOME, Slot.ACCEPTANCE_CRITERIA, Slot.NON_GOALS, Slot.DECISION_BOUNDARIES)

QUESTIONS = {
    Slot.DESIRED_OUTCOME: "What should be true for you when this is done?",
    Slot.ACCEPTANCE_CRITERIA: "How will you check that it is done? Name results, commands or files that must be right.",
    Slot.NON_GOALS: "What should stay as it is, even if it looks related?",
    Slot.DECISION_BOUNDARIES: "Which decisions may I take myself, and which do you want to be asked about first?",
    Slot.CONSTRAINTS: "Are there limits to keep to: versions, libraries, style, time?",
    Slot.LIKELY_TOUCHPOINTS: "Which files or parts of the project do you expect to change?",
}

SUMMARIES = {
    "clarify_pressure_pass_required": "the brief is filled in but its scope was not challenged yet",
    "clarify_follow_up_needed": "the brief still has gaps that a question can close",
    "clarify_budget_exhausted": "stopped asking because the budget of questions is used up; gaps are noted as open",
    "clarify_budget_exhausted_without_pressure_pass": (
        "stopped asking because the budget of questions is used up before the scope was challenged"
    ),
    "clarify_complete": "the brief is complete",
}


class ClarifyDecision(msgspec.Struct, frozen=True, kw_only=True):
    """`question` is for the user; None when clarify mode ends. `pressure` is the share of slots still open."""

    code: str
    stage: str
    question: str | None
    missing: tuple[Slot, ...]
    pressure: float
    gates: tuple[str, ...]

    @property
    def leaves(self) -> bool:
        return self.question is None

    @property
    def summary(self) -> str:
        return SUMMARIES[self.code]

    def entry(self, timestamp: str, next_mode: WorkflowMode) -> WorkflowTimelineEntry:
        return WorkflowTimelineEntry(
            timestamp=timestamp,
            kind=str(EntryKind.CLARIFY_EXIT if self.leaves else EntryKind.CLARIFY_CONTINUE),
            mode=str(WorkflowMode.CLARIFY),
            reason_code=self.code,
            summary=f"clarify: {self.summary}",
            decision_kind=str(DecisionKind.HANDOFF if self.leaves else DecisionKind.FORCED),
            scheduled_next_mode=str(next_mode if self.leaves else WorkflowMode.CLARIFY),
            unresolved_questions=[QUESTIONS[slot] for slot in self.missing],
            clarify_stage=self.stage,
            clarify_pressure=self.pressure,
            readiness_gates=list(self.gates),
        )


def missing_slots(brief: Brief) -> tuple[Slot, ...]:
    """Return the empty slots, in the order in which they are asked for."""
    return tuple(slot for slot in Slot if not brief.slot(slot))


def decide(brief: Brief, *, budget: int = ROUNDS) -> ClarifyDecision:
    """Decide whether to ask about a gap, challenge the scope, or leave clarify mode."""
    missing = missing_slots(brief)
    gaps = [slot for slot in missing if slot in REQUIRED]
    code, stage, question = _step(brief, gaps, brief.rounds >= budget)
    return ClarifyDecision(
        code=code,
        stage=stage,
        question=question,
        missing=missing,
        pressure=round(len(missing) / len(Slot), 4),
        gates=_gates(brief),
    )


def _step(brief: Brief, gaps: list[Slot], used_up: bool) -> tuple[str, str, str | None]:
    if not gaps and brief.pressure_passed:
        return "clarify_complete", "exit", None
    if used_up and not brief.pressure_passed:
        return "clarify_budget_exhausted_without_pressure_pass", "exit", None
    if used_up:
        return "clarify_budget_exhausted", "exit", None
    if gaps:
        return "clarify_follow_up_needed", "slots", follow_up(gaps)
    return "clarify_pressure_pass_required", "pressure", pressure_question(brief)


def follow_up(gaps: list[Slot]) -> str:
    """Return one message with at most two questions: users do not answer more."""
    return "\n".join(QUESTIONS[slot] for slot in gaps[:2])


def pressure_question(brief: Brief) -> str:
    """Return a question that challenges the scope or an assumption of the brief."""
    if brief.assumptions:
        return f"I assume: {brief.assumptions[0]} What would change if that is wrong?"
    if brief.acceptance_criteria:
        first = brief.acceptance_criteria[0]
        return f'If only one thing could be finished, would it be "{first}"? What could be left out?'
    return "What is the smallest result that you would still accept, and what could be left out?"


def answered(brief: Brief, decision: ClarifyDecision) -> Brief:
    """Count the user's answer to this decision's question; the answer itself is not yet worked into the brief."""
    return msgspec.structs.replace(
        brief, rounds=brief.rounds + 1, pressure_passed=brief.pressure_passed or decision.stage == "pressure"
    )


def _gates(brief: Brief) -> tuple[str, ...]:
    filled = [f"{slot}: {'ready' if brief.slot(slot) else 'open'}" for slot in REQUIRED]
    return (*filled, f"pressure_pass: {'ready' if brief.pressure_passed else 'open'}")
