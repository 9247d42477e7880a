"""Guided turn policy: the plain policy with modes, a definition of done, and verification by named commands.

It reads the folded state and the turn's own events, calls the pure functions of this package, and returns the events
to record. It keeps no state of its own, so it gives the same answers after a crash. Plan and clarify mode are entered
only when the user, the configuration or the model asks for them.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from outlast.core.events import DefinitionOfDoneUpdated, Event, LedgerUpdated, RuntimeStateChanged, TimelineRecorded
from outlast.core.messages import Part, ToolCall, text_of
from outlast.core.record_storage import dump
from outlast.core.workflow_mode import DecisionKind, WorkflowMode
from outlast.core.workflow_records import EntryKind, WorkflowTimelineEntry
from outlast.runtime.driver import Driver
from outlast.runtime.prompt.environment import EnvironmentFact
from outlast.runtime.prompt.system_prompt import SystemPrompt
from outlast.runtime.tools.port import ToolOutcome
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.plain_policy import PlainPolicy
from outlast.runtime.turn.policy import FINAL, PolicyVerdict, TurnOpening
from outlast.runtime.turn.turn_start import admitted_text, opening_changes
from outlast.runtime.turn.turn_stats import TurnRecord
from outlast.workflow.artifacts import noted, outside_plan, parsed_brief, parsed_plan, stored_brief, stored_plan
from outlast.workflow.completion import NUDGES, CompletionDecision, after_answer, after_verification, is_question
from outlast.workflow.definition_of_done import begun, evidence_of, next_command, observed, planned, worked
from outlast.workflow.guided_state import GuidedState
from outlast.workflow.router import route
from outlast.workflow.tool_effect import SHELL, effect_of, normal_command

VERIFY_CALL = "verify-"
"""Prefix of the call ids of verification commands."""
EXIT_PLAN = "exit_plan"


class GuidedPolicy:
    """`TurnPolicy` of the guided workflow, for one turn (`outlast.runtime.turn.policy`)."""

    def __init__(self, driver: Driver, context: TurnContext) -> None:
        self.driver = driver
        self.context = context
        self.state = GuidedState(driver, context)
        self.plain = PlainPolicy(driver, context)

    async def begin(self, inputs: list[int]) -> TurnOpening:
        """Start the turn: determine its task and mode; record them, the permissions and the definition of done."""
        state = self.state
        said = await admitted_text(self.driver, inputs)
        keeps = not state.is_carried_out
        brief, plan = (state.brief, state.plan) if keeps else (None, None)
        task = brief.task if brief is not None else said
        chosen = route(said, state.signals(has_brief=brief is not None, has_plan=plan is not None))
        changes: dict[str, Any] = {
            **opening_changes(self.driver.state, task),
            **chosen.changes(),
            **self.context.gate.facts(),
            **stored_brief(brief),
            **stored_plan(plan),
        }
        commands = self.context.config.verify_commands
        definition = begun(task, chosen.mode, brief=brief, plan=plan, commands=commands)
        events = (
            RuntimeStateChanged(changes=changes),
            TimelineRecorded(entry=dump(chosen.entry(state.now))),
            DefinitionOfDoneUpdated(definition=dump(definition)),
        )
        return TurnOpening(mode=chosen.mode, events=events)

    def system_prompt(self) -> SystemPrompt:
        return self.plain.system_prompt()

    def environment(self) -> tuple[EnvironmentFact, ...]:
        return self.state.environment()

    # --- tools

    def note_call(self, call: ToolCall, outcome: ToolOutcome, status: str) -> tuple[Event, ...]:
        """Return what a finished call changes: the definition of done, and the plan that it got approved."""
        if call.name == EXIT_PLAN and status == "executed" and not outcome.is_error:
            return self._approved(str(call.arguments.get("plan", "")))
        done = after = self.state.done
        by_model = not call.id.startswith(VERIFY_CALL)
        if by_model:
            project, facts = str(self.context.project), outcome.facts
            after = worked(
                done, effect_of(call.name, call.arguments, is_error=outcome.is_error, project=project, facts=facts)
            )
        command = str(call.arguments.get("command", "")) if call.name in SHELL else ""
        if normal_command(command) in done.verification_commands and self._is_evidence(outcome):
            after = observed(after, evidence_of(command, outcome, status, by_model=by_model))
        return () if after == done else (DefinitionOfDoneUpdated(definition=dump(after)),)

    def _is_evidence(self, outcome: ToolOutcome) -> bool:
        """Whether the command ended, and not in another folder than the project's."""
        folder = outcome.facts.get("cwd")
        is_here = not isinstance(folder, str) or os.path.realpath(folder) == os.path.realpath(self.context.project)
        return is_here and "job_id" not in outcome.facts

    def _approved(self, text: str) -> tuple[Event, ...]:
        plan = parsed_plan(text, self.state.task, self.state.plan)
        ledger = noted(self.state.ledger, "plan", acceptance_anchors=plan.acceptance_criteria)
        return (
            RuntimeStateChanged(changes=stored_plan(plan)),
            LedgerUpdated(ledger=dump(ledger)),
            DefinitionOfDoneUpdated(definition=dump(planned(self.state.done, plan))),
        )

    def after_tools(self, record: TurnRecord) -> PolicyVerdict | None:
        return self.plain.after_tools(record)

    def next_verification(self, record: TurnRecord) -> ToolCall | PolicyVerdict:
        """Return the next verification command as a tool call, or the verdict once all of this attempt have run."""
        done = self.state.done
        command = next_command(done)
        if command is None:
            return self._judged(after_verification(done, may_nudge=self._may_nudge(record.last_answer, record)))
        number = done.verification_commands.index(command) + 1
        attempt = done.active_verification_attempt_number
        name = f"{VERIFY_CALL}{attempt}-{number}-{self.driver.state.usage.turns}"
        return ToolCall(id=name, name="bash", arguments={"command": command})

    # --- answers

    def judge_reply(self, parts: tuple[Part, ...], record: TurnRecord) -> PolicyVerdict:
        judged = self.plain.judge_reply(parts, record)
        text = text_of(parts)
        if judged.outcome not in FINAL or not text.strip():
            return judged
        if self.state.mode is WorkflowMode.CLARIFY:
            return self._clarified(text)
        if self.state.mode is WorkflowMode.PLAN:
            return self._planned(text)
        return self._judged(
            after_answer(
                self.state.done,
                open_items=self.state.started_items,
                may_nudge=self._may_nudge(text, record),
                verification=self.context.config.reasoning.verification,
            )
        )

    def _may_nudge(self, answer: str, record: TurnRecord) -> bool:
        """Whether the model may be asked for more: once per turn, never against a question or a denial."""
        return (
            self.context.config.reasoning.completion_check
            and not record.declined
            and not record.count(*NUDGES)
            and not is_question(answer)
        )

    def _clarified(self, text: str) -> PolicyVerdict:
        """Accept an answer in clarify mode: store its brief. The user's next message begins the work."""
        state = self.state
        brief = parsed_brief(text, state.task, state.brief)
        ledger = noted(
            state.ledger,
            "clarify",
            assumptions=brief.assumptions,
            acceptance_anchors=brief.acceptance_criteria,
            decision_boundaries=brief.decision_boundaries,
        )
        asks = is_question(text) or bool(brief.open_questions)
        code = "clarify_follow_up_needed" if asks else "clarify_complete"
        summary = "the model asks before it begins" if asks else "the brief is complete"
        entry = WorkflowTimelineEntry(
            timestamp=state.now,
            kind=str(EntryKind.CLARIFY_EXIT),
            mode=str(WorkflowMode.CLARIFY),
            reason_code=code,
            summary=f"clarify: {summary}",
            decision_kind=str(DecisionKind.HANDOFF),
            scheduled_next_mode=str(WorkflowMode.EXECUTE),
            unresolved_questions=brief.open_questions,
        )
        then = {"workflow_mode": str(WorkflowMode.EXECUTE), "workflow_decision_kind": str(DecisionKind.HANDOFF)}
        events = (
            TimelineRecorded(entry=dump(entry)),
            LedgerUpdated(ledger=dump(ledger)),
            RuntimeStateChanged(changes={**stored_brief(brief), **then, **_completion(code, summary)}),
        )
        return PolicyVerdict(outcome="accept", code=code, summary=summary, events=events)

    def _planned(self, text: str) -> PolicyVerdict:
        """Accept an answer in plan mode: store the plan in it, if it has one."""
        state, code = self.state, "plan_ready"
        plan = parsed_plan(text, state.task, state.plan)
        summary = "the plan is ready and waits for the word to carry it out"
        if not plan.steps:
            code, plan, summary = "plan_not_ready", state.plan, "the model has answered, and plan mode goes on"
        ledger = noted(state.ledger, "plan", acceptance_anchors=plan.acceptance_criteria if plan else ())
        events = (
            LedgerUpdated(ledger=dump(ledger)),
            RuntimeStateChanged(changes={**stored_plan(plan), **_completion(code, summary)}),
        )
        return PolicyVerdict(outcome="accept", code=code, summary=summary, events=events)

    def _judged(self, made: CompletionDecision) -> PolicyVerdict:
        state = self.state
        left = outside_plan(state.plan, made.done.touched_files) if state.plan is not None else []
        evidence = (*made.evidence, *(f"`{path}` was changed though the plan does not name it" for path in left))
        entry = msgspec.structs.replace(made.entry(state.now, state.mode), evidence_summary=list(evidence))
        events: list[Event] = [TimelineRecorded(entry=dump(entry)), RuntimeStateChanged(changes=made.changes())]
        if made.done != state.done:
            events.append(DefinitionOfDoneUpdated(definition=dump(made.done)))
        return PolicyVerdict(
            outcome=made.outcome,
            code=made.code,
            summary=made.summary,
            events=tuple(events),
            nudge=made.nudge,
            note=made.note,
            facts={"stage": entry.policy_stage, "evidence": list(evidence)},
        )


def _completion(code: str, summary: str) -> dict[str, str]:
    return {"last_completion_decision_code": code, "last_completion_decision_summary": summary}
