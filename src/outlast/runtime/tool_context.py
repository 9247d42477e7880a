"""What a tool is given by a driver's kit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Never

from outlast.runtime.kit import Kit
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.tools.port import Context, ToolFault

UNCONFINED = frozenset({PermissionMode.DANGER_FULL_ACCESS, PermissionMode.ALLOW})


def tool_context(kit: Kit, session_id: str, call_id: str, runtime: Mapping[str, Any] | None = None) -> Context:
    """The context of a tool that asks nobody and starts nothing; `outlast.runtime.calls` adds what does."""

    async def refused(*_: object) -> Never:
        raise ToolFault("this cannot be done here")

    return Context(
        session_id=session_id,
        call_id=call_id,
        project=kit.project,
        roots=kit.roots,
        state_dir=kit.state_dir,
        mode=kit.gate.mode,
        environment={**kit.environment, "OUTLAST_SESSION_ID": session_id},
        runtime=runtime or {},
        spawned=refused,
        progress=lambda text: kit.progress(call_id, text),
        ask=refused,
        delegate=refused,
        confined=kit.gate.mode not in UNCONFINED,
    )
