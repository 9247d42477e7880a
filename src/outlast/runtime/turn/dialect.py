"""Dialect of tool calls: `native` through the provider's interface, or `text` in the model's own words.

`auto` begins with the native dialect if the model has one, and switches to text when the server refuses tools or the
model writes its calls as text. The switch is a fact of the session's log, for the model that it was made for: a resumed
session stays in it. It is written in a commit that happens anyway.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from outlast.core.errors import ConfigError, ModelError, ToolsUnsupported
from outlast.core.events import Event, RuntimeStateChanged, TimelineRecorded
from outlast.core.messages import Part, text_of
from outlast.core.record_storage import dump
from outlast.core.state import SessionState
from outlast.core.workflow_mode import mode_of
from outlast.core.workflow_records import EntryKind, WorkflowTimelineEntry
from outlast.runtime.agent_config import DIALECTS
from outlast.runtime.clock import timestamp
from outlast.runtime.driver import Driver
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.text_tool_calls import ALL_FORMS, EXPLICIT, WrittenCalls, read_calls
from outlast.runtime.turn.turn_stats import TEXT_CALL, TurnRecord

NATIVE, TEXT, AUTO = DIALECTS
STATE = "dialect"
"""Name of the switch in the session's runtime state."""

RECOVERED = "raw_text_tool_recovered"
TOOLS_REFUSED, CALLS_WRITTEN = "dialect_tools_refused", "dialect_calls_written"
FRONTIER = frozenset({"anthropic", "openai", "google"})
"""Providers whose own models all have native tools: JSON in their text is what the user asked to see."""
SLIPS = 2
"""Text calls of a model that can do better, in one turn, before the session switches."""


def checked_dialect(name: str) -> str:
    if name not in DIALECTS:
        raise ConfigError(f"unknown dialect '{name}'; use one of {', '.join(DIALECTS)}")
    return name


def dialect_in_use(context: TurnContext, state: SessionState) -> str:
    """Return `native` or `text` for the next request."""
    model, config = context.model, context.config
    if model is None or not model.abilities.tools or config.prompt_format == "react" or config.dialect == TEXT:
        return TEXT
    switched: object = state.runtime.get(STATE)
    if config.dialect == NATIVE or not isinstance(switched, dict):
        return NATIVE
    return TEXT if switched.get("model") == model.name else NATIVE  # pyright: ignore[reportUnknownMemberType]


def inherited_dialect(context: TurnContext, parent: SessionState) -> TurnContext:
    """Return a sub-agent's context in the dialect of its parent, which has found out what the model can do."""
    if context.config.dialect == NATIVE or dialect_in_use(context, parent) == NATIVE:
        return context
    return replace(context, config=msgspec.structs.replace(context.config, dialect=TEXT))


def written_calls(
    parts: tuple[Part, ...], record: TurnRecord, driver: Driver, context: TurnContext
) -> WrittenCalls | None:
    """Return the calls that the reply makes as text, None if it makes none or the native dialect is forced.

    Before the switch, a call must also fit its tool's schema, and JSON counts only from a model that has made no native
    call in this session and is no provider's own: a reply may end with an example that the user asked for.
    """
    model = context.model
    if model is None or model.abilities.chat_profile:
        return None
    text = text_of(parts)
    tools = {spec.name: spec.parameters for spec in context.tools.specs()}
    prefix = f"{TEXT_CALL}{driver.state.last_seq}-"
    if dialect_in_use(context, driver.state) == TEXT:
        return read_calls(text, tools, prefix, taught=True)
    if context.config.dialect == NATIVE:
        return None
    native = model.provider in FRONTIER or model.name in record.native_callers
    found = read_calls(text, tools, prefix, forms=EXPLICIT if native else ALL_FORMS)
    if found is None or any(context.tools.fault(call.name, call.arguments) for call in found.calls):
        return None
    return found


def switch_after_calls(record: TurnRecord, driver: Driver, context: TurnContext) -> tuple[Event, ...]:
    """Return the switch to text for a model that wrote calls as text; empty if it stays in its dialect. A model that
    has shown native calls, or is known for them, may slip a few times."""
    model = context.model
    assert model is not None
    native = model.provider in FRONTIER or model.name in record.native_callers
    if native and record.count(RECOVERED) < SLIPS:
        return ()
    return _switch(CALLS_WRITTEN, "the model writes tool calls as text", driver, context)


def switch_after(error: ModelError, driver: Driver, context: TurnContext) -> tuple[Event, ...]:
    """Return the switch to text if the error says that the server takes no tools; empty for any other error."""
    return _switch(TOOLS_REFUSED, error.told, driver, context) if isinstance(error, ToolsUnsupported) else ()


def _switch(code: str, reason: str, driver: Driver, context: TurnContext) -> tuple[Event, ...]:
    if context.config.dialect == NATIVE or dialect_in_use(context, driver.state) == TEXT:
        return ()
    assert context.model is not None
    entry = WorkflowTimelineEntry(
        timestamp=timestamp(driver.clock),
        kind=str(EntryKind.REPAIR_RETRY),
        mode=str(mode_of(driver.state.runtime.get("workflow_mode"))),
        reason_code=code,
        summary=f"tool calls are text from now on: {reason}",
    )
    switched = {"model": context.model.name, "dialect": TEXT, "code": code, "reason": reason}
    return RuntimeStateChanged(changes={STATE: switched}), TimelineRecorded(entry=dump(entry))
