"""Builds the context of a tool from the context of a turn, and names the folder and machine where a turn runs.

The effect of a call can be checked only in that folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Never

from outlast.core.workflow_mode import WorkflowMode
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.tools.port import ToolContext, ToolFault
from outlast.runtime.turn.context import TurnContext
from outlast.store.process_identity import hostname


def tool_context(
    context: TurnContext, session_id: str, call_id: str, runtime: Mapping[str, Any] | None = None
) -> ToolContext:
    """Return a tool context that cannot ask the user, record processes or delegate; `turn.tool_calls` adds those."""

    async def refused(*_: object) -> Never:
        raise ToolFault("this cannot be done here")

    planning = (runtime or {}).get("workflow_mode") == WorkflowMode.PLAN
    looking = context.gate.mode is PermissionMode.READ_ONLY or planning
    walled = looking or context.gate.mode is not PermissionMode.DANGER_FULL_ACCESS
    return ToolContext(
        session_id=session_id,
        call_id=call_id,
        project=context.project,
        roots=context.roots,
        state_dir=context.state_dir,
        mode=context.gate.mode,
        environment={**context.environment, "OUTLAST_SESSION_ID": session_id},
        runtime=runtime or {},
        spawned=refused,
        progress=lambda text: context.observer.call_output(call_id, text),
        ask=refused,
        approve=refused,
        delegate=refused,
        skills=context.skills,
        confined=looking or (walled and not context.external),
        sandbox=context.sandbox if walled else None,
        looking=looking,
        hidden=context.hidden,
    )


def whereabouts(project: Path) -> str:
    """Return one name for the machine and the real path of a project's folder on it."""
    return f"{hostname()}:{os.path.realpath(project)}"
