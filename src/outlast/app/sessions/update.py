"""Changes a session's settings: title, model, persona, permission mode, plan mode and workflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outlast.app.permissions import modes_under
from outlast.app.placement import placed
from outlast.app.sessions.create import check_model, check_persona
from outlast.app.settings import Settings
from outlast.core.errors import ConflictError
from outlast.core.header import Header
from outlast.core.workflow_mode import Workflow, plan_mode_values
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.session_policy import SessionPolicy
from outlast.runtime.service import SessionService
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore
from outlast.store.read.decode import load_state


def change(
    store: LogStore,
    settings: Settings,
    header: Header,
    *,
    door: str,
    title: str | None = None,
    model: str | None = None,
    persona: str | None = None,
    permission_mode: str | None = None,
    plan_mode: bool | None = None,
    workflow: str | None = None,
) -> None:
    """Write all given values, or none; durable on return. The `ConflictError` names the value that is not allowed."""
    check_model(settings, model)
    if persona is not None:
        known = placed(store, header).project_root
        root = Path(known) if known else settings.project_root
        check_persona(settings, root, persona)
    runtime = _runtime(settings, permission_mode, plan_mode, workflow) or None
    if any(given is not None for given in (title, model, persona, runtime)):
        service = SessionService(store, door)
        service.update(header.session_id, title=title, model=model, persona=persona, runtime=runtime)


def _runtime(
    settings: Settings, permission_mode: str | None, plan_mode: bool | None, workflow: str | None
) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if permission_mode is not None:
        allowed = [str(mode) for mode in modes_under(settings.permission_mode)]
        if permission_mode not in allowed:
            raise ConflictError(
                f"permission mode '{permission_mode}' permits more than '{settings.permission_mode}', which this "
                f"process was started with; choose one of {', '.join(allowed)}"
            )
        changes["permission_mode"] = permission_mode
    if plan_mode is not None:
        changes |= plan_mode_values(plan_mode)
    if workflow is not None:
        if workflow not in set(Workflow):
            raise ConflictError(f"'{workflow}' is not a workflow; choose one of {', '.join(Workflow)}")
        changes["workflow"] = workflow
    return changes


def is_to_plan(store: LogStore, header: Header) -> bool:
    """Whether the user asked for plans only; a turn that chose to plan by itself continues with the work."""
    return header.plan_mode and load_state(store, header.session_id).asked_to_plan


def change_running_mode(context: TurnContext | None, permission_mode: str) -> None:
    """Apply the mode to the running turn too; its `SessionPolicy` keeps it below the ceiling."""
    if context is not None and isinstance(context.gate, SessionPolicy):
        context.gate.request(PermissionMode(permission_mode))
