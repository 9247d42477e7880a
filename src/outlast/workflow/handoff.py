"""Hand-offs from one workflow mode to the next, also after drift, and the verdicts that lead to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from outlast.core.events import DefinitionOfDoneUpdated, Event, LedgerUpdated, RuntimeStateChanged, TimelineRecorded
from outlast.core.record_storage import dump
from outlast.core.workflow_mode import DecisionKind, WorkflowMode, mode_of
from outlast.core.workflow_records import DefinitionOfDone, EntryKind, WorkflowTimelineEntry
from outlast.runtime.turn.policy import CONTINUE, PolicyVerdict
from outlast.runtime.turn.turn_stats import TurnRecord
from outlast.workflow import clarify
from outlast.workflow.artifacts import parsed_brief, parsed_plan, stored_brief, stored_plan
from outlast.workflow.completion_decision import LABEL
from outlast.workflow.definition_of_done import begun, entered
from outlast.workflow.drift import Drift, DriftEvidence, Reality, Strategy, drift, drifted, introduced, provenance_of
from outlast.workflow.guided_state import GuidedState
from outlast.workflow.router import SUMMARIES as ROUTE_SUMMARIES
from outlast.workflow.router import Route
from outlast.workflow.router import route as routed

SUMMARIES = {
    "stale_plan_artifacts": ROUTE_SUMMARIES["stale_plan_artifacts"],
    "plan_refresh_completed": "the plan was brought up to date",
    "clarify_reentry_required": "the brief no longer fits the work and has to be clarified again",
    "clarify_reentry_plan_created": "a plan was made from the clarified brief",
    "full_replan_requires_clarify": "neither brief nor plan fits the work: clarify first, then plan anew",
    "full_replan_required": "neither brief nor plan fits the work: plan anew",
    "full_replan_completed": "the work was planned anew",
}


class Handoff(msgspec.Struct, frozen=True, kw_only=True):
    """The mode to continue in, and the reason."""

    kind: EntryKind
    mode: WorkflowMode
    reason_code: str
    summary: str
    decision_kind: DecisionKind
    next_mode: WorkflowMode | None = None
    evidence: tuple[DriftEvidence, ...] = ()

    def entry(self, timestamp: str, artifact_paths: Sequence[str] = ()) -> WorkflowTimelineEntry:
        return WorkflowTimelineEntry(
            timestamp=timestamp,
            kind=str(self.kind),
            mode=str(self.mode),
            reason_code=self.reason_code,
            summary=f"{self.mode}: {self.summary}",
            decision_kind=str(self.decision_kind),
            scheduled_next_mode=None if self.next_mode is None else str(self.next_mode),
            evidence_summary=[item.text for item in self.evidence],
            evidence_provenance=provenance_of(self.evidence, "workflow.drift"),
            artifact_paths=list(artifact_paths),
        )

    def changes(self) -> dict[str, Any]:
        return {
            "workflow_mode": str(self.mode),
            "workflow_reason_code": self.reason_code,
            "workflow_reason_summary": self.summary,
            "workflow_decision_kind": str(self.decision_kind),
            "workflow_scheduled_next_mode": None if self.next_mode is None else str(self.next_mode),
        }


def after_drift(found: Drift, *, clarify_allowed: bool, route: Route) -> Handoff | None:
    """Return the hand-off after drift; None if there is no drift. `route` is the router's current choice, which is
    used if the brief is stale and the user cannot be asked."""
    if found.strategy is None:
        return None
    if found.strategy is Strategy.PLAN_REFRESH:
        return _reentry("stale_plan_artifacts", WorkflowMode.PLAN, WorkflowMode.EXECUTE, found)
    if found.strategy is Strategy.FULL_REPLAN and clarify_allowed:
        return _reentry("full_replan_requires_clarify", WorkflowMode.CLARIFY, WorkflowMode.PLAN, found)
    if found.strategy is Strategy.FULL_REPLAN:
        return _reentry("full_replan_required", WorkflowMode.PLAN, WorkflowMode.EXECUTE, found)
    if clarify_allowed:
        return _reentry("clarify_reentry_required", WorkflowMode.CLARIFY, route.mode, found)
    return rerouted(route, found.evidence)


def _reentry(code: str, mode: WorkflowMode, then: WorkflowMode, found: Drift) -> Handoff:
    return Handoff(
        kind=EntryKind.REENTRY,
        mode=mode,
        reason_code=code,
        summary=SUMMARIES[code],
        decision_kind=DecisionKind.REENTRY,
        next_mode=then,
        evidence=found.evidence,
    )


def rerouted(route: Route, evidence: tuple[DriftEvidence, ...] = ()) -> Handoff:
    """Return the router's choice after drift as a hand-off, marked as such in its code and summary."""
    return Handoff(
        kind=EntryKind.HANDOFF,
        mode=route.mode,
        reason_code=f"post_drift_{route.reason_code}",
        summary=f"after drift: {route.summary}",
        decision_kind=DecisionKind.HANDOFF,
        next_mode=route.scheduled_next_mode,
        evidence=evidence,
    )


