"""Which prompts a session was driven with."""

from __future__ import annotations

import msgspec


class PromptSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One system prompt as it was sent. `prompt_sections` are the names of its changing sections, in order."""

    timestamp: str
    workflow_mode: str
    permission_mode: str = ""
    current_task: str | None = None
    prompt_format: str | None = None
    prompt_sections: list[str] = []
    content: str = ""


def is_new(snapshot: PromptSnapshot, last: PromptSnapshot | None) -> bool:
    """False when only the time or the task differ from the last one: an equal prompt is not stored twice."""
    if last is None:
        return True
    return msgspec.structs.replace(snapshot, timestamp=last.timestamp, current_task=last.current_task) != last
