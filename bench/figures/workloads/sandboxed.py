"""What the walls around a shell command cost: the bash tool with a sandbox, and with the bare supervisor alone.

Both run `true` in the same project, one after the other, so that a busy moment hits both. The session's sandbox stands
already, as it does for every command of a session but the first.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures.figure import Figure
from bench.figures.lab import Lab
from bench.figures.repository import make_repository
from bench.figures.server import Unavailable
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.sandbox import landlock
from outlast.runtime.sandbox.command_sandbox import CommandSandbox
from outlast.runtime.sandbox.hidden_paths import hidden_paths
from outlast.runtime.sandbox.port import SandboxReport, SandboxTier
from outlast.runtime.sandbox.probe import probe_sandbox
from outlast.runtime.tools.port import Spawned, ToolContext, ToolOutcome
from outlast.runtime.tools.process.environment import clean_environment
from outlast.runtime.tools.registry import BuiltinRegistry

FILES, STARTS = 1_000, 40
MOST_MS = 15.0


def sandboxed_start(lab: Lab, kind: str) -> Iterator[Figure]:
    """Of each tier that works here; the one that this machine would use must work."""
    home, project = lab.folder(), make_repository(lab.folder(), lab.count(FILES, 50))
    probed = probe_sandbox(home, os.environ.get("PATH"))
    if probed.tier is not SandboxTier.BUBBLEWRAP:
        raise Unavailable(f"bubblewrap does not work here: {probed.reason}")
    reports = [probed]
    support = landlock.available()
    if support.runs_unasked:
        reports.append(SandboxReport(tier=SandboxTier.LANDLOCK, abi=support.abi))
    for report in reports:
        yield asyncio.run(_measured(lab, report, home, project))


async def _measured(lab: Lab, report: SandboxReport, home: Path, project: Path) -> Figure:
    def hidden() -> tuple[Path, ...]:
        return hidden_paths(user_home=Path.home(), outlast_home=home, environ=os.environ)

    sandbox = CommandSandbox(report, home=home, user_home=Path.home(), hidden=hidden)
    registry = BuiltinRegistry()
    with closing(sandbox):
        try:
            rounds = [await _round(registry, sandbox, home, project, lab.count(STARTS, 3)) for _ in range(lab.rounds)]
        finally:
            await registry.close()
    bare, ours = (median(one[side] for one in rounds) for side in (0, 1))
    return Figure(
        name=f"sandbox-{report.tier}",
        title=f"start of a command in the sandbox, {report.tier}",
        against="the same under the bare supervisor",
        value=median(after - before for before, after in rounds),
        goal=MOST_MS,
        unit="ms more",
        note=f"{ours:.1f} ms against {bare:.1f} ms",
    )


async def _round(
    registry: BuiltinRegistry, sandbox: CommandSandbox, home: Path, project: Path, count: int
) -> tuple[float, float]:
    """The medians of the bare supervisor and of the sandbox, in milliseconds."""
    bare, walled = _context(home, project, confined=False), _context(home, project, sandbox=sandbox)
    await _started(registry, bare)
    await _started(registry, walled)
    pairs = [(await _started(registry, bare), await _started(registry, walled)) for _ in range(count)]
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


async def _started(registry: BuiltinRegistry, context: ToolContext) -> float:
    tool = registry.get("bash")
    assert tool is not None
    began = time.perf_counter()
    outcome = await tool.run({"command": "true"}, context)
    took = (time.perf_counter() - began) * 1e3
    if outcome.facts.get("exit_code") != 0:
        raise Unavailable(f"a command failed: {outcome.text}")
    return took


def _context(home: Path, project: Path, **changes: Any) -> ToolContext:
    return ToolContext(
        session_id="bench",
        call_id="call",
        project=project,
        roots=(project,),
        state_dir=home / "state",
        mode=PermissionMode.WORKSPACE_WRITE,
        environment=clean_environment(dict(os.environ), "bench"),
        spawned=_noted,
        progress=lambda text: None,
        ask=_away,
        approve=_nobody,
        delegate=_refused,
        hidden=(home,),
        **changes,
    )


async def _noted(process: Spawned) -> None:
    """No session records it here."""


async def _away(question: str, choices: list[str]) -> str:
    return ""


async def _nobody(reason: str) -> bool | None:
    return None


async def _refused(prompt: str, persona: str | None) -> ToolOutcome:
    return ToolOutcome(text="no sub-agents here", is_error=True)
