"""The turn loop: runs one turn from the point that the folded state describes to its end.

The folded state is the only memory: each step reads it, does the one next thing, and records that. So the code that
runs a new turn also continues the turn of a dead process; `recovery` only closes the reply that was interrupted.

    TurnStarted > ModelRequested > AssistantReplied > ToolCallStarted > ToolCallFinished > ... >
    CompletionDecided > TurnEnded
"""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from outlast.core.errors import ContextOverflow, ModelError, ToolsUnsupported
from outlast.core.events import (
    AssistantReplied,
    CompletionDecided,
    Delivery,
    EnvironmentDescribed,
    Event,
    InputPromoted,
    MessageAppended,
    RuntimeStateChanged,
    ToolCallFinished,
    TurnEnded,
)
from outlast.core.messages import Part, Role, TextPart, ToolCall, text_of
from outlast.core.state import SessionState
from outlast.core.window import window
from outlast.models.port import Finished, ModelRequest
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.history.boundaries import apply_boundary_requests, compact, compact_if_needed
from outlast.runtime.history.compaction import request_tokens
from outlast.runtime.prompt.environment import EnvironmentFact
from outlast.runtime.prompt.system_prompt import REACT
from outlast.runtime.turn import loop_guard
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.environment_message import environment_event, told_facts, turn_facts
from outlast.runtime.turn.length_limit import cut_off_verdict, joined_parts, own_parts
from outlast.runtime.turn.model_call import ModelCaller
from outlast.runtime.turn.phases import Phase, PhaseEnd, Phases
from outlast.runtime.turn.policy import CONTINUE, FINAL, VERIFY, PolicyVerdict
from outlast.runtime.turn.project_facts import ProjectFacts
from outlast.runtime.turn.recovery import takeover_wait
from outlast.runtime.turn.subagents import RunSubAgent
from outlast.runtime.turn.text_tool_calls import messages_as_text
from outlast.runtime.turn.tool_calls import ToolExecutor
from outlast.runtime.turn.turn_start import prompt_events
from outlast.runtime.turn.turn_stats import TurnRecord

LARGE_REQUEST = 250_000
"""Tokens of a request whose digest is made in a thread."""

COMPLETED, STOPPED, FAILED, BUDGET, INTERRUPTED = "completed", "stopped", "failed", "budget_exhausted", "interrupted"
LAST_ANSWER = "last_answer"
"""Code of the decision to ask a turn that has used up its budget for its answer, and runtime value: the seq of the turn
that was asked so."""


