"""Records that every policy writes: the task and the usage at the start of a turn, and the system prompt."""

from __future__ import annotations

from typing import Any

from outlast.core.events import Event, InputAdmitted, PromptRecorded, RuntimeStateChanged
from outlast.core.messages import text_of
from outlast.core.record_storage import dump, read_list
from outlast.core.state import SessionState
from outlast.core.workflow_mode import mode_of
from outlast.core.workflow_records import PromptSnapshot, is_new
from outlast.runtime.clock import timestamp
from outlast.runtime.driver import Driver
from outlast.runtime.prompt.system_prompt import PromptInputs, SystemPrompt, snapshot
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.turn_stats import totals


async def admitted_text(driver: Driver, inputs: list[int]) -> str:
    """Return the text of these inputs."""
    texts: list[str] = []
    for seq in inputs:
        _, event = await driver.event(seq)
        if isinstance(event, InputAdmitted):
            texts.append(text_of(event.parts))
    return "\n".join(texts)


def opening_changes(state: SessionState, task: str) -> dict[str, Any]:
    """Return the runtime state changes at the start of every turn."""
    return {"current_task": task, "usage_before_turn": totals(state.usage), "active_turn_phase": "prepare"}


def prompt_inputs(driver: Driver, context: TurnContext, sections: tuple[tuple[str, str], ...] = ()) -> PromptInputs:
    """Build the prompt inputs from the context; `sections` are the policy's own, as name and text."""
    assert context.model is not None
    return PromptInputs(
        permission_mode=context.gate.mode,
        project=str(context.project),
        extra_roots=tuple(str(root) for root in context.roots[1:]),
        platform=context.platform,
        date=timestamp(driver.clock)[:10],
        tools=context.tools.specs(),
        native_tools=context.model.abilities.tools and context.config.prompt_format != "react",
        chat_profile=context.model.abilities.chat_profile,
        prompting=context.prompting,
        sections=sections,
        project_notes=context.notes,
        memory=context.memory,
        persona=context.persona,
    )


def prompt_events(driver: Driver, context: TurnContext, prompt: SystemPrompt) -> tuple[Event, ...]:
    """Return the events that record this prompt; empty if the last recorded prompt is the same."""
    runtime = driver.state.runtime
    taken = snapshot(
        prompt,
        timestamp=timestamp(driver.clock),
        workflow_mode=mode_of(runtime.get("workflow_mode")),
        permission_mode=context.gate.mode,
        current_task=str(runtime.get("current_task") or ""),
    )
    known = read_list(PromptSnapshot, driver.state.prompts[-1:])
    if not is_new(taken, known[0] if known else None):
        return ()
    changes = {"prompt_format": prompt.format, "prompt_sections": list(prompt.sections)}
    return (PromptRecorded(snapshot=dump(taken)), RuntimeStateChanged(changes=changes))
