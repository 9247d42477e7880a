"""Execution of tool calls: permission, record, effect, record.

`ToolCallStarted` is durable before the effect and `ToolCallFinished` after it. A call that is malformed, unknown,
invalid for its schema or not permitted is answered and never executed. After a crash, each open call is resumed by its
effect class: reads run again; verifiable writes are compared with their target, only in the folder where they started;
everything else is answered "outcome unknown" and never runs again by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from outlast.core.errors import OutlastError, StaleLease
from outlast.core.events import (
    AssistantReplied,
    EffectClass,
    Event,
    RuntimeStateChanged,
    ToolCallFinished,
    ToolCallStarted,
    ToolProcessSpawned,
)
from outlast.core.messages import TextPart, ToolCall
from outlast.core.repair import OUTCOME_UNKNOWN
from outlast.core.state import OpenCall
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.permissions.decision import Decision, Verdict
from outlast.runtime.permissions.evaluate import call_digest
from outlast.runtime.prompt.nested_memory import memory_change
from outlast.runtime.session_recall import SessionRecall
from outlast.runtime.tools.files.atomic_write import now, settled
from outlast.runtime.tools.files.sandboxed_path import locate
from outlast.runtime.tools.port import Spawned, Target, Tool, ToolContext, ToolFault, ToolOutcome
from outlast.runtime.turn import approvals
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.subagents import RunSubAgent, delegated
from outlast.runtime.turn.tool_context import tool_context, whereabouts
from outlast.runtime.turn.whole_output import stored_facts

RESUMABLE = frozenset({"task", "ask_user"})

Done = tuple[ToolCall, ToolOutcome, str]
Noted = Callable[[ToolCall, ToolOutcome, str], tuple[Event, ...]]
"""Returns the events to record together with the result of a call."""


class ToolExecutor:
    """Executes the tool calls of one turn."""

    def __init__(self, driver: Driver, context: TurnContext, noted: Noted, run_sub_agent: RunSubAgent) -> None:
        self.driver = driver
        self.context = context
        self.finished: list[Done] = []
        self._noted = noted
        self._run_sub_agent = run_sub_agent
        self._here = whereabouts(context.project)

    async def carry_out(self) -> None:
        """Answer every open call of the newest reply, in order."""
        for call in list(self.driver.state.open_calls):
            await self._one(call)

    async def verify(self, call: ToolCall) -> None:
        """Run a verification command, which no reply requested. Same permissions and records; effect class N."""
        await self._run_if_permitted(call)

    async def _one(self, call: OpenCall) -> None:
        asked = await self._asked(call)
        if call.started_seq:
            await self._resume(call, asked)
        elif asked.raw is not None:
            await self._answer(
                asked, "malformed", f"Not executed: its arguments are not complete, valid JSON: {asked.raw[:200]}"
            )
        else:
            await self._run_if_permitted(asked)

    async def _asked(self, call: OpenCall) -> ToolCall:
        """Return the call as the model requested it, or as it was started if no reply requested it."""
        _, event = await self.driver.event(call.requested_seq or call.started_seq)
        if isinstance(event, AssistantReplied):
            for part in event.parts:
                if isinstance(part, ToolCall) and part.id == call.call_id:
                    return part
        arguments = event.arguments if isinstance(event, ToolCallStarted) else call.arguments or {}
        return ToolCall(id=call.call_id, name=call.name, arguments=arguments)

    async def _run_if_permitted(self, call: ToolCall) -> None:
        tool = self.context.tools.get(call.name)
        if tool is None:
            names = ", ".join(sorted(spec.name for spec in self.context.tools.specs()))
            await self._answer(
                call, "unknown_tool", f"Not executed: there is no tool '{call.name}'. There are: {names}."
            )
            return
        fault = self.context.tools.fault(call.name, call.arguments)
        if fault is not None:
            await self._answer(call, "invalid_arguments", f"Not executed: {fault}")
            return
        approval = await self._permitted(call)
        if approval is not None:
            await self._start(call, tool, *approval)

    # --- permission

    async def _permitted(self, call: ToolCall) -> tuple[int | None, tuple[Event, ...]] | None:
        """Return the seq of the call's approval and the events to write with its start; None if it was refused and
        answered."""
        digest = call_digest(call.name, call.arguments)
        decision = self.context.gate.judge(call, self.driver.state, await self.context.hooks.before(call))
        reach("call.decided")
        if decision.verdict is Verdict.DENY:
            await self._answer(call, "blocked", f"Not executed: {decision.reason}", decision)
            return None
        if decision.verdict is Verdict.ALLOW:
            return None, ()
        mode = self.context.gate.mode
        if not self.context.prompting and approvals.existing_answer(self.driver.state, call.id, digest, mode) is None:
            await self._answer(call, "declined", f"Not executed: {decision.reason}; nobody can be asked here", decision)
            return None
        seq, answer = await approvals.ask_and_wait(
            self.driver,
            self.context.answerer,
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            digest=digest,
            reason=decision.reason,
            mode=mode,
            aside=self.context.observer.waiting_for_person,
        )
        if answer not in {"once", "session", "always"}:
            await self._answer(call, "declined", "Not executed: the user declined this call.", decision)
            return None
        return seq, self._remembered(call, answer)

    def _remembered(self, call: ToolCall, answer: str) -> tuple[Event, ...]:
        if answer == "always":
            self.context.gate.always(call)
        if answer == "once":
            return ()
        grants = [*self.driver.state.runtime.get("grants", []), self.context.gate.grant(call)]
        return (RuntimeStateChanged(changes={"grants": grants[-64:]}),)

    # --- effect

    async def _start(self, call: ToolCall, tool: Tool, approval: int | None, also: tuple[Event, ...]) -> None:
        context = self._context(call)
        try:
            target = await tool.target(call.arguments, context)
        except ToolFault as fault:
            await self._finish(call, ToolOutcome(text=str(fault), is_error=True), "failed")
            return
        started = ToolCallStarted(
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            effect=tool.effect,
            approval_seq=approval,
            target_digest_before=target.digest_before if target else None,
            target_digest_after=target.digest_after if target else None,
            facts=self._facts(tool, target),
        )
        await self.driver.write(*also, started)
        reach("call.started")
        expected = target.digest_before if target else None
        await self._effect(call, tool, msgspec.structs.replace(context, expected=expected))

    def _facts(self, tool: Tool, target: Target | None) -> dict[str, Any]:
        """Return the data to undo the call, and the folder where it runs; a read needs no folder."""
        undo: dict[str, Any] = {"path": target.path, "before": target.before} if target else {}
        return undo if tool.effect is EffectClass.READ else {**undo, "place": self._here}

    async def _effect(self, call: ToolCall, tool: Tool, context: ToolContext) -> None:
        self.driver.fresh()
        status = "executed"
        try:
            outcome = await tool.run(call.arguments, context)
        except ToolFault as fault:
            outcome, status = ToolOutcome(text=str(fault), is_error=True), "failed"
        except StaleLease:
            raise
        except (OutlastError, OSError) as error:
            outcome, status = ToolOutcome(text=f"{call.name} failed: {error}", is_error=True), "failed"
        reach("effect.done")
        note = await self.context.hooks.after(call, outcome)
        await self._finish(call, outcome, "failed" if outcome.is_error else status, note)

    def _context(self, call: ToolCall) -> ToolContext:
        async def spawned(process: Spawned) -> None:
            await self.driver.write(
                ToolProcessSpawned(call_id=call.id, pid=process.pid, started=process.started, host=process.host)
            )
            reach("process.spawned")

        async def ask(question: str, choices: list[str]) -> str:
            if not self.context.prompting and self.context.answerer is None:
                raise ToolFault("nobody is here to answer; decide yourself and say what you assumed")
            arguments = {"question": question, "choices": choices}
            digest = call_digest(call.name, arguments)
            _, answer = await approvals.ask_and_wait(
                self.driver,
                self.context.answerer,
                call_id=call.id,
                name=call.name,
                arguments=arguments,
                digest=digest,
                reason=question,
                aside=self.context.observer.waiting_for_person,
            )
            return answer

        async def delegate(prompt: str, persona: str | None) -> ToolOutcome:
            return await delegated(self.driver, self.context, self._run_sub_agent, call.id, prompt, persona)

        async def recall(query: str | None, seq: int | None, offset: int) -> ToolOutcome:
            session = SessionRecall(self.driver.store, self.driver.session_id, self.driver.state)
            return await asyncio.to_thread(session.answer, query, seq, offset)

        context = tool_context(self.context, self.driver.session_id, call.id, self.driver.state.runtime)
        return msgspec.structs.replace(context, spawned=spawned, ask=ask, delegate=delegate, recall=recall)

    # --- after a crash

    async def _resume(self, call: OpenCall, asked: ToolCall) -> None:
        tool = self.context.tools.get(call.name)
        if tool is not None and call.name in RESUMABLE:
            await self._effect(asked, tool, self._context(asked))
        elif tool is not None and call.effect is EffectClass.READ:
            await self._again(asked, tool, None)
        elif tool is not None and call.effect is EffectClass.VERIFIABLE and await self._was_here(call):
            await self._compared(call, asked, tool)
        else:
            await self._answer(asked, "unknown", OUTCOME_UNKNOWN)

    async def _was_here(self, call: OpenCall) -> bool:
        """Whether the call was started in this folder: the files of another folder or machine cannot be checked."""
        _, event = await self.driver.event(call.started_seq)
        return isinstance(event, ToolCallStarted) and event.facts.get("place", self._here) == self._here

    async def _compared(self, call: OpenCall, asked: ToolCall, tool: Tool) -> None:
        """Resume a verifiable write: the current content of its target shows whether the write happened."""
        found = await self._digest_now(call, asked)
        if found is not None and found == call.digest_after:
            text = f"Done: {call.name} had been carried out before the interruption."
            await self._finish(asked, ToolOutcome(text=text), "recovered")
        elif found is not None and found == call.digest_before:
            await self._again(asked, tool, found)
        else:
            await self._answer(asked, "unknown", OUTCOME_UNKNOWN)

    async def _again(self, asked: ToolCall, tool: Tool, expected: str | None) -> None:
        """Run a call that started without an effect, if permitted: this process may have fewer permissions."""
        if await self._permitted(asked) is not None:
            await self._effect(asked, tool, msgspec.structs.replace(self._context(asked), expected=expected))

    async def _digest_now(self, call: OpenCall, asked: ToolCall) -> str | None:
        """Return the current digest of a verifiable write's target; None if it cannot be determined."""
        _, event = await self.driver.event(call.started_seq)
        path = event.facts.get("path") if isinstance(event, ToolCallStarted) else None
        if not isinstance(path, str):
            return None
        context = self._context(asked)
        try:
            return await settled(lambda _: now(locate(path, context)).digest)
        except (ToolFault, OSError):
            return None

    # --- answers

    async def _answer(self, call: ToolCall, status: str, text: str, decision: Decision | None = None) -> None:
        facts: dict[str, Any] = {"code": decision.code} if decision is not None else {}
        await self._finish(call, ToolOutcome(text=text, is_error=True, facts=facts), status)

    async def _finish(self, call: ToolCall, outcome: ToolOutcome, status: str, note: str | None = None) -> None:
        facts = dict(outcome.facts)
        if outcome.whole_file is not None:
            facts |= await asyncio.to_thread(stored_facts, outcome.whole_file)
        elif outcome.whole is not None:
            facts["whole"] = outcome.whole
        parts = outcome.parts()
        if note:
            parts = (*parts, TextPart(f"\n[hook] {note}"))
        await self.driver.write(
            ToolCallFinished(
                call_id=call.id, name=call.name, parts=parts, status=status, is_error=outcome.is_error, facts=facts
            ),
            *outcome.events,
            *memory_change(call, status, self.context.project, self.driver.state.runtime),
            *self._noted(call, outcome, status),
        )
        self.finished.append((call, outcome, status))
        reach("call.finished")


def cancelled(call: OpenCall) -> ToolCallFinished:
    """Build the answer to a call that was open when its turn was stopped."""
    text = OUTCOME_UNKNOWN if call.started_seq and call.effect is not EffectClass.READ else "Not executed: cancelled."
    return ToolCallFinished(
        call_id=call.call_id, name=call.name, parts=(TextPart(text),), status="cancelled", is_error=True
    )