_PLANNED = {
    Strategy.PLAN_REFRESH: (EntryKind.PLAN_REFRESH, "plan_refresh_completed"),
    Strategy.CLARIFY_REENTRY: (EntryKind.HANDOFF, "clarify_reentry_plan_created"),
    Strategy.FULL_REPLAN: (EntryKind.PLAN_REFRESH, "full_replan_completed"),
}


def planned(strategy: Strategy) -> Handoff:
    """Return the hand-off back to execute mode, with the plan that this strategy produced."""
    kind, code = _PLANNED[strategy]
    return Handoff(
        kind=kind,
        mode=WorkflowMode.EXECUTE,
        reason_code=code,
        summary=SUMMARIES[code],
        decision_kind=DecisionKind.HANDOFF,
        next_mode=WorkflowMode.VERIFY,
    )


def handed_over(mode: WorkflowMode, reason_code: str, summary: str, then: WorkflowMode | None = None) -> Handoff:
    """Return a regular hand-off from one mode to the next."""
    return Handoff(
        kind=EntryKind.HANDOFF,
        mode=mode,
        reason_code=reason_code,
        summary=summary,
        decision_kind=DecisionKind.HANDOFF,
        next_mode=then,
    )


# --- verdicts ----------------------------------------------------------------------------------------------------

CARRY_OUT = f"{LABEL} The plan is recorded. Carry it out now, step by step, with tools."
GO_ON = f"{LABEL} The brief is recorded. Go on with the task now."
PLAN_AGAIN = (
    f"{LABEL} The work has left its plan: {{why}}. "
    "Write the plan anew (Steps, Files, Acceptance criteria, Verification commands)."
)
BRIEF_AGAIN = f"{LABEL} The work has left its brief: {{why}}. Write the brief anew, with what is open."
NUDGES = {WorkflowMode.PLAN: PLAN_AGAIN, WorkflowMode.CLARIFY: BRIEF_AGAIN}
AGAIN = {
    "stale_plan_artifacts": Strategy.PLAN_REFRESH,
    "full_replan_required": Strategy.FULL_REPLAN,
    "full_replan_requires_clarify": Strategy.FULL_REPLAN,
    "clarify_reentry_required": Strategy.CLARIFY_REENTRY,
}
"""Recovery strategy by reason code. Drift leads back at most once per turn."""


def clarify_verdict(state: GuidedState, text: str) -> PolicyVerdict:
    """Judge an answer in clarify mode: store its brief, then ask the next question or leave the mode."""
    brief = parsed_brief(text, state.task, state.brief)
    made = clarify.decide(brief)
    then = mode_of(state.runtime.get("workflow_scheduled_next_mode"))
    then = then if then is WorkflowMode.PLAN else WorkflowMode.EXECUTE
    noted = introduced(
        state.ledger,
        "clarify",
        assumptions=brief.assumptions,
        acceptance_anchors=brief.acceptance_criteria,
        decision_boundaries=brief.decision_boundaries,
    )
    stored: list[Event] = [
        TimelineRecorded(entry=dump(made.entry(state.now, then))),
        LedgerUpdated(ledger=dump(noted)),
    ]
    if not made.leaves:
        stored.append(RuntimeStateChanged(changes=stored_brief(brief)))
        asked = "" if made.question is None or made.question in text else f"\n\n{made.question}"
        return PolicyVerdict(
            outcome="accept", code=made.code, summary=made.summary, events=tuple(stored), note=asked or None
        )
    moved = handed_over(then, made.code, made.summary)
    stored += [
        RuntimeStateChanged(changes={**stored_brief(brief), **moved.changes()}),
        _entered(state, moved, begun(state.task, then, brief=brief)),
    ]
    return PolicyVerdict(outcome=CONTINUE, code=made.code, summary=made.summary, events=tuple(stored), nudge=GO_ON)


