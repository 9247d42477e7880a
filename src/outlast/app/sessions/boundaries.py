"""Turn contexts for session operations outside a turn: drawing boundaries and ending sessions."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from outlast.app.placement import placed
from outlast.app.sessions.session_list import settings_for
from outlast.app.settings import Settings, in_project
from outlast.app.turn_setup import build_turn_context
from outlast.core.header import Header
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.imported_trust import trusted_state
from outlast.runtime.service import SessionService
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore

NEED_NO_MODEL = frozenset({"rewind", "unrewind", "uncompact", "clear"})


def draw_boundary(
    url: str | None, store: LogStore, session_id: str, what: str, arguments: dict[str, Any], *, model: str | None = None
) -> str:
    """Draw a boundary, or request it if another process drives the session. Returns `done` or `requested`."""
    header = store.head(session_id)
    context = (
        context_without_model(url, store, header) if what in NEED_NO_MODEL else _turn_context(url, store, header, model)
    )
    return asyncio.run(SessionService(store, "cli").boundary(session_id, what, arguments, context))


def context_without_model(url: str | None, store: LogStore, header: Header) -> TurnContext:
    """A turn context for operations that call no model, so none has to be configured."""
    return _turn_context(url, store, header, "none")


def _turn_context(url: str | None, store: LogStore, header: Header, model: str | None) -> TurnContext:
    settings = settings_for(url, placed(store, header), model)
    state = trusted_state(store, header.session_id)
    return build_turn_context(settings, AgentConfig(auto_context=False), settings.project_root, state)


def context_for_door(settings: Settings, store: LogStore, header: Header) -> TurnContext:
    """A turn context for a door with its own settings; calls no model, so none has to be configured."""
    header, state = placed(store, header), trusted_state(store, header.session_id)
    root = Path(header.project_root) if header.project_root else settings.project_root
    there = in_project(settings, root if root.is_dir() else settings.project_root)
    return build_turn_context(replace(there, model="none"), AgentConfig(auto_context=False), there.project_root, state)
