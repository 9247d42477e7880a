"""Typed access to the folded state of a guided turn: task, brief, plan, ledger, definition of done.

Also builds what the model is told about them in messages.
"""

from __future__ import annotations

from typing import Any

from outlast.core.record_storage import load, read_list
from outlast.core.workflow_mode import DecisionKind, WorkflowMode, mode_of
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
from outlast.workflow.router import MEMORY, Signals


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
        return read_list(WorkflowTimelineEntry, self.driver.state.timeline[-MEMORY:])

    @property
    def now(self) -> str:
        return timestamp(self.driver.clock)

    @property
    def is_carried_out(self) -> bool:
        """Whether the last turn finished the work: its brief and plan do not belong to the next task."""
        return self.done.status in (DoneStatus.DONE, DoneStatus.FAILED)

    @property
    def started_items(self) -> tuple[str, ...]:
        """Return the open items of a todo list that the model sent and began in this turn. A list of which nothing is
        begun is a plan, and no reason to go on."""
        done = self.done
        todos: Any = self.runtime.get("todos") or ()
        is_begun = bool(done.completed_items) or any(item.get("status") == "in_progress" for item in todos)
        return tuple(done.pending_items) if is_begun else ()

    def requested_mode(self, *, has_brief: bool, has_plan: bool) -> tuple[WorkflowMode | None, bool]:
        """Return the mode that was asked for, and whether this process's configuration asks for it.

        `config.clarify` and `config.plan` ask for a brief or a plan before each new task.
        """
        config, session = self.context.config, self._session_mode
        if config.workflow_mode is not None and config.workflow_mode != session:
            return mode_of(config.workflow_mode), True
        if session is not None:
            return session, False
        if has_plan:
            return None, False
        if config.clarify and not has_brief:
            return WorkflowMode.CLARIFY, True
        return (WorkflowMode.PLAN, True) if config.plan else (None, False)

    @property
    def _session_mode(self) -> WorkflowMode | None:
        """The mode that the user or the model asked for in the session itself, None if none was asked for."""
        kind = self.runtime.get("workflow_decision_kind")
        if kind is None and self.driver.state.plan_mode:
            return WorkflowMode.PLAN
        return self.mode if kind == DecisionKind.REQUESTED else None

    def signals(self, *, has_brief: bool, has_plan: bool) -> Signals:
        """Return the router's input besides the task."""
        before = self.done
        requested, forced = self.requested_mode(has_brief=has_brief, has_plan=has_plan)
        return Signals(
            requested=requested,
            forced=forced,
            has_brief=has_brief,
            has_plan=has_plan,
            verification_pressure=before.last_verification_result == EvidenceStatus.FAILED,
            mutating_history=before.mutated and before.status != DoneStatus.DONE,
            recent=tuple(self.timeline),
        )

    def environment(self) -> tuple[EnvironmentFact, ...]:
        """Return what the model is told in a message: the mode, the brief and the plan."""
        context = workflow_context(self.brief, self.plan)
        told = EnvironmentFact(name="workflow context", text=context or NO_WORKFLOW_CONTEXT, change_only=not context)
        return EnvironmentFact(name="mode", text=GUIDANCE[self.mode]), told


NO_WORKFLOW_CONTEXT = "The earlier brief and plan no longer apply."

GUIDANCE = {
    WorkflowMode.CLARIFY: """\
Mode: clarify. Do not change anything yet. Look at the project where it helps, ask the user what decides how to do the
task, and write down what is known as Markdown with these headings (in English), bullets under each: Desired outcome,
Non-goals, Acceptance criteria, Constraints, Decision boundaries, Likely touchpoints, Assumptions, Open questions. Write
"none" where nothing is known; do not guess. The user's next message begins the work.""",
    WorkflowMode.PLAN: """\
Mode: plan. Do not change anything yet. Look at the project, then write a plan as Markdown with these headings (in
English), bullets under each: Steps, Files, Acceptance criteria, Verification commands (each in back-quotes), Risks.
Where you have the tool exit_plan, call it with the plan: the user approves it, and then the work begins.""",
    WorkflowMode.EXECUTE: """\
Mode: execute. Do what the user asks. Where there is a plan, follow it; when it turns out wrong, say so and do what is
right. Keep a list with the todo tool when there are more than a few steps, and close its items as you finish them.""",
    WorkflowMode.VERIFY: """\
Mode: verify. Check the work against the acceptance criteria with commands. Change nothing but what verification shows
to be wrong. Say for each criterion what you saw.""",
}


def workflow_context(brief: Brief | None, plan: WorkPlan | None) -> str:
    """Return brief and plan as Markdown; empty if there is neither."""
    parts: list[str] = []
    if brief is not None:
        parts.append(_nested(rendered_brief(brief)))
    if plan is not None:
        parts += [_nested(rendered_plan(plan)), _nested(rendered_verification_plan(plan))]
    return "\n\n".join(parts)


def _nested(markdown: str) -> str:
    """Move headings one level deeper, so that they stay inside their section."""
    lines = (f"#{line}" if line.startswith("#") else line for line in markdown.strip().splitlines())
    return "\n".join(line for line in lines if line)