def plan_verdict(state: GuidedState, text: str, record: TurnRecord) -> PolicyVerdict:
    """Judge an answer in plan mode. A plan that the user requested ends the turn; any other is carried out at once."""
    plan = parsed_plan(text, state.task, state.plan)
    noted = introduced(state.ledger, "plan", acceptance_anchors=plan.acceptance_criteria)
    stored: list[Event] = [LedgerUpdated(ledger=dump(noted))]
    if state.requested_mode is WorkflowMode.PLAN:
        stored.append(RuntimeStateChanged(changes=stored_plan(plan)))
        summary = "the plan is ready and waits for the word to carry it out"
        return PolicyVerdict(outcome="accept", code="plan_ready", summary=summary, events=tuple(stored))
    again = next((strategy for code, strategy in AGAIN.items() if record.count(code)), None)
    recorded = "the plan is recorded; now it is carried out"
    moved = (
        planned(again)
        if again is not None
        else handed_over(WorkflowMode.EXECUTE, "plan_recorded", recorded, WorkflowMode.VERIFY)
    )
    stored += [
        RuntimeStateChanged(changes={**stored_plan(plan), **moved.changes()}),
        TimelineRecorded(entry=dump(moved.entry(state.now))),
        _entered(state, moved, begun(state.task, WorkflowMode.EXECUTE, brief=state.brief, plan=plan)),
    ]
    return PolicyVerdict(
        outcome=CONTINUE, code=moved.reason_code, summary=moved.summary, events=tuple(stored), nudge=CARRY_OUT
    )


def drift_verdict(state: GuidedState, record: TurnRecord) -> tuple[PolicyVerdict | None, tuple[Event, ...]]:
    """Once per turn, send work that has drifted from its plan or brief back to them before it can be complete.

    If the router continues without a new brief or plan, the drift is only recorded, with the events returned second.
    """
    done, brief, plan = state.done, state.brief, state.plan
    if record.count(*AGAIN) or (brief is None and plan is None):
        return None, ()
    reality = Reality(
        task=state.task,
        touched_files=done.touched_files,
        acceptance_criteria=done.acceptance_criteria,
        failed_commands=done.failed_commands,
    )
    found = drift(reality, brief, plan)
    now = routed(state.task, state.signals(answering=False))
    moved = after_drift(found, clarify_allowed=state.clarify_allowed, route=now)
    if moved is None:
        return None, ()
    events: tuple[Event, ...] = (
        TimelineRecorded(entry=dump(moved.entry(state.now))),
        RuntimeStateChanged(changes=moved.changes()),
        LedgerUpdated(ledger=dump(drifted(state.ledger, found.evidence, "recovery"))),
        _entered(state, moved, done),
    )
    if moved.mode not in NUDGES:
        known_codes = {entry.reason_code for entry in state.timeline[-6:]}
        return None, () if moved.reason_code in known_codes else events
    nudge = NUDGES[moved.mode].format(why=found.summary)
    judged = PolicyVerdict(outcome=CONTINUE, code=moved.reason_code, summary=moved.summary, events=events, nudge=nudge)
    return judged, ()


def _entered(state: GuidedState, moved: Handoff, done: DefinitionOfDone) -> DefinitionOfDoneUpdated:
    """Return the definition of done in its new mode, with the work recorded so far."""
    now = state.done
    kept = msgspec.structs.replace(
        done,
        touched_files=now.touched_files,
        mutating_actions=now.mutating_actions,
        line_changes=now.line_changes,
        task_size=now.task_size,
        mode_history=now.mode_history,
        current_mode=now.current_mode,
    )
    return DefinitionOfDoneUpdated(definition=dump(entered(kept, moved.mode)))