class Turn:
    """The running turn of a driver."""

    def __init__(self, driver: Driver, context: TurnContext, run_sub_agent: RunSubAgent) -> None:
        assert context.model is not None
        self.driver = driver
        self.context = context
        self.model = context.model
        self.policy = context.policy(driver, context)
        self.calls = ToolExecutor(driver, context, self.policy.note_call, run_sub_agent)
        self.attempts = ModelCaller(driver, context)
        self.project = ProjectFacts(driver, context)
        self.phases = Phases.resume(driver.state.runtime.get("active_turn_phase"))
        self.error: ModelError | None = None
        self.answer = ""
        self._overflowed = False

    @property
    def state(self) -> SessionState:
        return self.driver.state

    async def run(self) -> None:
        """Run steps until the turn has ended. A `ModelError` ends the turn as failed and is kept in `error`."""
        await self._wait_after_deaths()
        while self.state.turn is not None:
            await self._step()

    async def _wait_after_deaths(self) -> None:
        """Wait as `recovery` says, if drivers of this turn have died; a stop of the turn ends the wait at once."""
        wait = takeover_wait(self.state.turn, self.driver.clock.now_us())
        if wait is None:
            return
        observer = self.context.observer
        async with observer.waiting_for_person():
            observer.model_waits(wait)
            await self.driver.clock.sleep(wait.seconds)
        observer.model_waits(None)

    async def _step(self) -> None:
        turn = self.state.turn
        assert turn is not None
        if self.state.open_calls or loop_guard.is_asking(self.state):
            await self._use_tools()
        elif turn.decided in FINAL and not self._steering():
            await self._end(STOPPED if turn.decided in {"finalize", "failed"} else COMPLETED, turn.code)
        elif turn.decided == VERIFY:
            await self._verify()
        elif (spent := self.context.budgets.used_up(turn, self.driver.clock.now_us())) is not None:
            await self._budget_spent(spent)
        elif not await apply_boundary_requests(self.driver, self.context):
            await self._ask_model()

    # --- budgets

    async def _budget_spent(self, spent: str) -> None:
        """Ask once more, for an answer without tools, if there is time for it; else end the turn."""
        turn = self.state.turn
        assert turn is not None
        if self.context.budgets.last_words(turn, self.driver.clock.now_us()) is None:
            await self._end_by_budget(spent)
        elif self._asked_for_last_answer:  # before a crash, or before the request was too long
            await self._ask_model(last=True)
        else:
            decided = CompletionDecided(outcome=CONTINUE, code=LAST_ANSWER, summary=spent)
            await self._ask_model(decided, RuntimeStateChanged(changes={LAST_ANSWER: turn.seq}), last=True)

    @property
    def _asked_for_last_answer(self) -> bool:
        turn = self.state.turn
        return turn is not None and self.state.runtime.get(LAST_ANSWER) == turn.seq

    async def _end_by_budget(self, spent: str, *first: Event) -> None:
        self.phases.enter(Phase.FINALIZE, "budget_exhausted", spent, PhaseEnd.TERMINAL)
        await self._end(BUDGET, spent, *first)

    async def _last_answer(self, replied: AssistantReplied) -> None:
        """End the turn with this reply. Calls in it are answered and not carried out."""
        turn = self.state.turn
        assert turn is not None
        spent = self.context.budgets.used_up(turn, self.driver.clock.now_us()) or "the budget of the turn is used up"
        calls = [part for part in replied.parts if isinstance(part, ToolCall)]
        text = (TextPart("Not executed: no steps are left."),)
        refused = [
            ToolCallFinished(call_id=call.id, name=call.name, parts=text, status="cancelled", is_error=True)
            for call in calls
        ]
        self.answer = text_of(replied.parts)
        await self._end_by_budget(spent, replied, *refused)

    def _budget_facts(self) -> tuple[EnvironmentFact, ...]:
        """Return what the next request tells about the turn's budget; each text is told once a turn."""
        turn, budgets = self.state.turn, self.context.budgets
        assert turn is not None
        told = {
            f"last answer {turn.seq}": budgets.last_words(turn, self.driver.clock.now_us()),
            f"budget {turn.seq}": budgets.reminder(turn),
        }
        return tuple(EnvironmentFact(name=name, text=text, once=True) for name, text in told.items() if text)

    # --- the model

    async def _ask_model(self, *first: Event, last: bool = False) -> None:
        if not last:
            await self._read_steering()
        told = await self._environment()
        request = await self._request(told)
        if await compact_if_needed(self.driver, self.context, request):
            told = await self._environment()
            request = await self._request(told)
        if last:
            request = msgspec.structs.replace(request, answer_only=True)
        if self.phases.now is not Phase.ASSISTANT:
            self.phases.enter(Phase.ASSISTANT, "request_assistant_response", "Asking the model")
        estimate = request_tokens(request.messages, request.system, request.tools)
        is_large = estimate > LARGE_REQUEST  # its digest would delay everything else in this process
        digest = await asyncio.to_thread(_digest, request) if is_large else _digest(request)
        opened = self.attempts.requested(request, digest, estimate)
        prompt = self.policy.system_prompt()
        prompted = prompt_events(self.driver, self.context, prompt)
        described = () if told is None else (told,)
        await self.attempts.load()
        company = self.driver.driven.news(self.state)
        await self.driver.write(*first, *self._moved(), *prompted, *described, *company, opened)
        try:
            finished = await self.attempts.reply(request)
        except ContextOverflow as error:
            await self._overflow(error)
        except ToolsUnsupported as error:
            if self.policy.system_prompt().format == prompt.format:
                await self._failed(error)  # else the attempt switched to the text dialect: the next step asks in it
        except ModelError as error:
            await self._failed(error)
        else:
            await self._replied(finished)

    async def _environment(self) -> EnvironmentDescribed | None:
        """Return what the next request tells about the environment, None if nothing is new."""
        rows = await self.driver.rows()
        told = told_facts(rows, self.state)
        facts = turn_facts(self.driver, self.context, (*self.policy.environment(), *self._budget_facts()))
        return environment_event([*facts, *await self.project.facts(rows, told)], told)

    async def _request(self, told: EnvironmentDescribed | None) -> ModelRequest:
        environment = told.text if told is not None else None
        rows, provider = await self.driver.rows(), self.model.provider
        seen = window(rows, self.state, provider=provider, asking=True, environment=environment)
        prompt = self.policy.system_prompt()
        tools = self.context.tools.specs() if self.model.abilities.tools and prompt.format == "native" else ()
        return ModelRequest(
            system=prompt.text,
            messages=messages_as_text(seen.messages) if prompt.format == REACT else seen.messages,
            tools=tools,
            max_output_tokens=self.context.config.max_output_tokens,
            effort=self.context.config.reasoning.effort,
            replies=self.state.usage.replies,
            session_id=self.driver.session_id,
        )

    async def _read_steering(self) -> None:
        """Promote waiting steering inputs, so that the next model request includes them."""
        waiting = self._steering()
        if waiting:
            await self.driver.write(InputPromoted(inputs=waiting))

    def _steering(self) -> list[int]:
        """Return the steering inputs that no turn has read yet."""
        unread = (item for item in self.state.inbox.inputs if not item.promoted)
        return [item.seq for item in unread if item.delivery is Delivery.STEER]

    async def _overflow(self, error: ContextOverflow) -> None:
        """The provider counted more tokens than the estimate: compact once for a reply, then fail the turn."""
        if self._overflowed or not await compact(self.driver, self.context, reason="overflow"):
            await self._failed(error)
        self._overflowed = True

    async def _failed(self, error: ModelError) -> None:
        self.error = error
        self.phases.enter(Phase.FINALIZE, "model_failed", str(error), PhaseEnd.TERMINAL)
        await self._end(FAILED, str(error))

    async def _replied(self, finished: Finished) -> None:
        assert self.state.attempt is not None
        self._overflowed = False
        name = finished.model or self.model.name
        usage = finished.usage
        if usage.cost_micros is None and self.context.price is not None:
            # Loading the price table takes a second; the event loop must stay free to renew the lease.
            cost = await asyncio.to_thread(self.context.price, self.model.name, usage)
            usage = msgspec.structs.replace(usage, cost_micros=cost)
        parts = _own_ids(finished.parts, self.state.last_seq)
        replied = AssistantReplied(
            attempt_seq=self.state.attempt,
            parts=parts,
            usage=usage,
            model=name,
            finish_reason=finished.finish_reason,
        )
        if self._asked_for_last_answer:
            await self._last_answer(replied)
            return
        if any(isinstance(part, ToolCall) for part in parts):
            await self.driver.write(replied)
            reach("reply.recorded")
            return
        record = await self._record()
        joined = joined_parts(parts, record)
        judged = cut_off_verdict(finished, joined, record, self.driver, self.context)
        judged = judged or self.policy.judge_reply(joined, record)
        if judged.parts is not None:  # a tool call that was written as text
            self.phases.enter(Phase.REPAIR, "repair_raw_text_tool_fallback", judged.summary, PhaseEnd.RETRY)
            replied = msgspec.structs.replace(replied, parts=own_parts(judged.parts, record))
        else:
            self.phases.enter(Phase.COMPLETION, "completion_gate", "Checking whether the turn is complete")
        self.answer = text_of(replied.parts) if judged.parts is not None else text_of(joined)
        await self._decided(judged, replied)

    async def _record(self) -> TurnRecord:
        turn = self.state.turn
        return TurnRecord(await self.driver.rows(), turn.seq if turn is not None else 0)

    # --- tools

    async def _use_tools(self) -> None:
        if self.phases.now in {Phase.ASSISTANT, Phase.REPAIR}:
            self.phases.enter(Phase.TOOLS, "execute_tool_batch", "Carrying out tool calls")
        await self.calls.carry_out()
        judged = self.policy.after_tools(await self._record())
        if judged is None and loop_guard.is_asking(self.state):
            judged = loop_guard.NO_LOOP
        if judged is not None and judged.question is not None:
            judged = await loop_guard.user_verdict(self.driver, self.context, judged)
        if judged is not None:
            await self._decided(judged)

    async def _verify(self) -> None:
        """Run the next check of the policy; once every check has run, record the policy's verdict."""
        due = self.policy.next_verification(await self._record())
        if isinstance(due, ToolCall):
            reach("verification.started")
            await self.calls.verify(due)
            reach("verification.done")
            return
        if self.phases.now is not Phase.COMPLETION:
            self.phases = Phases(Phase.COMPLETION)
        await self._decided(due)

    # --- decisions and the end

    async def _decided(self, judged: PolicyVerdict, *first: Event) -> None:
        """Record a decision. A decision that ends the turn is in the same commit as `TurnEnded`."""
        decided = CompletionDecided(
            outcome=judged.outcome, code=judged.code, summary=judged.summary, facts=judged.facts
        )
        events: list[Event] = [*first, decided, *judged.events]
        if judged.outcome in FINAL and not self._steering():
            outcome = STOPPED if judged.outcome in {"finalize", "failed"} else COMPLETED
            self.phases.enter(Phase.FINALIZE, "turn_complete", "Finalizing completed turn", PhaseEnd.TERMINAL)
            await self._end(outcome, judged.reason or judged.code, *events, note=judged.note)
        else:
            if judged.nudge:
                events.append(MessageAppended(role=Role.SYSTEM, parts=(TextPart(judged.nudge),)))
            if judged.outcome == CONTINUE:
                self.phases.enter(Phase.ASSISTANT, judged.code, judged.summary, PhaseEnd.REROUTE)
            await self.driver.write(*events, *self._moved())
        reach("decision.made")

    async def _end(self, outcome: str, reason: str | None, *first: Event, note: str | None = None) -> None:
        turn = self.state.turn
        assert turn is not None
        if self.phases.now is not Phase.FINALIZE:
            self.phases = Phases(Phase.COMPLETION)
            self.phases.enter(Phase.FINALIZE, "turn_complete", "Finalizing completed turn", PhaseEnd.TERMINAL)
        facts = {"note": note} if note else {}
        self.answer = self.answer or (await self._record()).last_answer
        ended = TurnEnded(outcome=outcome, reason=reason, answered=list(turn.inputs), facts=facts)
        others = [seq for seq in self.state.unanswered if seq not in turn.inputs]
        told = RuntimeStateChanged(changes={"last_turn": {"outcome": outcome, "reason": reason}})
        await self.driver.write(*first, *self._moved(), told, ended, release=not others)
        reach("turn.ended")

    def _moved(self) -> tuple[Event, ...]:
        """Return the newest phase change as an event, if it is not recorded yet."""
        changes = self.phases.changes()
        known = self.state.runtime
        if not changes or all(known.get(name) == value for name, value in changes.items()):
            return ()
        return (RuntimeStateChanged(changes=changes),)


def _digest(request: ModelRequest) -> str:
    """Return a digest of exactly what the model sees: system prompt, messages and tools."""
    said = [(message.role, message.parts) for message in request.messages]
    return hashlib.sha256(msgspec.json.encode([request.system, said, request.tools])).hexdigest()


def _own_ids(parts: tuple[Part, ...], after: int) -> tuple[Part, ...]:
    """Give every call an id that is unique in this reply; a replaced id is kept as `provider_id`."""
    used: set[str] = set()
    own: list[Part] = []
    for n, part in enumerate(parts):
        if isinstance(part, ToolCall):
            call_id = part.id
            if not call_id or call_id in used:
                call_id = f"{part.id or 'call'}_{after}_{n}"
                part = msgspec.structs.replace(part, id=call_id, provider_id=part.provider_id or part.id or None)
            used.add(call_id)
        own.append(part)
    return tuple(own)
