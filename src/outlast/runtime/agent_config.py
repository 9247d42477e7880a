"""Configuration of an agent, as its caller sets it, and the budgets of a turn.

A turn has no limits by default. With a limit on steps or tokens the model is told when the end is near; when the limit
is reached, it is asked once more, for an answer without tools, and the turn ends. The log records the reason.
"""

from __future__ import annotations

import msgspec

from outlast.core.state import OpenTurn

DIALECTS = ("native", "text", "auto")
REMINDER_STEPS = 10
"""How many steps before the end the model is told; a smaller budget has no reminder."""
REMINDER_SHARE = 0.9
"""Share of a token budget after which the model is told."""


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on model replies, on input plus output tokens, and on wall-clock seconds. None means no limit."""

    max_steps: int | None = None
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

    def reminder(self, turn: OpenTurn) -> str | None:
        """Return what the model is told when its turn comes near the end of a budget; None before."""
        steps, tokens = self.max_steps, self.max_tokens
        if steps is not None and steps > REMINDER_STEPS and steps - REMINDER_STEPS <= turn.replies < steps:
            left = steps - turn.replies
            return f"{left} step{' is' if left == 1 else 's are'} left: come to an end and answer."
        if tokens is not None and tokens * REMINDER_SHARE <= turn.tokens < tokens:
            return f"About {tokens - turn.tokens} tokens are left for this turn: come to an end and answer."
        return None

    def last_words(self, turn: OpenTurn, now_us: int) -> str | None:
        """Return what the model is told with the last request of a turn that has used up its steps or tokens; None
        if nothing is used up, or if the time is, too: then there is no last request."""
        left = self.seconds_left(turn, now_us)
        if self.used_up(turn, now_us) is None or (left is not None and left <= 0):
            return None
        what = "steps" if self.max_steps is not None and turn.replies >= self.max_steps else "tokens"
        return f"No {what} are left: answer now, without tools, with what is done and what is not."

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
    `first_token_timeout` and `stream_idle_timeout` are the seconds of silence, before the first token of a reply and
    between two, after which the request is closed; None takes the settings'.
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
    first_token_timeout: float | None = None
    stream_idle_timeout: float | None = None
    prompting: bool = False
    sub_agents_ask: bool = True
    max_steps: int | None = None
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
