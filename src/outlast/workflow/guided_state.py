"""Typed access to the folded state of a guided turn: task, brief, plan, ledger, definition of done.

Also builds what the model is told about them in messages.
"""

from __future__ import annotations

from typing import Any

from outlast.core.record_storage import load, read_list
from outlast.core.workflow_mode import WorkflowMode, mode_of
from outlast.core.workflow_records import (
    DefinitionOfDone,
    DoneStatus,
    EvidenceStatus,
    WorkflowLedger,
    WorkflowTimelineEntry,
)
from outlast.runtime.clock import timestamp
from outlast.runtime.driver import Driver
from outlast.runtime.prompt.environment import EnvironmentFact
from outlast.runtime.turn.context import TurnContext
from outlast.workflow.artifacts import (
    Brief,
    WorkPlan,
    brief_of,
    plan_of,
    rendered_brief,
    rendered_plan,
    rendered_verification_plan,
)
from outlast.workflow.definition_of_done import begun
from outlast.workflow.router import Signals


class GuidedState:
    """The driver's folded state as the guided policy reads it; it keeps no state of its own."""

    def __init__(self, driver: Driver, context: TurnContext) -> None:
        self.driver = driver
        self.context = context

    @property
    def runtime(self) -> dict[str, Any]:
        return self.driver.state.runtime

    @property
    def mode(self) -> WorkflowMode:
        return mode_of(self.runtime.get("workflow_mode"))

    @property
    def task(self) -> str:
        return str(self.runtime.get("current_task") or "")

    @property
    def brief(self) -> Brief | None:
        return brief_of(self.runtime)

    @property
    def plan(self) -> WorkPlan | None:
        return plan_of(self.runtime)

    @property
    def ledger(self) -> WorkflowLedger:
        return load(WorkflowLedger, self.driver.state.ledger)

    @property
    def done(self) -> DefinitionOfDone:
        found = self.driver.state.definition_of_done
        return begun(self.task, self.mode) if found is None else load(DefinitionOfDone, found)

    @property
    def timeline(self) -> list[WorkflowTimelineEntry]:
        return read_list(WorkflowTimelineEntry, self.driver.state.timeline)

    @property
    def is_demo(self) -> bool:
        """Whether this is a small demo model, which only chats: it is neither routed nor told to continue."""
        return self.context.model is not None and self.context.model.abilities.chat_profile

    @property
    def clarify_allowed(self) -> bool:
        return self.context.config.clarify and not self.is_demo

    @property
    def now(self) -> str:
        return timestamp(self.driver.clock)

    @property
    def answers_clarify(self) -> bool:
        """Whether the session waits for the user's answer to a clarify question."""
        return self.brief is not None and self.mode is WorkflowMode.CLARIFY

    @property
    def plan_waits(self) -> bool:
        """Whether a plan that the user requested waits to be carried out."""
        return self.plan is not None and self.runtime.get("workflow_mode") == WorkflowMode.PLAN

    @property
    def requested_mode(self) -> WorkflowMode | None:
        if self.context.config.workflow_mode is not None:
            return mode_of(self.context.config.workflow_mode)
        if self.runtime.get("workflow_decision_kind") == "requested" and self.driver.state.usage.turns == 0:
            return mode_of(self.runtime.get("workflow_mode"))
        return None

    def signals(self, *, answering: bool) -> Signals:
        """Return the router's input; `answering`: the user is answering a clarify question."""
        brief, before = self.brief, self.done
        return Signals(
            requested=WorkflowMode.EXECUTE if self.is_demo else self.requested_mode,
            clarify_allowed=self.clarify_allowed,
            plan_allowed=self.context.config.plan and not self.is_demo,
            has_brief=answering,
            has_plan=self.plan_waits,
            open_questions=tuple(brief.open_questions) if answering and brief is not None else (),
            verification_pressure=before.last_verification_result == EvidenceStatus.FAILED,
            mutating_history=before.mutated and before.status != DoneStatus.DONE,
            recent=tuple(self.timeline),
        )

    def environment(self) -> tuple[EnvironmentFact, ...]:
        """Return what the model is told in a message: the mode, and the brief, the plan and what became untrue."""
        context = workflow_context(self.brief, self.plan, self.ledger) or NO_WORKFLOW_CONTEXT
        changed = context == NO_WORKFLOW_CONTEXT
        return (
            EnvironmentFact(name="mode", text=GUIDANCE[self.mode]),
            EnvironmentFact(name="workflow context", text=context, change_only=changed),
        )


NO_WORKFLOW_CONTEXT = "The earlier brief and plan no longer apply."

GUIDANCE = {
    WorkflowMode.CLARIFY: """\
Mode: clarify. Do not change anything yet. Look at the project where it helps, then write down what is known as Markdown
with these headings, bullets under each: Desired outcome, Non-goals, Acceptance criteria, Constraints, Decision
boundaries, Likely touchpoints, Assumptions, Open questions. Write "none" where nothing is known; do not guess.""",
    WorkflowMode.PLAN: """\
Mode: plan. Do not change anything yet. Look at the project, then write a plan as Markdown with these headings, bullets
under each: Steps, Files, Acceptance criteria, Verification commands (each in back-quotes), Risks.""",
    WorkflowMode.EXECUTE: """\
Mode: execute. Carry the task out. Where there is a plan, follow it; when it turns out wrong, say so and do what is
right. Keep a list with the todo tool when there are more than a few steps, and close its items as you finish them.""",
    WorkflowMode.VERIFY: """\
Mode: verify. Check the work against the acceptance criteria with commands. Change nothing but what verification shows
to be wrong. Say for each criterion what you saw.""",
}


def workflow_context(brief: Brief | None, plan: WorkPlan | None, ledger: WorkflowLedger) -> str:
    parts: list[str] = []
    if brief is not None:
        parts.append(_nested(rendered_brief(brief)))
    if plan is not None:
        parts += [_nested(rendered_plan(plan)), _nested(rendered_verification_plan(plan))]
    broken = [
        f"- {item.text} ({item.status})"
        for items in (ledger.assumptions, ledger.acceptance_anchors, ledger.decision_boundaries)
        for item in items
        if item.status in ("contradicted", "changed", "reopened")
    ]
    if broken:
        parts.append("\n".join(["## No longer true", *broken]))
    return "\n\n".join(parts)


def _nested(markdown: str) -> str:
    """Move headings one level deeper, so that they stay inside their section."""
    lines = (f"#{line}" if line.startswith("#") else line for line in markdown.strip().splitlines())
    return "\n".join(line for line in lines if line)
