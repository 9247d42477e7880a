"""Execution of tool calls: permission, record, effect, record.

`ToolCallStarted` is durable before the effect and `ToolCallFinished` after it. A call that is malformed, unknown,
invalid for its schema or not permitted is answered and never executed. After a crash, each open call is resumed by its
effect class: reads run again; verifiable writes are compared with their target, only in the folder where they started;
everything else is answered "outcome unknown" and never runs again by itself.

Consecutive reads of one reply run side by side, and so do consecutive `task` calls; every other call runs alone, in
the model's order. Starts are recorded in the model's order, and the window shows the results in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from outlast.core.errors import OutlastError, StaleLease
from outlast.core.events import (
    AssistantReplied,
    EffectClass,
    Event,
    ToolCallStarted,
    ToolProcessSpawned,
)
from outlast.core.messages import ToolCall
from outlast.core.repair import OUTCOME_UNKNOWN
from outlast.core.state import OpenCall
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.permissions.evaluate import call_digest
from outlast.runtime.prompt.nested_memory import memory_change
from outlast.runtime.sandbox.port import Lifted, Need
from outlast.runtime.session_recall import SessionRecall
from outlast.runtime.tools.files.atomic_write import settled
from outlast.runtime.tools.files.write_targets import digest_now, partial_outcome, target_facts
from outlast.runtime.tools.port import (
    ShellFolder,
    Spawned,
    StoredOutput,
    Target,
    Tool,
    ToolContext,
    ToolFault,
    ToolOutcome,
)
from outlast.runtime.tools.process.shell_folder import is_project, usable_folder
from outlast.runtime.turn import approvals
from outlast.runtime.turn.call_changes import CallChanges
from outlast.runtime.turn.call_permission import GRANTING, CallPermission, CallPermit, CallRefusal
from outlast.runtime.turn.call_result import CallResult, finished_event
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.parallel_questions import ParallelQuestions
from outlast.runtime.turn.subagents import RunSubAgent, delegated
from outlast.runtime.turn.tool_context import tool_context, whereabouts
from outlast.runtime.turn.whole_output import find_output

PARALLEL_CALLS = 4
SHELL, TASK = "bash", "task"
RESUMABLE = frozenset({TASK, "ask_user", "exit_plan"})
ALONE = frozenset({"ask_user", "todo", "enter_plan", "exit_plan"})
"""Tools that only ask the user or change the session: they have effect class R, but never run beside other calls."""

Noted = Callable[[ToolCall, ToolOutcome, str], tuple[Event, ...]]
"""Returns the events to record together with the result of a call."""


class ReadyCall(msgspec.Struct, frozen=True, kw_only=True):
    """A permitted call. `started` and `events` are still to be recorded; a resumed call was recorded before."""

    call: ToolCall
    tool: Tool
    context: ToolContext
    started: ToolCallStarted | None = None
    events: tuple[Event, ...] = ()


class ToolExecutor:
    """Executes the tool calls of one turn."""

    def __init__(self, driver: Driver, context: TurnContext, noted: Noted, run_sub_agent: RunSubAgent) -> None:
        self.driver = driver
        self.context = context
        self._noted = noted
        self._run_sub_agent = run_sub_agent
        self._here = whereabouts(context.project)
        self._permission = CallPermission(driver, context, self._run_ready)
        self._changes = CallChanges(driver, context, self._asked_about_change)
        self._ready: list[ReadyCall] = []
        self._questions: ParallelQuestions | None = None
        self._asking = asyncio.Lock()

    async def carry_out(self) -> None:
        """Answer every open call of the newest reply."""
        self._ready, before = [], None
        for call in list(self.driver.state.open_calls):
            kind = self._kind(call)
            if kind is None or kind != before:
                await self._run_ready()
            await self._prepare(call)
            before = kind
        await self._run_ready()

    def _kind(self, call: OpenCall) -> str | None:
        """Return which calls may run beside this one: those of the same kind; None if no call may."""
        if call.name == TASK:
            return TASK
        tool = self.context.tools.get(call.name)
        is_read = tool is not None and tool.effect is EffectClass.READ and call.name not in ALONE
        return str(EffectClass.READ) if is_read else None

    async def verify(self, call: ToolCall) -> None:
        """Run a verification command, which no reply requested, in the project's folder. Same permissions and records;
        effect class N."""
        await self._prepare_new(call, None)
        await self._run_ready()

    # --- what may run

    async def _prepare(self, call: OpenCall) -> None:
        """Add the call to those that are ready, or answer it."""
        asked = await self._asked(call)
        if call.started_seq:
            await self._prepare_again(call, asked)
        elif asked.raw is not None:
            text = f"Not executed: its arguments are not complete, valid JSON: {asked.raw[:200]}"
            await self._answer(asked, "malformed", text)
        else:
            folder = self.driver.state.shell_folder
            shell = usable_folder(folder, self.context.project, self.context.roots) if asked.name == SHELL else None
            await self._prepare_new(asked, shell)

    async def _asked(self, call: OpenCall) -> ToolCall:
        """Return the call as the model requested it, or as it was started if no reply requested it."""
        _, event = await self.driver.event(call.requested_seq or call.started_seq)
        if isinstance(event, AssistantReplied):
            for part in event.parts:
                if isinstance(part, ToolCall) and part.id == call.call_id:
                    return part
        arguments = event.arguments if isinstance(event, ToolCallStarted) else call.arguments or {}
        return ToolCall(id=call.call_id, name=call.name, arguments=arguments)

    async def _prepare_new(self, call: ToolCall, shell: ShellFolder | None) -> None:
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
        permit = await self._permitted(call, shell)
        if permit is not None:
            await self._make_ready(call, tool, permit, msgspec.structs.replace(self._context(call), shell=shell))

    async def _permitted(self, call: ToolCall, shell: ShellFolder | None = None) -> CallPermit | None:
        """Return the permit of a call; None if it was refused and answered."""
        cwd = None if shell is None or is_project(shell, self.context.project) else shell.path
        permission = await self._permission.of(call, cwd)
        if isinstance(permission, CallRefusal):
            await self._answer(call, permission.status, permission.text, permission.facts())
            return None
        return permission

    async def _make_ready(self, call: ToolCall, tool: Tool, permit: CallPermit, context: ToolContext) -> None:
        context = msgspec.structs.replace(context, unasked=permit.unasked, needs=permit.needs)
        try:
            target = await tool.target(call.arguments, context)
        except ToolFault as fault:
            await self._answer(call, "failed", str(fault))
            return
        started = ToolCallStarted(
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            effect=tool.effect,
            approval_seq=permit.approval,
            target_digest_before=target.digest_before if target else None,
            target_digest_after=target.digest_after if target else None,
            facts=self._facts(tool, target),
        )
        context = msgspec.structs.replace(context, expected=target.digest_before if target else None)
        self._ready.append(ReadyCall(call=call, tool=tool, context=context, started=started, events=permit.events))

    def _facts(self, tool: Tool, target: Target | None) -> dict[str, Any]:
        """Return the data to undo the call, and the folder where it runs; a read needs no folder."""
        undo = target_facts(target)
        return undo if tool.effect is EffectClass.READ else {**undo, "place": self._here}

    # --- effect

    async def _run_ready(self) -> bool:
        """Run the calls that are ready, side by side if they are several; return whether there were any."""
        ready, self._ready = self._ready, []
        if len(ready) > 1:
            await self._run_side_by_side(ready)
        elif ready:
            await self._record_starts(ready)
            await self._record_results([await self._result(ready[0])])
        return bool(ready)

    async def _run_side_by_side(self, waiting: list[ReadyCall]) -> None:
        """Run at most `parallel_calls` of them at a time. A task's result is recorded as soon as it is there; results
        of reads, which can be repeated, are recorded together."""
        are_tasks = waiting[0].call.name == TASK
        self._questions = ParallelQuestions(self.context) if are_tasks else None
        most = self.context.config.parallel_calls or PARALLEL_CALLS
        running: dict[asyncio.Task[CallResult], ReadyCall] = {}
        try:
            while waiting or running:
                begun, waiting = waiting[: most - len(running)], waiting[most - len(running) :]
                await self._record_starts(begun)
                running |= {asyncio.ensure_future(self._result(ready)): ready for ready in begun}
                when = asyncio.FIRST_COMPLETED if are_tasks else asyncio.ALL_COMPLETED
                ended, _ = await asyncio.wait(running, return_when=when)
                results = [task.result() for task in running if task in ended]
                running = {task: ready for task, ready in running.items() if task not in ended}
                await self._record_results(results)
        finally:
            await _ended(running)
            self._questions = None

    async def _record_starts(self, ready: Iterable[ReadyCall]) -> None:
        new = [one for one in ready if one.started is not None]
        if not new:
            return
        await self.driver.write(*(event for one in new for event in (*one.events, one.started) if event is not None))
        for _ in new:
            reach("call.started")

    async def _result(self, ready: ReadyCall) -> CallResult:
        questions = self._questions
        if questions is None:
            return await self._effect(ready)
        with questions.branch():
            result = await self._effect(ready)
        await questions.settle()
        return result

    async def _effect(self, ready: ReadyCall) -> CallResult:
        call = ready.call
        await self.driver.fresh()
        status = "executed"
        try:
            outcome = await self._changes.run(ready.tool, call, ready.context, ready.started)
        except ToolFault as fault:
            outcome, status = ToolOutcome(text=str(fault), is_error=True), "failed"
        except StaleLease:
            raise
        except (OutlastError, OSError) as error:
            outcome, status = ToolOutcome(text=f"{call.name} failed: {error}", is_error=True), "failed"
        reach("effect.done")
        note = await self.context.hooks.after(call, outcome)
        return CallResult(call=call, outcome=outcome, status="failed" if outcome.is_error else status, note=note)

    def _context(self, call: ToolCall) -> ToolContext:
        async def spawned(process: Spawned) -> None:
            await self.driver.write(
                ToolProcessSpawned(call_id=call.id, pid=process.pid, started=process.started, host=process.host)
            )
            reach("process.spawned")

        async def ask(question: str, choices: list[str]) -> str:
            if not self.context.prompting and self.context.answerer is None:
                raise ToolFault("nobody is here to answer; decide yourself and say what you assumed")
            return await self._asked_user(call, {"question": question, "choices": choices}, question)

        async def approve(reason: str) -> bool | None:
            digest = call_digest(call.name, call.arguments)
            found = approvals.existing_answer(self.driver.state, call.id, digest)
            can_ask = self.context.depth == 0 and (self.context.prompting or self.context.answerer is not None)
            if not can_ask and (found is None or found.answer is None):
                return None
            return await self._asked_user(call, call.arguments, reason) in GRANTING

        async def lift(need: Need) -> Lifted:
            async with self._asking:
                return await self._permission.lift(call, need)

        async def delegate(prompt: str, persona: str | None) -> ToolOutcome:
            parent = self._questions.context if self._questions is not None else self.context
            return await delegated(self.driver, parent, self._run_sub_agent, call.id, prompt, persona)

        async def recall(query: str | None, seq: int | None, offset: int) -> ToolOutcome:
            session = SessionRecall(self.driver.store, self.driver.session_id, self.driver.state)
            return await asyncio.to_thread(session.answer, query, seq, offset)

        async def stored_output(call_id: str) -> StoredOutput | None:
            driver = self.driver
            return await asyncio.to_thread(find_output, driver.store, driver.session_id, driver.state.view, call_id)

        context = tool_context(self.context, self.driver.session_id, call.id, self.driver.state.runtime)
        return msgspec.structs.replace(
            context,
            spawned=spawned,
            ask=ask,
            approve=approve,
            lift=lift,
            delegate=delegate,
            recall=recall,
            stored_output=stored_output,
        )

    async def _asked_user(self, call: ToolCall, arguments: dict[str, Any], reason: str) -> str:
        """Return the user's answer to a question that a tool asks while it runs."""
        async with self._asking:
            _, answer = await approvals.ask_and_wait(
                self.driver,
                self.context.answerer,
                call_id=call.id,
                name=call.name,
                arguments=arguments,
                digest=call_digest(call.name, arguments),
                reason=reason,
                aside=self.context.observer.waiting_for_person,
            )
        return answer

    async def _asked_about_change(self, call: ToolCall, arguments: dict[str, Any], reason: str) -> bool | None:
        """Return whether a change that a command made may stay; None if nobody can be asked."""
        if self.context.depth or not (self.context.prompting or self.context.answerer is not None):
            return None
        return await self._asked_user(call, arguments, reason) in GRANTING

    # --- after a crash

    async def _prepare_again(self, call: OpenCall, asked: ToolCall) -> None:
        tool = self.context.tools.get(call.name)
        if tool is not None and call.name in RESUMABLE:
            self._ready.append(ReadyCall(call=asked, tool=tool, context=self._context(asked)))
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
            await self._record_results([CallResult(call=asked, outcome=ToolOutcome(text=text), status="recovered")])
        elif found is not None and found == call.digest_before:
            await self._again(asked, tool, found)
        else:
            await self._answer(asked, "unknown", await self._partial_outcome(call, asked) or OUTCOME_UNKNOWN)

    async def _again(self, asked: ToolCall, tool: Tool, expected: str | None) -> None:
        """Run a call that started without an effect, if permitted: this process may have fewer permissions."""
        if await self._permitted(asked) is not None:
            context = msgspec.structs.replace(self._context(asked), expected=expected)
            self._ready.append(ReadyCall(call=asked, tool=tool, context=context))

    async def _digest_now(self, call: OpenCall, asked: ToolCall) -> str | None:
        """Return the current digest of a verifiable write's target; None if it cannot be determined."""
        _, event = await self.driver.event(call.started_seq)
        if not isinstance(event, ToolCallStarted):
            return None
        context = self._context(asked)
        return await settled(lambda _: digest_now(event, context))

    async def _partial_outcome(self, call: OpenCall, asked: ToolCall) -> str | None:
        _, event = await self.driver.event(call.started_seq)
        context = self._context(asked)
        return await settled(lambda _: partial_outcome(event, context)) if isinstance(event, ToolCallStarted) else None

    # --- answers

    async def _answer(self, call: ToolCall, status: str, text: str, facts: dict[str, Any] | None = None) -> None:
        """Answer a call that does not run, after the calls before it."""
        await self._run_ready()
        outcome = ToolOutcome(text=text, is_error=True, facts=facts or {})
        await self._record_results([CallResult(call=call, outcome=outcome, status=status)])

    async def _record_results(self, results: list[CallResult]) -> None:
        """Record results in one commit, or in several where the policy adds events: it computes each from the state
        after the one before."""
        events: list[Event] = []
        for at, result in enumerate(results):
            events.append(await finished_event(result))
            events += result.outcome.events
            changed = memory_change(result.call, result.status, self.context.project, self.driver.state.runtime)
            noted = (*changed, *self._noted(result.call, result.outcome, result.status))
            if noted or at == len(results) - 1:
                await self.driver.write(*events, *noted)
                events = []
        await self._changes.recorded(result.call for result in results)
        for _ in results:
            reach("call.finished")


async def _ended(running: Iterable[asyncio.Task[CallResult]]) -> None:
    """Cancel these tasks and wait for their ends, even if this task is cancelled again: each call promises to stop
    without leaving anything behind."""
    tasks = [task for task in running if not task.done()]
    for task in tasks:
        task.cancel()
    again: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            again = error
    for task in running:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio logs no warning
    if again is not None:
        raise again
