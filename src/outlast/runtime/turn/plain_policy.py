"""The plain policy: the model works until it stops calling tools, and then the turn ends.

It adds no rounds, no verification and no prompt sections, and retries an empty reply once. It records what every reader
of a session expects: the task, a definition of done without checks, and a timeline entry for the end of the turn.
"""

from __future__ import annotations

import msgspec

from outlast.core.events import DefinitionOfDoneUpdated, Event, RuntimeStateChanged, TimelineRecorded
from outlast.core.messages import Part, ToolCall, text_of
from outlast.core.record_storage import dump
from outlast.core.workflow_mode import DecisionKind, WorkflowMode, mode_of
from outlast.core.workflow_records import COMPLETION_PREFIX, DefinitionOfDone, EntryKind, WorkflowTimelineEntry
from outlast.runtime.clock import timestamp
from outlast.runtime.driver import Driver
from outlast.runtime.prompt.environment import EnvironmentFact, plan_mode_fact
from outlast.runtime.prompt.system_prompt import SystemPrompt
from outlast.runtime.tools.port import ToolOutcome
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.dialect import RECOVERED, switch_after_calls, written_calls
from outlast.runtime.turn.loop_guard import LOOP_STOPPED, LOOP_TOLD, loop_in
from outlast.runtime.turn.policy import CALL, CONTINUE, PolicyVerdict, TurnOpening
from outlast.runtime.turn.text_tool_calls import with_calls
from outlast.runtime.turn.turn_start import admitted_text, opening_changes, session_prompt
from outlast.runtime.turn.turn_stats import TurnRecord

TURN_COMPLETE, EMPTY_RETRY, EMPTY_EXHAUSTED = "turn_complete", "empty_response_retry", "empty_response_exhausted"
EMPTY = "[Outlast runtime] Your last response was empty. Go on with the task, or give your final answer as text."


class PlainPolicy:
    """Policy of a turn that the model controls alone (`outlast.runtime.turn.policy.TurnPolicy`)."""

    def __init__(self, driver: Driver, context: TurnContext) -> None:
        self.driver = driver
        self.context = context
        self._prompt: tuple[int, SystemPrompt] | None = None

    async def begin(self, inputs: list[int]) -> TurnOpening:
        task, mode = await admitted_text(self.driver, inputs), self._mode()
        opening = opening_changes(self.driver.state, task)
        changes = {**opening, "workflow_mode": str(mode), **self.context.gate.facts()}
        definition = DefinitionOfDone(task_statement=task, current_mode=str(mode), mode_history=[str(mode)])
        events = (RuntimeStateChanged(changes=changes), DefinitionOfDoneUpdated(definition=dump(definition)))
        return TurnOpening(mode=mode, events=events)

    def _mode(self) -> WorkflowMode:
        """Return the mode that the caller or the user has set; execute by default."""
        runtime = self.driver.state.runtime
        if self.context.config.workflow_mode is None and self.driver.state.asked_to_plan:
            return WorkflowMode.PLAN
        asked = runtime.get("workflow_decision_kind") == DecisionKind.REQUESTED
        return mode_of(self.context.config.workflow_mode or (runtime.get("workflow_mode") if asked else None))

    def system_prompt(self) -> SystemPrompt:
        at = self.driver.state.last_seq
        if self._prompt is None or self._prompt[0] != at:
            self._prompt = (at, session_prompt(self.driver, self.context))
        return self._prompt[1]

    def environment(self) -> tuple[EnvironmentFact, ...]:
        return (plan_mode_fact(mode_of(self.driver.state.runtime.get("workflow_mode"))),)

    def note_call(self, call: ToolCall, outcome: ToolOutcome, status: str) -> tuple[Event, ...]:
        return ()

    def after_tools(self, record: TurnRecord) -> PolicyVerdict | None:
        """Tell a model that repeats itself; if it goes on, let the user decide, and without a user stop the turn."""
        loop = loop_in(record)
        if loop is None:
            return None
        if not loop.was_told:
            return self._verdict(CONTINUE, LOOP_TOLD, loop.summary, EntryKind.COMPLETION_CONTINUE, loop.message)
        stopped = self._verdict("finalize", LOOP_STOPPED, loop.summary, EntryKind.COMPLETION_FINALIZE)
        return msgspec.structs.replace(stopped, reason=loop.summary, question=loop.question)

    def judge_reply(self, parts: tuple[Part, ...], record: TurnRecord) -> PolicyVerdict:
        """End the turn, unless the reply is empty for the first time since a call or ends with tool calls written as
        text."""
        text = text_of(parts)
        if not text.strip():
            return self._empty(record)
        written = written_calls(parts, record, self.driver, self.context)
        if written is not None:
            return PolicyVerdict(
                outcome=CALL,
                code=RECOVERED,
                summary="the reply asks for a tool call",
                events=switch_after_calls(record, self.driver, self.context),
                parts=with_calls(parts, written),
            )
        return self._over()

    def next_verification(self, record: TurnRecord) -> ToolCall | PolicyVerdict:
        """End a turn that another policy sent to verification before this one took over: it has its answer."""
        return self._over()

    def _over(self) -> PolicyVerdict:
        return self._verdict("complete", TURN_COMPLETE, "the model has answered", EntryKind.COMPLETION_FINALIZE)

    def _empty(self, record: TurnRecord) -> PolicyVerdict:
        if record.decided_since_call(EMPTY_RETRY):
            summary = "the model's replies were empty"
            stopped = self._verdict("failed", EMPTY_EXHAUSTED, summary, EntryKind.REPAIR_FAIL)
            return msgspec.structs.replace(stopped, reason=summary)
        summary = "asked again because the response was empty"
        return self._verdict(CONTINUE, EMPTY_RETRY, summary, EntryKind.REPAIR_RETRY, EMPTY)

    def _verdict(
        self, outcome: str, code: str, summary: str, kind: EntryKind, nudge: str | None = None
    ) -> PolicyVerdict:
        entry = WorkflowTimelineEntry(
            timestamp=timestamp(self.driver.clock),
            kind=str(kind),
            mode=str(mode_of(self.driver.state.runtime.get("workflow_mode"))),
            reason_code=code,
            summary=f"{COMPLETION_PREFIX}{summary}",
            policy_outcome=outcome,
        )
        changes = {"last_completion_decision_code": code, "last_completion_decision_summary": summary}
        events = (TimelineRecorded(entry=dump(entry)), RuntimeStateChanged(changes=changes))
        return PolicyVerdict(outcome=outcome, code=code, summary=summary, events=events, nudge=nudge)
