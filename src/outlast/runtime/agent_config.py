"""Configuration of an agent, as its caller sets it, and the budgets of a turn.

A turn that exhausts a budget ends, and the log records the reason.
"""

from __future__ import annotations

import msgspec

from outlast.core.state import OpenTurn

MAX_STEPS = 50
DIALECTS = ("native", "text", "auto")


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on model replies, on input plus output tokens, and on wall-clock seconds. None means no limit."""

    max_steps: int | None = MAX_STEPS
    max_tokens: int | None = None
    max_seconds: float | None = None

    def used_up(self, turn: OpenTurn, now_us: int) -> str | None:
        """Return why this turn must end, or None. The counts survive a crash because they are folded from the log."""
        if self.max_steps is not None and turn.replies >= self.max_steps:
            return f"the step budget of {self.max_steps} is used up"
        if self.max_tokens is not None and turn.tokens >= self.max_tokens:
            return f"the token budget of {self.max_tokens} is used up ({turn.tokens} tokens)"
        left = self.seconds_left(turn, now_us)
        if left is not None and left <= 0:
            return f"the time budget of {self.max_seconds:g} s is used up"
        return None

    def seconds_left(self, turn: OpenTurn, now_us: int) -> float | None:
        return None if self.max_seconds is None else self.max_seconds - (now_us - turn.at) / 1e6


class ReasoningConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`completion_check`: a guided turn may ask the model once to go on with its own todo list, or to repair what a
    named command shows. `verification`: a guided turn runs the commands that the plan and `verify_commands` name.
    `effort` is passed to the model.
    """

    completion_check: bool = True
    verification: bool = True
    effort: str | None = None


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`auto_context` reads the project's memory files into the prompt. `stream` False hides a reply until it is
    complete (the reply is still streamed and stored as a draft).

    `workflow` is plain or guided; None takes the persona's, then the setting, then plain. `workflow_mode` requests
    clarify, plan, execute or verify; `clarify` and `plan` ask a guided turn for a brief or a plan before each new task.
    `verify_commands` verify what a guided turn changed; empty takes the setting.
    `prompting`: a user can answer questions. `sub_agents_ask` False: sub-agents ask none, as no user would see them.
    `dialect` is native, text or auto; None takes the settings' (auto by default). `prompt_format` "react" means text.
    `stall_seconds`: a reply that sends no data for so long is requested again; None takes the settings' (120). Before
    its first data it may take longer.
    `parallel_calls`: how many reads, or sub-agents, of one reply run side by side; None takes the setting.
    `apply_patch` offers that tool or not; None offers it to models that are trained on it.
    `compaction_mode` is in_place or rotate. `auto_compaction_input_tokens_threshold` None uses the model's window.
    """

    auto_context: bool = True
    stream: bool = True
    reasoning: ReasoningConfig = ReasoningConfig()
    workflow: str | None = None
    workflow_mode: str | None = None
    clarify: bool = False
    plan: bool = False
    verify_commands: tuple[str, ...] = ()
    permission_mode: str | None = None
    persona: str | None = None
    prompt_format: str | None = None
    dialect: str | None = None
    stall_seconds: float | None = None
    prompting: bool = False
    sub_agents_ask: bool = True
    max_steps: int | None = MAX_STEPS
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_output_tokens: int | None = None
    context_window: int | None = None
    compaction_mode: str = "in_place"
    auto_compaction: bool = True
    auto_compaction_input_tokens_threshold: int | None = None
    compaction_keep_last_messages: int = 4
    apply_patch: bool | None = None
    add_dirs: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    parallel_calls: int | None = None
