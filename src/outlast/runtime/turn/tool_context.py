"""What a tool is given by a turn context.

Where a turn runs: which folder of which machine. What a call did can only be looked at there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Never

from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.tools.port import ToolContext, ToolFault
from outlast.runtime.turn.context import TurnContext
from outlast.store.process_identity import hostname

UNCONFINED = frozenset({PermissionMode.DANGER_FULL_ACCESS, PermissionMode.ALLOW})


def tool_context(
    context: TurnContext, session_id: str, call_id: str, runtime: Mapping[str, Any] | None = None
) -> ToolContext:
    """The context of a tool that asks nobody and starts nothing; `outlast.runtime.turn.tool_calls` adds what does."""

    async def refused(*_: object) -> Never:
        raise ToolFault("this cannot be done here")

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
        delegate=refused,
        confined=context.gate.mode not in UNCONFINED,
    )


def whereabouts(project: Path) -> str:
    """The machine and the real path of a project's folder on it, as one name."""
    return f"{hostname()}:{os.path.realpath(project)}"
