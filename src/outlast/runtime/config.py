"""How an agent works, as its caller sets it."""

from __future__ import annotations

import msgspec

from outlast.runtime.budgets import MAX_STEPS


class ReasoningConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`completion_check`: whether an answer that looks unfinished is sent back (at most five times a turn).

    `verification`: whether work is checked by commands before a turn may be complete. `effort` goes to the model.
    """

    completion_check: bool = True
    verification: bool = True
    effort: str | None = None


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`auto_context` reads the project's memory files into the prompt; `stream` False hides what is not complete yet
    (the reply is streamed and kept all the same).

    `workflow_mode` asks for one of clarify, plan, execute, verify; `clarify` allows questions before the work.
    `prompting`: somebody can be asked; `sub_agents_ask` False: not by sub-agents, whose questions nobody would see.
    `compaction_mode` is in_place or rotate; `auto_compaction_input_tokens_threshold` None goes by the model's window.
    """

    auto_context: bool = True
    stream: bool = True
    reasoning: ReasoningConfig = ReasoningConfig()
    workflow_mode: str | None = None
    clarify: bool = False
    plan: bool = True
    permission_mode: str | None = None
    persona: str | None = None
    prompt_format: str | None = None
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
    add_dirs: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
