"""What decides how a turn begins, goes on and ends. The turn engine asks a policy and records what it says.

A policy reads the folded state and the turn's own events, and answers with values: it writes nothing itself, so the
same question gets the same answer after a crash. It keeps nothing that the log does not hold.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from outlast.core.events import Event
from outlast.core.messages import Part, ToolCall
from outlast.core.workflow_mode import WorkflowMode
from outlast.runtime.prompt.system_prompt import SystemPrompt
from outlast.runtime.tools.port import ToolOutcome
from outlast.runtime.turn.turn_stats import TurnRecord

VERIFY, CONTINUE, CALL = "verify", "continue", "call"
FINAL = frozenset({"accept", "complete", "finalize", "failed"})
"""The outcomes of a verdict that end the turn."""


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


class TurnOpening(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn begins with: the mode that it works in, and the events that are recorded beside its start."""

    mode: WorkflowMode
    events: tuple[Event, ...]


class TurnPolicy(Protocol):
    """How one turn is led."""

    async def begin(self, inputs: list[int]) -> TurnOpening:
        """The opening of a turn that answers these inputs."""
        ...

    def system_prompt(self) -> SystemPrompt:
        """The system prompt as of now; the same until an event is written."""
        ...

    def note_call(self, call: ToolCall, outcome: ToolOutcome, status: str) -> tuple[Event, ...]:
        """The events that are recorded together with the result of a call."""
        ...

    def after_tools(self, record: TurnRecord) -> PolicyVerdict | None:
        """The verdict on a finished batch of calls; None when the model is simply asked again."""
        ...

    def judge_reply(self, parts: tuple[Part, ...], record: TurnRecord) -> PolicyVerdict:
        """The verdict on a reply without tool calls."""
        ...

    def next_verification(self, record: TurnRecord) -> ToolCall | PolicyVerdict:
        """After the verdict `verify`: the next call that checks the work, or the verdict once every check has run."""
        ...
