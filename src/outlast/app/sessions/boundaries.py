"""What doors do to a session that needs a turn context: boundaries, ends, forks."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

from outlast.app.sessions.listing import settings_for
from outlast.app.settings import Settings, in_project
from outlast.app.turn_setup import AgentConfig, build_turn_context
from outlast.core import events as e
from outlast.core.errors import InvalidInput
from outlast.core.event_row import Actor
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.window import unread
from outlast.runtime.service import SessionService
from outlast.runtime.turn.context import TurnContext
from outlast.store.lineage import fork
from outlast.store.log_store import LogStore
from outlast.store.port import NewEvent
from outlast.store.read.decode import load_state

NEED_NO_MODEL = frozenset({"rewind", "unrewind", "uncompact", "clear"})


def draw_boundary(
    url: str | None, store: LogStore, session_id: str, what: str, arguments: dict[str, Any], *, model: str | None = None
) -> str:
    """Draw a boundary, or request it while somebody drives the session: "done" or "requested"."""
    header = store.head(session_id)
    context = (
        context_without_model(url, store, header) if what in NEED_NO_MODEL else _turn_context(url, store, header, model)
    )
    return asyncio.run(SessionService(store, "cli").boundary(session_id, what, arguments, context))


def context_without_model(url: str | None, store: LogStore, header: Header) -> TurnContext:
    """For what asks no model: none is looked for, so none need be configured."""
    return _turn_context(url, store, header, "none")


def _turn_context(url: str | None, store: LogStore, header: Header, model: str | None) -> TurnContext:
    settings = settings_for(url, header, model)
    state = load_state(store, header.session_id)
    return build_turn_context(settings, AgentConfig(auto_context=False), settings.project_root, state)


def context_for_door(settings: Settings, store: LogStore, header: Header) -> TurnContext:
    """For a door with settings of its own that asks no model: none is looked for, and none need be configured."""
    root = Path(header.project_root) if header.project_root else settings.project_root
    there = in_project(settings, root if root.is_dir() else settings.project_root)
    state = load_state(store, header.session_id)
    return build_turn_context(replace(there, model="none"), AgentConfig(auto_context=False), there.project_root, state)


def forked(
    store: LogStore, session_id: str, *, at: int | None = None, title: str | None = None, door: str = "cli"
) -> str:
    """A new session that goes on from event `at` (the newest by default); its id. The old one is not touched."""
    header = store.head(session_id)
    at = header.last_seq if at is None else at
    if not 1 <= at <= header.last_seq:
        raise InvalidInput(f"there is no event {at} to fork at; the session has events 1 to {header.last_seq}")
    actor = Actor("user", door).text()
    made = id_from(secrets.token_bytes(16))
    state = load_state(store, session_id, upto=at)
    waiting = unread(state)  # nobody will answer them in the fork, but they were said
    more: list[e.Event] = [e.InputPromoted(inputs=waiting)] if waiting else []
    more += [e.SessionRenamed(title=title)] if title is not None else []
    write = fork(
        header,
        made,
        at=at,
        messages=state.message_count,
        boundary_seq=state.journal[-1].seq if state.journal else 0,
        plan_mode=state.plan_mode,
        actor=actor,
        events=tuple(NewEvent(event=event, actor=actor) for event in more),
    )
    store.commit(write)
    return made
