"""Permission modes: which ones a user may choose here, and which one is in force for a session.

Also the user's consent to what a project brings along, which counts only after the user has seen it.
"""

from __future__ import annotations

from pathlib import Path

from outlast.app.settings import PROJECT, Settings, project_file
from outlast.core.errors import ConfigError
from outlast.core.state import SessionState
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.hooks import load_hooks
from outlast.runtime.permissions.consent import Consents, content_digest
from outlast.runtime.permissions.decision import effective_mode
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.paths import reading_fault
from outlast.runtime.permissions.rule_files import PendingConsent, load_rules
from outlast.runtime.permissions.session_policy import SessionPolicy
from outlast.runtime.private_file import read_bytes
from outlast.runtime.prompt.personas import Persona, load_personas
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
        raise ConfigError(f"'{asked}' is not a permission mode; use one of {', '.join(PermissionMode)}")
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
    """What the project brings along and the user has not consented to yet: allow rules, hooks, a choice of the model or
    the persona, and personas that name a model."""
    project = settings.project_root
    rules = load_rules(home=settings.home, project=project, project_key=project_key(project)).pending
    hooks = load_hooks(home=settings.home, project=project, environment={}).pending
    chosen = _pending(settings, project_file(settings)) if settings.left_out else None
    personas = load_personas(settings.home, project).all()
    named = [Path(one.path) for one in personas if one.source == PROJECT and one.model and one.path]
    return [one for one in (rules, hooks, chosen, *(_pending(settings, path) for path in named)) if one is not None]


def _pending(settings: Settings, path: Path) -> PendingConsent | None:
    content = read_bytes(path)
    if content is None or Consents(settings.home).covers(path, content_digest(content)):
        return None
    return PendingConsent(path=path, content=content, digest=content_digest(content))


def consent(settings: Settings, pending: PendingConsent) -> None:
    """Record that the user saw this content and accepts it; durable on return."""
    Consents(settings.home).give(pending.path, pending.digest)
