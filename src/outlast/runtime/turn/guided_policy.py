"""The lanes a task is worked on in: where the pure workflow meets the log.

Everything here looks at the folded state and the turn's own events, asks `outlast.runtime.workflow`, and says which
events follow. It keeps nothing to itself, so after a crash the same questions get the same answers.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from outlast.core.events import (
    DefinitionOfDoneUpdated,
    Event,
    InputAdmitted,
    LedgerUpdated,
    PromptRecorded,
    RuntimeStateChanged,
    TimelineRecorded,
)
from outlast.core.messages import Part, TextPart, ToolCall, text_of
from outlast.core.record_storage import dump, load, read_list
from outlast.core.workflow_mode import WorkflowMode, mode_of
from outlast.core.workflow_records import (
    DefinitionOfDone,
    DoneStatus,
    EvidenceStatus,
    PromptSnapshot,
    WorkflowTimelineEntry,
    is_new,
)
from outlast.runtime.driver import Driver
from outlast.runtime.prompt.system_prompt import PromptInputs, SystemPrompt, snapshot, system_prompt
from outlast.runtime.tools.port import ToolOutcome
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.turn_stats import TurnRecord, totals
from outlast.runtime.workflow import brief as briefs
from outlast.runtime.workflow import clarify, ledger
from outlast.runtime.workflow import plan as plans
from outlast.runtime.workflow.completion import CompletionFacts, decide
from outlast.runtime.workflow.completion_decision import CompletionAction, CompletionDecision
from outlast.runtime.workflow.definition_of_done import begun, entered, next_command, observed, worked
from outlast.runtime.workflow.drift import Reality, Strategy, drift
from outlast.runtime.workflow.handoff import Handoff, after_drift, handed_over, planned
from outlast.runtime.workflow.manifests import project_of
from outlast.runtime.workflow.router import Route, route
from outlast.runtime.workflow.signals import Signals
from outlast.runtime.workflow.text_tool_calls import before_calls
from outlast.runtime.workflow.tool_effect import work_of
from outlast.runtime.workflow.verification import commands_for, evidence_of

VERIFY = "verify-"
SAME_CALLS = 5
LABEL = "[Outlast runtime]"
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
"""Why work goes back, by the code that says so; each at most once a turn."""


class PolicyVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from an answer. `outcome` is accept, complete, finalize or failed when the turn is over, else
    continue, call or verify. `note` goes to the end of the answer, `nudge` to the model; `parts` replace its own."""

    outcome: str
    code: str
    summary: str
    events: tuple[Event, ...] = ()
    nudge: str | None = None
    note: str | None = None
    parts: tuple[Part, ...] | None = None
    facts: dict[str, Any] = {}


