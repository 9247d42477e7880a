"""Turn policy: decides how a turn starts, continues and ends. The turn loop asks the policy and records its verdicts.

A policy reads the folded state and the turn's own events, and returns values. It writes nothing and keeps nothing that
is not in the log, so the same question gets the same answer after a crash.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from outlast.core.events import Event
from outlast.core.messages import Part, ToolCall
from outlast.core.workflow_mode import WorkflowMode
from outlast.runtime.prompt.environment import EnvironmentFact
from outlast.runtime.prompt.system_prompt import SystemPrompt
from outlast.runtime.tools.port import ToolOutcome
from outlast.runtime.turn.turn_stats import TurnRecord

VERIFY, CONTINUE, CALL = "verify", "continue", "call"
FINAL = frozenset({"accept", "complete", "finalize", "failed"})
"""The outcomes of a verdict that end the turn."""


class PolicyVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict on a reply. `outcome` is accept, complete, finalize or failed if the turn is over, else continue, call
    or verify. `note` is told to the user beside the answer, `nudge` is sent to the model, `parts` replace those of the
    reply.

    `reason` is what the end of the turn says instead of the code. With a `question`, the user is asked first whether
    the turn should continue instead."""

    outcome: str
    code: str
    summary: str
    events: tuple[Event, ...] = ()
    nudge: str | None = None
    note: str | None = None
    parts: tuple[Part, ...] | None = None
    reason: str | None = None
    question: str | None = None
    facts: dict[str, Any] = {}


class TurnOpening(msgspec.Struct, frozen=True, kw_only=True):
    """Start of a turn: its workflow mode, and the events to record together with `TurnStarted`."""

    mode: WorkflowMode
    events: tuple[Event, ...]


class TurnPolicy(Protocol):
    """The decisions in one turn."""

    async def begin(self, inputs: list[int]) -> TurnOpening:
        """Return the opening of a turn that answers these inputs."""
        ...

    def system_prompt(self) -> SystemPrompt:
        """Return the system prompt. It stays the same in a session unless persona, tools or workflow change."""
        ...

    def environment(self) -> tuple[EnvironmentFact, ...]:
        """Return the facts that this policy tells the model in a message, for example the workflow mode."""
        ...

    def note_call(self, call: ToolCall, outcome: ToolOutcome, status: str) -> tuple[Event, ...]:
        """Return the events to record together with the result of a call."""
        ...

    def after_tools(self, record: TurnRecord) -> PolicyVerdict | None:
        """Return the verdict on a finished batch of calls; None to send the results to the model."""
        ...

    def judge_reply(self, parts: tuple[Part, ...], record: TurnRecord) -> PolicyVerdict:
        """Return the verdict on a reply without tool calls."""
        ...

    def next_verification(self, record: TurnRecord) -> ToolCall | PolicyVerdict:
        """After the verdict `verify`, return the next call that checks the work, or a verdict after the last check."""
        ...
