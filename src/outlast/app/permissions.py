"""Permission modes: which ones a user may choose here, and which one is in force for a session.

Also the user's consent to a project's allow rules and hooks, which count only after the user has seen them.
"""

from __future__ import annotations

from pathlib import Path

from outlast.app.settings import Settings
from outlast.core.errors import ConfigError
from outlast.core.state import SessionState
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.hooks import load_hooks
from outlast.runtime.permissions.consent import Consents
from outlast.runtime.permissions.decision import effective_mode
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.paths import reading_fault
from outlast.runtime.permissions.rule_files import PendingConsent, load_rules
from outlast.runtime.permissions.session_policy import SessionPolicy
from outlast.runtime.prompt.personas import Persona
from outlast.runtime.prompt.project_identity import project_key
from outlast.runtime.turn.context import TurnContext


def modes_under(ceiling: PermissionMode) -> list[PermissionMode]:
    """The modes a user may choose here, most restrictive first; never more than `ceiling`."""
    return [mode for mode in _ORDER if effective_mode(mode, ceiling) is mode]


_ORDER = (
    PermissionMode.READ_ONLY,
    PermissionMode.PROMPT,
    PermissionMode.WORKSPACE_WRITE,
    PermissionMode.DANGER_FULL_ACCESS,
    PermissionMode.ALLOW,
)


def permitted_mode(
    settings: Settings, config: AgentConfig, state: SessionState, persona: Persona | None = None
) -> PermissionMode:
    """The mode in force: requested by the caller, else by the session, never above the process's ceiling."""
    ceiling = settings.permission_mode
    asked = config.permission_mode or state.runtime.get("permission_mode") or ceiling
    if asked not in set(PermissionMode):
        raise ConfigError(f"'{asked}' is no permission mode; use one of {', '.join(PermissionMode)}")
    mode = effective_mode(PermissionMode(asked), ceiling)
    return persona.mode_under(mode) if persona is not None else mode


def keep_mode(settings: Settings, config: AgentConfig, context: TurnContext, state: SessionState) -> None:
    """Apply the session's current mode to the running turn: a user may change it while the turn runs."""
    if isinstance(context.gate, SessionPolicy):
        context.gate.request(permitted_mode(settings, config, state, context.persona))


def permission_mode_of(settings: Settings, state: SessionState) -> str:
    """The mode a turn of this session would have here, for display; an unknown mode counts as the ceiling."""
    asked = state.runtime.get("permission_mode")
    known = asked if asked in set(PermissionMode) else settings.permission_mode
    return str(effective_mode(PermissionMode(known), settings.permission_mode))


def is_readable_unasked(path: Path, project: Path) -> bool:
    """Whether the model may read this file of the project without a question to the user."""
    return reading_fault(str(path), str(project), (project,)) is None


def pending_consents(settings: Settings) -> list[PendingConsent]:
    """The project's allow rules and hooks that the user has not consented to yet."""
    project = settings.project_root
    rules = load_rules(home=settings.home, project=project, project_key=project_key(project)).pending
    hooks = load_hooks(home=settings.home, project=project, environment={}).pending
    return [one for one in (rules, hooks) if one is not None]


def consent(settings: Settings, pending: PendingConsent) -> None:
    """Record that the user saw this content and accepts it; durable on return."""
    Consents(settings.home).give(pending.path, pending.digest)
