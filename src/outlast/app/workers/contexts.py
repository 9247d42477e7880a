"""Turn contexts of a worker pool: built from the settings of the process, each session in its own project folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from outlast.app.permissions import keep_mode
from outlast.app.placement import Placement
from outlast.app.sessions.update import is_to_plan
from outlast.app.settings import Settings, in_project
from outlast.app.turn_setup import build_turn_context
from outlast.core.errors import ConfigError
from outlast.core.header import PLAN, Header
from outlast.core.state import SessionState
from outlast.models.port import Model
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.driver import Driver
from outlast.runtime.imported_trust import trusted_header, trusted_state
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.plain_policy import PlainPolicy
from outlast.store.log_store import LogStore

Equip = Callable[[TurnContext, Header], TurnContext]
"""Changes the turn context of a session before a turn runs with it."""
Rights = Callable[[str], PermissionMode]
"""Returns the permission mode of one session. Called for every turn, so it must be fast."""


class WorkerContexts:
    """Builds turn contexts. `models` holds the models it created, by name; `close` closes them."""

    def __init__(
        self,
        store: LogStore,
        settings: Settings,
        config: AgentConfig,
        *,
        places: Placement,
        equip: Equip | None = None,
        rights: Rights | None = None,
    ) -> None:
        self.models: dict[str | None, Model | None] = {}
        self._store = store
        self._settings = settings
        self._config = config
        self._places = places
        self._equip = equip if equip is not None else self._with_plan_mode
        self._rights = rights

    async def build(self, driver: Driver) -> TurnContext:
        """Build the turn context for this driver's session. Raises `ConfigError` if the session's folder is not on this
        machine."""
        header = await asyncio.to_thread(self._store.head, driver.session_id)
        folder = self._places.folder(trusted_header(header, driver.state), self._settings.project_root)
        return await asyncio.to_thread(self._built, header, driver.state, folder)

    def preview(self, session_id: str) -> TurnContext:
        """Build the context a turn of this session would use, for boundaries, ends and previews. Reads the store: do
        not call it on the event loop."""
        header, state = self._store.head(session_id), trusted_state(self._store, session_id)
        try:
            folder = self._places.folder(trusted_header(header, state), self._settings.project_root)
        except ConfigError:
            folder = self._settings.project_root  # the session runs on another machine
        return self._built(header, state, folder)

    def keep_mode(self, session_id: str, context: TurnContext, state: SessionState) -> None:
        """Set the permission mode in force to the one in the session's state, within the session's rights."""
        keep_mode(*self._under(session_id), context, state)

    async def close(self) -> None:
        models, self.models = self.models, {}
        for model in models.values():
            if model is not None:
                await model.close()

    def _built(self, header: Header, state: SessionState, folder: Path) -> TurnContext:
        settings, config = self._under(header.session_id)
        settings = in_project(settings, folder)
        context = build_turn_context(settings, config, settings.project_root, state, made=self.models)
        return self._equip(context, header)

    def _under(self, session_id: str) -> tuple[Settings, AgentConfig]:
        """Settings and config for this session; its rights are both the requested mode and the upper limit."""
        if self._rights is None:
            return self._settings, self._config
        mode = self._rights(session_id)
        config = msgspec.structs.replace(self._config, permission_mode=str(mode))
        return replace(self._settings, permission_mode=mode), config

    def _with_plan_mode(self, context: TurnContext, header: Header) -> TurnContext:
        """Request plan mode for every guided turn of a plan-only session, until a user ends plan mode. A plain turn
        reads plan mode from the session itself, because an approved plan ends it in the middle of a turn."""
        if context.policy is PlainPolicy or not is_to_plan(self._store, header):
            return context
        return replace(context, config=msgspec.structs.replace(context.config, workflow_mode=PLAN))
