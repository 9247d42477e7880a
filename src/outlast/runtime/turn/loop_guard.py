"""The loop guard: notices a model that repeats one call and gets the same result each time.

After `SAME_RESULTS` in a row it tells the model, in the request that follows anyway. If the model goes on for as many
again, the user decides whether the turn continues; without a user, the turn ends as stopped. Waiting is no loop: polls
and commands that sleep do not count, and a call after one of them is no repetition. Everything is derived from the log,
so the counts survive a crash.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from outlast.core.messages import ToolCall
from outlast.core.state import SessionState
from outlast.runtime.driver import Driver
from outlast.runtime.permissions.evaluate import call_digest
from outlast.runtime.turn import approvals
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.policy import CALL, CONTINUE, PolicyVerdict
from outlast.runtime.turn.turn_stats import FinishedCall, TurnRecord

SAME_RESULTS = 5
LOOP_TOLD, LOOP_CONTINUED, LOOP_STOPPED = "loop_told", "loop_continued", "loop_stopped"
QUESTION = "ask_user"
QUESTION_ID = "loop-guard-"
CHOICES = ["continue", "stop"]
_YES = frozenset({"continue", "yes", "y", "go on"})

_POLLS = frozenset({"bash_output", "wait", "sleep"})
_SLEEPS = re.compile(r"(?:^|[;&|(\n{]|\b(?:do|then|else))\s*(?:sleep|wait)\b")


class CallLoop(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was repeated `count` times. `was_told`: the model was told before, and went on."""

    name: str
    count: int
    was_told: bool = False

    @property
    def summary(self) -> str:
        return f"the last {self.count} calls were the same ({self.name}) and gave the same result"

    @property
    def message(self) -> str:
        return (
            f"[Outlast runtime] The last {self.count} calls were the same ({self.name}) and gave the same result. "
            "The same call will give it again as long as nothing else changes."
        )

    @property
    def question(self) -> str:
        return (
            f"The model has made the same call ({self.name}) {self.count} times in a row and got the same result each "
            "time, also after it was told so. Let it continue?"
        )


def loop_in(record: TurnRecord) -> CallLoop | None:
    """Return the loop that the model is in, or None. It counts from the last verdict of this guard."""
    last: FinishedCall | None = None
    count = earlier = 0
    for entry in reversed(record.trail):
        if isinstance(entry, str):
            if entry == LOOP_CONTINUED or (entry == LOOP_TOLD and count < SAME_RESULTS):
                break
            earlier = count if entry == LOOP_TOLD and not earlier else earlier
            continue
        if last is None:
            last = entry
        if is_poll(entry.call) or not _is_same(entry, last):
            break
        count += 1
    if last is None or count < SAME_RESULTS:
        return None
    return CallLoop(name=last.call.name, count=count, was_told=earlier >= SAME_RESULTS and count > earlier)


def is_poll(call: ToolCall) -> bool:
    """Whether the call waits for something: a poll of a background job, or a command that sleeps."""
    command = call.arguments.get("command")
    return call.name in _POLLS or (isinstance(command, str) and _SLEEPS.search(command) is not None)


def _is_same(one: FinishedCall, other: FinishedCall) -> bool:
    return (
        one.call.name == other.call.name
        and one.call.arguments == other.call.arguments
        and one.call.raw == other.call.raw
        and (one.result.status, one.result.is_error, one.result.parts)
        == (other.result.status, other.result.is_error, other.result.parts)
    )


# --- the question to the user


NO_LOOP = PolicyVerdict(outcome=CONTINUE, code=LOOP_CONTINUED, summary="the results no longer show a loop")
"""The verdict if the user was asked and a result was redacted since."""


def is_asking(state: SessionState) -> bool:
    """Whether the open turn has asked the user about a loop and has not decided yet."""
    turn = state.turn
    asked = any(approval.call_id.startswith(QUESTION_ID) for approval in state.approvals)
    return asked and turn is not None and turn.decided in (None, CALL) and turn.attempts == 0


async def user_verdict(driver: Driver, context: TurnContext, stopped: PolicyVerdict) -> PolicyVerdict:
    """Ask the user whether the turn continues, and return the verdict: `stopped`, or to continue. If no user can be
    asked, the turn stops."""
    if not context.prompting and context.answerer is None and not is_asking(driver.state):
        return stopped
    arguments: dict[str, Any] = {"question": stopped.question, "choices": CHOICES}
    _, answer = await approvals.ask_and_wait(
        driver,
        context.answerer,
        call_id=f"{QUESTION_ID}{driver.state.usage.replies}",
        name=QUESTION,
        arguments=arguments,
        digest=call_digest(QUESTION, arguments),
        reason=stopped.question,
        aside=context.observer.waiting_for_person,
    )
    if answer.strip().casefold() in _YES:
        return PolicyVerdict(outcome=CONTINUE, code=LOOP_CONTINUED, summary="the user let the model continue")
    return msgspec.structs.replace(stopped, reason=f"the user stopped it: {stopped.reason}")
