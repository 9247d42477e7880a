"""Guided turn policy: connects routing, clarify and plan modes, definition of done and completion checks to the log.

It reads the folded state and the turn's own events, calls the pure functions of this package, and returns the events
to record. It keeps no state of its own, so it gives the same answers after a crash.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.events import DefinitionOfDoneUpdated, Event, RuntimeStateChanged, TimelineRecorded
from outlast.core.messages import Part, ToolCall, text_of
from outlast.core.record_storage import dump
from outlast.core.workflow_mode import WorkflowMode
from outlast.runtime.driver import Driver
from outlast.runtime.prompt.environment import EnvironmentFact
from outlast.runtime.prompt.system_prompt import SystemPrompt
from outlast.runtime.tools.port import ToolOutcome
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.dialect import switch_after_calls, written_calls
from outlast.runtime.turn.plain_policy import PlainPolicy
from outlast.runtime.turn.policy import CALL, CONTINUE, VERIFY, PolicyVerdict, TurnOpening
from outlast.runtime.turn.text_tool_calls import with_calls
from outlast.runtime.turn.turn_start import admitted_text, opening_changes, session_prompt
from outlast.runtime.turn.turn_stats import TurnRecord
from outlast.workflow import clarify
from outlast.workflow.artifacts import stored_brief, stored_plan
from outlast.workflow.completion import CompletionFacts, decide
from outlast.workflow.completion_decision import CompletionAction, CompletionDecision
from outlast.workflow.definition_of_done import begun, next_command, observed, worked
from outlast.workflow.guided_state import GuidedState
from outlast.workflow.handoff import clarify_verdict, drift_verdict, plan_verdict
from outlast.workflow.router import route
from outlast.workflow.tool_effect import work_of
from outlast.workflow.verification import commands_for, evidence_of, project_of

VERIFY_CALL = "verify-"
"""Prefix of the call ids of verification commands."""


class GuidedPolicy:
    """`TurnPolicy` of the guided workflow, for one turn (`outlast.runtime.turn.policy`)."""

    def __init__(self, driver: Driver, context: TurnContext) -> None:
        self.driver = driver
        self.context = context
        self.state = GuidedState(driver, context)
        self._prompt: tuple[int, SystemPrompt] | None = None

    async def begin(self, inputs: list[int]) -> TurnOpening:
        """Start the turn: determine its task and route; record them, the permissions and the definition of done."""
        state = self.state
        said = await admitted_text(self.driver, inputs)
        brief, answering = state.brief, state.answers_clarify
        task = brief.task if answering and brief is not None else said
        chosen = route(task, state.signals(answering=answering))
        changes: dict[str, Any] = {
            **opening_changes(self.driver.state, task),
            **chosen.changes(),
            **self.context.gate.facts(),
        }
        if answering and brief is not None:
            changes |= stored_brief(clarify.answered(brief, clarify.decide(brief)))
        elif not state.plan_waits:
            changes |= {**stored_brief(None), **stored_plan(None)}
        plan = state.plan if state.plan_waits else None
        definition = begun(task, chosen.mode, brief=brief if answering else None, plan=plan)
        events = (
            RuntimeStateChanged(changes=changes),
            TimelineRecorded(entry=dump(chosen.entry(state.now))),
            DefinitionOfDoneUpdated(definition=dump(definition)),
        )
        return TurnOpening(mode=chosen.mode, events=events)

    def system_prompt(self) -> SystemPrompt:
        at = self.driver.state.last_seq
        if self._prompt is None or self._prompt[0] != at:
            self._prompt = (at, session_prompt(self.driver, self.context))
        return self._prompt[1]

    def environment(self) -> tuple[EnvironmentFact, ...]:
        return () if self.state.is_demo else self.state.environment()

    # --- tools

    def note_call(self, call: ToolCall, outcome: ToolOutcome, status: str) -> tuple[Event, ...]:
        """Return the update of the definition of done that a finished call causes, if any."""
        done = self.state.done
        if call.id.startswith(VERIFY_CALL):
            ran = status in {"executed", "failed"}
            code = outcome.facts.get("exit_code")
            shown = evidence_of(
                str(call.arguments.get("command", "")),
                exit_code=code if isinstance(code, int) else None,
                stdout=outcome.text,
                ran=ran,
            )
            return (DefinitionOfDoneUpdated(definition=dump(observed(done, shown))),)
        work = work_of(
            call.name,
            call.arguments,
            is_error=outcome.is_error,
            project=str(self.context.project),
            facts=outcome.facts,
        )
        after = worked(done, work)
        return () if after == done else (DefinitionOfDoneUpdated(definition=dump(after)),)

    def after_tools(self, record: TurnRecord) -> PolicyVerdict | None:
        return PlainPolicy(self.driver, self.context).after_tools(record)

    def next_verification(self, record: TurnRecord) -> ToolCall | PolicyVerdict:
        """Return the next verification command as a tool call, or the verdict once all of this attempt have run."""
        done = self.state.done
        command = next_command(done)
        if command is None:
            return self._judged(decide(self._facts(record.last_answer, record)))
        number = done.verification_commands.index(command) + 1
        attempt = done.active_verification_attempt_number
        name = f"{VERIFY_CALL}{attempt}-{number}-{self.driver.state.usage.turns}"
        return ToolCall(id=name, name="bash", arguments={"command": command})

    # --- answers

    def judge_reply(self, parts: tuple[Part, ...], record: TurnRecord) -> PolicyVerdict:
        text = text_of(tuple(parts))
        written = written_calls(parts, record, self.driver, self.context)
        if written is not None:
            judged = self._judged(decide(self._facts(text, record, calls=written.calls)))
            events = (*judged.events, *switch_after_calls(record, self.driver, self.context))
            return msgspec.structs.replace(judged, events=events, parts=with_calls(parts, written))
        if self.state.mode is WorkflowMode.CLARIFY and text.strip():
            return clarify_verdict(self.state, text)
        if self.state.mode is WorkflowMode.PLAN and text.strip():
            return plan_verdict(self.state, text, record)
        moved, noted = drift_verdict(self.state, record)
        if moved is not None:
            return moved
        judged = self._judged(decide(self._facts(text, record)))
        return msgspec.structs.replace(judged, events=(*noted, *judged.events)) if noted else judged

    def _facts(
        self, answer: str, record: TurnRecord, *, halted: bool = False, calls: tuple[ToolCall, ...] = ()
    ) -> CompletionFacts:
        config = self.context.config.reasoning
        done = self.state.done
        commands: tuple[str, ...] = ()
        if done.mutated and config.verification:
            commands = commands_for(done, project_of(self.context.project, done.touched_files, python="python3"))
        return CompletionFacts(
            task=self.state.task,
            answer=answer,
            done=done,
            mode=self.state.mode,
            commands=commands,
            earlier=record.answers,
            performed=record.performed,
            nudges=record.count("premature_completion_nudge", "pending_items_continue"),
            empty_retries=record.count("empty_response_retry"),
            calls=calls,
            declined=record.declined,
            halted=halted,
            completion_check=config.completion_check,
            verification=config.verification,
            chat_profile=self.state.is_demo,
        )

    def _judged(self, made: CompletionDecision) -> PolicyVerdict:
        outcome = {
            CompletionAction.ASK: CONTINUE,
            CompletionAction.VERIFY: VERIFY,
            CompletionAction.CALL: CALL,
        }.get(made.action, str(made.outcome))
        entries = made.entries(self.state.now, self.state.mode)
        events: list[Event] = [TimelineRecorded(entry=dump(entry)) for entry in entries]
        events.append(RuntimeStateChanged(changes=made.changes()))
        if made.done != self.state.done:
            events.append(DefinitionOfDoneUpdated(definition=dump(made.done)))
        return PolicyVerdict(
            outcome=outcome,
            code=made.code,
            summary=made.summary,
            events=tuple(events),
            nudge=made.nudge,
            note=made.suffix or None,
            facts={"stage": str(made.stage), "evidence": list(made.evidence)},
        )