class GuidedPolicy:
    """The workflow of one turn."""

    def __init__(self, driver: Driver, context: TurnContext) -> None:
        self.driver = driver
        self.context = context
        self._route: Route | None = None
        self._prompt: tuple[int, SystemPrompt] | None = None

    # --- what the state says

    @property
    def runtime(self) -> dict[str, Any]:
        return self.driver.state.runtime

    @property
    def mode(self) -> WorkflowMode:
        return self._route.mode if self._route is not None else mode_of(self.runtime.get("workflow_mode"))

    @property
    def task(self) -> str:
        return str(self.runtime.get("current_task") or "")

    @property
    def done(self) -> DefinitionOfDone:
        found = self.driver.state.definition_of_done
        return begun(self.task, self.mode) if found is None else load(DefinitionOfDone, found)

    @property
    def timeline(self) -> list[WorkflowTimelineEntry]:
        return read_list(WorkflowTimelineEntry, self.driver.state.timeline)

    @property
    def simple(self) -> bool:
        """A small demo model talks; it is neither routed nor pressed."""
        return self.context.model is not None and self.context.model.abilities.chat_profile

    def _now(self) -> str:
        return datetime.fromtimestamp(self.driver.clock.now_us() / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    # --- the beginning

    async def begun(self, inputs: list[int]) -> tuple[Event, ...]:
        """What is recorded with the start of a turn: task, route, definition of done, policy in force."""
        texts: list[str] = []
        for seq in inputs:
            _, event = await self.driver.event(seq)
            if isinstance(event, InputAdmitted):
                texts.append(text_of(event.parts))
        said = "\n".join(texts)
        brief, answering = briefs.of_runtime(self.runtime), self._answers_clarify()
        task = brief.task if answering and brief is not None else said
        self._route = route(task, self._signals(answering))
        changes: dict[str, Any] = {
            "current_task": task,
            "usage_before_turn": totals(self.driver.state.usage),
            "active_turn_phase": "prepare",
            **self._route.changes(),
            **self.context.gate.facts(),
        }
        if answering and brief is not None:
            changes |= briefs.stored(clarify.answered(brief, clarify.decide(brief)))
        elif not self._planned():
            changes |= {**briefs.stored(None), **plans.stored(None)}
        plan = plans.of_runtime(self.runtime) if self._planned() else None
        definition = begun(task, self._route.mode, brief=brief if answering else None, plan=plan)
        return (
            RuntimeStateChanged(changes=changes),
            TimelineRecorded(entry=dump(self._route.entry(self._now()))),
            DefinitionOfDoneUpdated(definition=dump(definition)),
        )

    def _answers_clarify(self) -> bool:
        """Whether the session waits for the answer to a question of the clarify lane."""
        brief = briefs.of_runtime(self.runtime)
        return brief is not None and mode_of(self.runtime.get("workflow_mode")) is WorkflowMode.CLARIFY

    def _planned(self) -> bool:
        """Whether a plan was made on request and waits to be carried out."""
        return plans.of_runtime(self.runtime) is not None and self.runtime.get("workflow_mode") == WorkflowMode.PLAN

    def _signals(self, answering: bool) -> Signals:
        config, asked, brief = self.context.config, self._requested(), briefs.of_runtime(self.runtime)
        before = self.done
        return Signals(
            requested=WorkflowMode.EXECUTE if self.simple else asked,
            clarify_allowed=config.clarify and not self.simple,
            plan_allowed=config.plan and not self.simple,
            has_brief=answering,
            has_plan=self._planned(),
            open_questions=tuple(brief.open_questions) if answering and brief is not None else (),
            verification_pressure=before.last_verification_result == EvidenceStatus.FAILED,
            mutating_history=before.mutated and before.status != DoneStatus.DONE,
            recent=tuple(self.timeline),
        )

    def _requested(self) -> WorkflowMode | None:
        if self.context.config.workflow_mode is not None:
            return mode_of(self.context.config.workflow_mode)
        if self.runtime.get("workflow_decision_kind") == "requested" and self.driver.state.usage.turns == 0:
            return mode_of(self.runtime.get("workflow_mode"))
        return None

    # --- prompts

    def prompt(self) -> SystemPrompt:
        """The system prompt as of now; the same until something is written."""
        at = self.driver.state.last_seq
        if self._prompt is None or self._prompt[0] != at:
            self._prompt = (at, self._prompted())
        return self._prompt[1]

    def _prompted(self) -> SystemPrompt:
        context = self.context
        assert context.model is not None
        return system_prompt(
            PromptInputs(
                mode=self.mode,
                permission_mode=context.gate.mode,
                project=str(context.project),
                extra_roots=tuple(str(root) for root in context.roots[1:]),
                platform=context.platform,
                date=self._now()[:10],
                tools=context.tools.specs(),
                native_tools=context.model.abilities.tools and context.config.prompt_format != "react",
                chat_profile=self.simple,
                prompting=context.prompting,
                brief=briefs.of_runtime(self.runtime),
                plan=plans.of_runtime(self.runtime),
                ledger=load(ledger.WorkflowLedger, self.driver.state.ledger),
                project_notes=context.notes,
                memory=context.memory,
                persona=context.persona,
            )
        )

    def prompted(self) -> tuple[Event, ...]:
        """The prompt as a record, unless it is the one that was recorded last."""
        prompt = self.prompt()
        taken = snapshot(
            prompt,
            timestamp=self._now(),
            workflow_mode=self.mode,
            permission_mode=self.context.gate.mode,
            current_task=self.task,
        )
        known = read_list(PromptSnapshot, self.driver.state.prompts[-1:])
        if not is_new(taken, known[0] if known else None):
            return ()
        changes = {"prompt_format": prompt.format, "prompt_sections": list(prompt.sections)}
        return (PromptRecorded(snapshot=dump(taken)), RuntimeStateChanged(changes=changes))

    # --- tools

    def noted(self, call: ToolCall, outcome: ToolOutcome, status: str) -> tuple[Event, ...]:
        """What a finished call means for the definition of done; written together with its result."""
        if call.id.startswith(VERIFY):
            ran = status in {"executed", "failed"}
            code = outcome.facts.get("exit_code")
            shown = evidence_of(
                str(call.arguments.get("command", "")),
                exit_code=code if isinstance(code, int) else None,
                stdout=outcome.text,
                ran=ran,
            )
            return (DefinitionOfDoneUpdated(definition=dump(observed(self.done, shown))),)
        work = work_of(
            call.name,
            call.arguments,
            is_error=outcome.is_error,
            project=str(self.context.project),
            facts=outcome.facts,
        )
        after = worked(self.done, work)
        return () if after == self.done else (DefinitionOfDoneUpdated(definition=dump(after)),)

    def judged_tools(self, record: TurnRecord) -> PolicyVerdict | None:
        """A model that makes the very same call over and over, without getting anywhere, is stopped."""
        if record.repeated_calls < SAME_CALLS:
            return None
        return self._judged(decide(self._facts("", record, halted=True)))

    def next_verification(self) -> ToolCall | None:
        """The next verification command as a call of its own; None when all of this attempt have run."""
        command = next_command(self.done)
        if command is None:
            return None
        done = self.done
        number = done.verification_commands.index(command) + 1
        name = f"{VERIFY}{done.active_verification_attempt_number}-{number}-{self.driver.state.usage.turns}"
        return ToolCall(id=name, name="bash", arguments={"command": command})

    # --- answers

    def judged_reply(self, parts: tuple[Part, ...], record: TurnRecord) -> PolicyVerdict:
        """What follows from an answer without tool calls."""
        text = text_of(tuple(parts))
        if self.mode is WorkflowMode.CLARIFY and text.strip():
            return self._clarified(text)
        if self.mode is WorkflowMode.PLAN and text.strip():
            return self._planned_now(text, record)
        moved, noted = self._drifted(record)
        if moved is not None:
            return moved
        judged = self._judged(decide(self._facts(text, record)), parts)
        return msgspec.structs.replace(judged, events=(*noted, *judged.events)) if noted else judged

    def judged_verification(self, record: TurnRecord) -> PolicyVerdict:
        return self._judged(decide(self._facts(record.last_answer, record)))

    def _facts(self, answer: str, record: TurnRecord, *, halted: bool = False) -> CompletionFacts:
        config = self.context.config.reasoning
        tools = () if self.simple else tuple(spec.name for spec in self.context.tools.specs())
        done = self.done
        commands: tuple[str, ...] = ()
        if done.mutated and config.verification:
            commands = commands_for(done, project_of(self.context.project, done.touched_files, python="python3"))
        return CompletionFacts(
            task=self.task,
            answer=answer,
            done=done,
            mode=self.mode,
            commands=commands,
            earlier=record.answers,
            performed=record.performed,
            nudges=record.count("premature_completion_nudge", "pending_items_continue"),
            empty_retries=record.count("empty_response_retry"),
            raw_recoveries=record.count("raw_text_tool_recovered"),
            tools=tools,
            id_prefix=f"text-{self.driver.state.last_seq}-",
            declined=record.declined,
            halted=halted,
            completion_check=config.completion_check,
            verification=config.verification,
            chat_profile=self.simple,
        )

    def _judged(self, made: CompletionDecision, parts: tuple[Part, ...] = ()) -> PolicyVerdict:
        outcome = {
            CompletionAction.ASK: "continue",
            CompletionAction.VERIFY: "verify",
            CompletionAction.CALL: "call",
        }.get(made.action, str(made.outcome))
        events: list[Event] = [TimelineRecorded(entry=dump(entry)) for entry in made.entries(self._now(), self.mode)]
        events.append(RuntimeStateChanged(changes=made.changes()))
        if made.done != self.done:
            events.append(DefinitionOfDoneUpdated(definition=dump(made.done)))
        said: tuple[Part, ...] | None = None
        if made.calls:
            kept = tuple(part for part in parts if not hasattr(part, "text"))
            before = before_calls(text_of(parts))
            said = (*_text(before), *kept, *made.calls)
        return PolicyVerdict(
            outcome=outcome,
            code=made.code,
            summary=made.summary,
            events=tuple(events),
            nudge=made.nudge,
            note=made.suffix or None,
            parts=said,
            facts={"stage": str(made.stage), "evidence": list(made.evidence)},
        )

    # --- clarify and plan

    def _clarified(self, text: str) -> PolicyVerdict:
        """The answer of the clarify lane: a brief, and the next question unless everything is known."""
        before = briefs.of_runtime(self.runtime)
        brief = briefs.parsed(text, self.task, before)
        made = clarify.decide(brief)
        then = mode_of(self.runtime.get("workflow_scheduled_next_mode"))
        then = then if then is WorkflowMode.PLAN else WorkflowMode.EXECUTE
        entry = TimelineRecorded(entry=dump(made.entry(self._now(), then)))
        known = load(ledger.WorkflowLedger, self.driver.state.ledger)
        noted = ledger.introduced(
            known,
            "clarify",
            assumptions=brief.assumptions,
            acceptance_anchors=brief.acceptance_criteria,
            decision_boundaries=brief.decision_boundaries,
        )
        stored: list[Event] = [entry, LedgerUpdated(ledger=dump(noted))]
        if not made.leaves:
            stored.append(RuntimeStateChanged(changes=briefs.stored(brief)))
            asked = "" if made.question is None or made.question in text else f"\n\n{made.question}"
            return PolicyVerdict(
                outcome="accept", code=made.code, summary=made.summary, events=tuple(stored), note=asked or None
            )
        moved = handed_over(then, made.code, made.summary)
        stored += [
            RuntimeStateChanged(changes={**briefs.stored(brief), **moved.changes()}),
            *self._entered(moved, begun(self.task, then, brief=brief)),
        ]
        return PolicyVerdict(
            outcome="continue", code=made.code, summary=made.summary, events=tuple(stored), nudge=GO_ON
        )

    def _planned_now(self, text: str, record: TurnRecord) -> PolicyVerdict:
        """The answer of the plan lane. A plan that was asked for is the answer; any other is carried out at once."""
        plan = plans.parsed(text, self.task, plans.of_runtime(self.runtime))
        brief = briefs.of_runtime(self.runtime)
        known = load(ledger.WorkflowLedger, self.driver.state.ledger)
        noted = ledger.introduced(known, "plan", acceptance_anchors=plan.acceptance_criteria)
        stored: list[Event] = [LedgerUpdated(ledger=dump(noted))]
        if self._requested() is WorkflowMode.PLAN:
            stored.append(RuntimeStateChanged(changes=plans.stored(plan)))
            summary = "the plan is ready and waits for the word to carry it out"
            return PolicyVerdict(outcome="accept", code="plan_ready", summary=summary, events=tuple(stored))
        again = next((strategy for code, strategy in AGAIN.items() if record.count(code)), None)
        moved = (
            planned(again)
            if again is not None
            else handed_over(
                WorkflowMode.EXECUTE,
                "plan_recorded",
                "the plan is recorded; now it is carried out",
                WorkflowMode.VERIFY,
            )
        )
        stored += [
            RuntimeStateChanged(changes={**plans.stored(plan), **moved.changes()}),
            TimelineRecorded(entry=dump(moved.entry(self._now()))),
            *self._entered(moved, begun(self.task, WorkflowMode.EXECUTE, brief=brief, plan=plan)),
        ]
        return PolicyVerdict(
            outcome="continue", code=moved.reason_code, summary=moved.summary, events=tuple(stored), nudge=CARRY_OUT
        )

    def _drifted(self, record: TurnRecord) -> tuple[PolicyVerdict | None, tuple[Event, ...]]:
        """Once a turn: work that has left its plan or brief goes back to them before it may be complete. Where nobody
        can be asked and the work may go on as it is, that is only noted: the events come second."""
        done, brief, plan = self.done, briefs.of_runtime(self.runtime), plans.of_runtime(self.runtime)
        if record.count(*AGAIN) or (brief is None and plan is None):
            return None, ()
        reality = Reality(
            task=self.task,
            touched_files=done.touched_files,
            acceptance_criteria=done.acceptance_criteria,
            failed_commands=done.failed_commands,
        )
        found = drift(reality, brief, plan)
        rerouted = route(self.task, self._signals(False))
        moved = after_drift(found, clarify_allowed=self.context.config.clarify and not self.simple, route=rerouted)
        if moved is None:
            return None, ()
        known = load(ledger.WorkflowLedger, self.driver.state.ledger)
        events: tuple[Event, ...] = (
            TimelineRecorded(entry=dump(moved.entry(self._now()))),
            RuntimeStateChanged(changes=moved.changes()),
            LedgerUpdated(ledger=dump(ledger.drifted(known, found.evidence, "recovery"))),
            *self._entered(moved, done),
        )
        if moved.mode not in NUDGES:
            known_codes = {entry.reason_code for entry in self.timeline[-6:]}
            return None, () if moved.reason_code in known_codes else events
        nudge = NUDGES[moved.mode].format(why=found.summary)
        return PolicyVerdict(
            outcome="continue", code=moved.reason_code, summary=moved.summary, events=events, nudge=nudge
        ), ()

    def _entered(self, moved: Handoff, done: DefinitionOfDone) -> tuple[Event, ...]:
        now = self.done
        kept = msgspec.structs.replace(
            done,
            touched_files=now.touched_files,
            mutating_actions=now.mutating_actions,
            line_changes=now.line_changes,
            task_size=now.task_size,
            mode_history=now.mode_history,
            current_mode=now.current_mode,
        )
        return (DefinitionOfDoneUpdated(definition=dump(entered(kept, moved.mode))),)

    # --- the end

    def closing(self, outcome: str, reason: str | None) -> tuple[Event, ...]:
        """What is recorded with the end of a turn, for whoever asks what the last one came to."""
        return (RuntimeStateChanged(changes={"last_turn": {"outcome": outcome, "reason": reason}}),)


def _text(text: str) -> tuple[Part, ...]:
    return (TextPart(text),) if text else ()
