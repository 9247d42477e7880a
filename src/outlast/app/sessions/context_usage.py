"""How full a session's context window is."""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.messages import Message, Role
from outlast.core.state import SessionState
from outlast.core.text import text_tokens
from outlast.models.port import WindowSource
from outlast.runtime.history.boundaries import settings_of, settled_window, window_of, window_source
from outlast.runtime.history.window_tokens import limits, message_tokens, request_tokens
from outlast.runtime.turn.context import RequestSetup


class ContextUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated use of the context window; `compacts_at` is where old outputs are pruned and older messages summarised,
    `source` where the size of the window comes from."""

    window: int
    source: str = ""
    used: int
    compacts_at: int
    system: int
    tools: int
    by_role: dict[str, tuple[int, int]]


def context_use(setup: RequestSetup | None, messages: list[Message], state: SessionState) -> ContextUsage:
    """Estimate the size of the next request. Without a model the window is unknown: 0."""
    system, tools = _system_tokens(state), 0
    window = compacts_at = 0
    source = ""
    if setup is not None and setup.model is not None:
        window, source = window_of(setup), window_source(setup).described(window_of(setup))
        compacts_at = limits(settings_of(setup), window, setup.config.max_output_tokens or 0).threshold
        if setup.model.abilities.tools:
            tools = request_tokens((), "", setup.tools.specs())
    by_role: dict[str, tuple[int, int]] = {}
    for message in messages:
        count, tokens = by_role.get(_kind(message), (0, 0))
        by_role[_kind(message)] = (count + 1, tokens + message_tokens(message))
    used = system + tools + sum(tokens for _, tokens in by_role.values())
    return ContextUsage(
        window=window,
        source=source,
        used=used,
        compacts_at=compacts_at,
        system=system,
        tools=tools,
        by_role=by_role,
    )


async def assumed_window(setup: RequestSetup) -> int | None:
    """Return the assumed size of the window of an unknown model, after its server had two seconds to report it;
    None if the size is known."""
    if setup.model is None or setup.model.abilities.chat_profile:
        return None
    await settled_window(setup)
    return window_of(setup) if window_source(setup) is WindowSource.ASSUMED else None


def _kind(message: Message) -> str:
    return "summary" if message.is_summary else str(message.role) if message.role is not Role.TOOL else "tool results"


def _system_tokens(state: SessionState) -> int:
    last: dict[str, Any] = state.prompts[-1] if state.prompts else {}
    return text_tokens(str(last.get("content", "")))
