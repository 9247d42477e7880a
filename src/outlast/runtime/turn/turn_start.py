"""Records that every policy writes: the task and the usage at the start of a turn, and the system prompt."""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.events import Event, InputAdmitted, PromptRecorded, RuntimeStateChanged
from outlast.core.messages import text_of
from outlast.core.record_storage import dump, load
from outlast.core.state import SessionState
from outlast.core.workflow_mode import mode_of
from outlast.core.workflow_records import PromptSnapshot
from outlast.runtime.clock import timestamp
from outlast.runtime.driver import Driver
from outlast.runtime.prompt.system_prompt import (
    CHAT,
    PromptInputs,
    SystemPrompt,
    pinned,
    prompt_key,
    snapshot,
    system_prompt,
)
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.dialect import NATIVE, dialect_in_use
from outlast.runtime.turn.turn_stats import totals

TASK_LENGTH = 32 * 1024


async def admitted_text(driver: Driver, inputs: list[int]) -> str:
    """Return the text of these inputs, at most its first `TASK_LENGTH` characters: the records of a turn name the task,
    and the message itself is stored once."""
    texts: list[str] = []
    for seq in inputs:
        _, event = await driver.event(seq)
        if isinstance(event, InputAdmitted):
            texts.append(text_of(event.parts)[:TASK_LENGTH])
    return "\n".join(texts)[:TASK_LENGTH]


def opening_changes(state: SessionState, task: str) -> dict[str, Any]:
    """Return the runtime state changes at the start of every turn."""
    return {"current_task": task, "usage_before_turn": totals(state.usage), "active_turn_phase": "prepare"}


def session_prompt(driver: Driver, context: TurnContext) -> SystemPrompt:
    """Return the session's system prompt: the recorded one, unless persona, tools or the tool dialect have changed."""
    inputs = _prompt_inputs(driver, context)
    key = prompt_key(inputs)
    known = driver.state.prompts
    if not known:
        return system_prompt(inputs)
    last = load(PromptSnapshot, known[-1])
    if driver.state.runtime.get("prompt_key") == key:
        return pinned(key, last)
    return system_prompt(msgspec.structs.replace(inputs, kept_memory=_kept_memory(driver.state)))


def _kept_memory(state: SessionState) -> str | None:
    """Return the memory files as the session took them at its start: a file that changed counts in the next session.
    They stand in the newest prompt that is not a demo model's."""
    place: object = state.runtime.get("prompt_memory")
    try:
        start, end = msgspec.convert(place, tuple[int, int])
    except msgspec.ValidationError:  # an older session, or one that only chatted so far
        return None
    recorded = (load(PromptSnapshot, snapshot) for snapshot in reversed(state.prompts))
    return next((prompt.content[start:end] for prompt in recorded if prompt.prompt_format != CHAT), None)


def _prompt_inputs(driver: Driver, context: TurnContext) -> PromptInputs:
    assert context.model is not None
    return PromptInputs(
        tools=context.tools.specs(),
        native_tools=dialect_in_use(context, driver.state) == NATIVE,
        chat_profile=context.model.abilities.chat_profile,
        memory=context.memory,
        skills=context.skills.skills,
        sub_agents=context.sub_agents,
        persona=context.persona,
    )


def prompt_events(driver: Driver, context: TurnContext, prompt: SystemPrompt) -> tuple[Event, ...]:
    """Return the events that record this prompt; empty if the last recorded prompt is the same."""
    runtime = driver.state.runtime
    known = driver.state.prompts
    if known and runtime.get("prompt_key") == prompt.key and load(PromptSnapshot, known[-1]).content == prompt.text:
        return ()
    taken = snapshot(
        prompt,
        timestamp=timestamp(driver.clock),
        workflow_mode=mode_of(runtime.get("workflow_mode")),
        permission_mode=context.gate.mode,
        current_task=str(runtime.get("current_task") or ""),
    )
    changes: dict[str, Any] = {
        "prompt_format": prompt.format,
        "prompt_sections": list(prompt.sections),
        "prompt_key": prompt.key,
    }
    if prompt.memory is not None:
        changes["prompt_memory"] = list(prompt.memory)
        if "memory_files" not in runtime:
            changes["memory_files"] = [file.name for file in context.memory]
    return (PromptRecorded(snapshot=dump(taken)), RuntimeStateChanged(changes=changes))
