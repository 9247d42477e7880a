"""Permission for a tool call: the judgement of the gate, and the user's answer where the gate wants a question."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from outlast.core.events import Event, RuntimeStateChanged
from outlast.core.messages import ToolCall
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.permissions.decision import Decision, Verdict
from outlast.runtime.permissions.evaluate import HARMLESS, NOBODY, call_digest
from outlast.runtime.permissions.needs import requested_needs
from outlast.runtime.sandbox.port import Lifted, Need
from outlast.runtime.turn import approvals
from outlast.runtime.turn.context import TurnContext

GRANTING = frozenset({"once", "session", "always"})
GRANTS_KEPT = 64


class CallPermit(msgspec.Struct, frozen=True, kw_only=True):
    """The call may start. `approval` is the seq of the user's approval, `events` are written with the start. `unasked`:
    it is permitted only because it was judged harmless."""

    approval: int | None = None
    events: tuple[Event, ...] = ()
    unasked: bool = False
    needs: tuple[Need, ...] = ()
    """The walls of the sandbox that are lifted for this call."""


class CallRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """The call may not start: the status and the text of its result. `remedy` is the flag that would allow the call; it
    is for the user, because the model cannot use it."""

    status: str
    text: str
    code: str
    remedy: str | None = None

    def facts(self) -> dict[str, Any]:
        return {"code": self.code} if self.remedy is None else {"code": self.code, "remedy": self.remedy}


class CallPermission:
    """Asks for permission in one turn. Questions are asked one after the other, in the order of the calls. Before a
    question, the calls that are already permitted are carried out (`before_asking`), and the call is judged again."""

    def __init__(self, driver: Driver, context: TurnContext, before_asking: Callable[[], Awaitable[bool]]) -> None:
        self._driver = driver
        self._context = context
        self._before_asking = before_asking

    async def of(self, call: ToolCall, cwd: Path | None) -> CallPermit | CallRefusal:
        """Return the permission of this call. `cwd` is where a shell command starts; None: the project."""
        hook = await self._context.hooks.before(call, cwd)
        decision = self._context.gate.judge(call, self._driver.state, hook, cwd)
        if decision.verdict is Verdict.ASK and await self._before_asking():
            decision = self._context.gate.judge(call, self._driver.state, hook, cwd)
        reach("call.decided")
        if decision.verdict is Verdict.DENY:
            return _refusal("blocked", decision.reason, decision)
        if decision.verdict is Verdict.ALLOW:
            return CallPermit(unasked=decision.code == HARMLESS, needs=self._needs(call, cwd))
        return await self._asked(call, cwd, decision)

    async def _asked(self, call: ToolCall, cwd: Path | None, decision: Decision) -> CallPermit | CallRefusal:
        state, mode = self._driver.state, self._context.gate.mode
        digest = call_digest(call.name, call.arguments, cwd)
        if not self._context.prompting and approvals.existing_answer(state, call.id, digest, mode) is None:
            return _refusal("declined", f"{decision.reason}; {NOBODY}", decision)
        seq, answer = await approvals.ask_and_wait(
            self._driver,
            self._context.answerer,
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            digest=digest,
            reason=f"{decision.reason} (in the folder {cwd})" if cwd is not None else decision.reason,
            mode=mode,
            aside=self._context.observer.waiting_for_person,
        )
        if answer not in GRANTING:
            return _refusal("declined", "the user declined this call.", decision)
        return CallPermit(approval=seq, events=self._remembered(call, cwd, answer), needs=self._needs(call, cwd))

    async def lift(self, call: ToolCall, need: Need) -> Lifted:
        """Lift a wall that a running command met, if the policy or the user says so. An answer for the session or for
        always is recorded before this returns."""
        gate, state = self._context.gate, self._driver.state
        verdict = gate.judge_need(need, state)
        if verdict is Verdict.DENY:
            return Lifted.NO
        if verdict is Verdict.ALLOW:
            return Lifted.NAMED if gate.has_lifted(need, state) else Lifted.YES
        asked = ToolCall(id=call.id, name=call.name, arguments={**call.arguments, "needs": [str(need)]})
        _, answer = await approvals.ask_and_wait(
            self._driver,
            self._context.answerer,
            call_id=call.id,
            name=call.name,
            arguments=asked.arguments,
            digest=call_digest(asked.name, asked.arguments),
            reason=need.reason(),
            mode=self._context.gate.mode,
            aside=self._context.observer.waiting_for_person,
        )
        if answer in GRANTING and (remembered := self._remembered(asked, None, answer)):
            await self._driver.write(*remembered)
        return Lifted.NAMED if answer in GRANTING else Lifted.NO

    def _needs(self, call: ToolCall, cwd: Path | None) -> tuple[Need, ...]:
        return requested_needs(call, cwd or self._context.project)

    def _remembered(self, call: ToolCall, cwd: Path | None, answer: str) -> tuple[Event, ...]:
        if answer == "always":
            self._context.gate.always(call, cwd)
        if answer == "once":
            return ()
        grants = [*self._driver.state.runtime.get("grants", []), self._context.gate.grant(call, cwd)]
        return (RuntimeStateChanged(changes={"grants": grants[-GRANTS_KEPT:]}),)


def _refusal(status: str, reason: str, decision: Decision) -> CallRefusal:
    return CallRefusal(status=status, text=f"Not executed: {reason}", code=decision.code, remedy=decision.remedy)
