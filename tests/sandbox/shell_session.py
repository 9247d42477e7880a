"""The bash tools of one session in a real sandbox, without a model: for tests of jobs and concurrent commands."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from outlast.app.sandbox import command_sandbox, sandbox_report
from outlast.app.settings import load_settings
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.sandbox.port import Lifted, Need, SandboxTier, parse_need
from outlast.runtime.tools.port import Spawned, ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.process.environment import clean_environment
from outlast.runtime.tools.registry import BuiltinRegistry
from tests.conftest import everything_is_required


class ShellSession:
    """Runs commands like a session whose user lifts the walls in `granted` and no others."""

    def __init__(self, base: Path, project: Path, environment: dict[str, str]) -> None:
        self.home, self.project = base / "home", project
        self.granted: set[Need] = set()
        self._environment = environment
        self._registry = BuiltinRegistry()
        self._calls = 0
        settings = load_settings(home=self.home, project_root=project, sandbox="auto")
        report = sandbox_report(settings)
        if report.tier is not SandboxTier.BUBBLEWRAP:
            (pytest.fail if everything_is_required() else pytest.skip)(report.reason)
        found = command_sandbox(settings)
        assert found is not None
        self.sandbox = found

    async def call(self, tool: str, *needs: str, **arguments: Any) -> ToolOutcome:
        found = self._registry.get(tool)
        assert found is not None
        return await found.run(arguments, self._context([parse_need(need, self.project) for need in needs]))

    async def run(self, command: str, *needs: str) -> str:
        try:
            return (await self.call("bash", *needs, command=command, timeout=30)).text
        except ToolFault as fault:
            return str(fault)

    async def start(self, command: str, *needs: str) -> str:
        """Start a background job; return its id."""
        outcome = await self.call("bash", *needs, command=command, background=True)
        return str(outcome.facts["job_id"])

    async def ended(self, job_id: str) -> ToolOutcome:
        """Wait for the end of a job; return what `bash_output` says then."""
        for _ in range(200):
            outcome = await self.call("bash_output", job_id=job_id)
            if not re.search(r": running\]", outcome.text):
                return outcome
            await asyncio.sleep(0.05)
        raise AssertionError(f"{job_id} did not end")

    async def close(self) -> None:
        await self._registry.close()
        self.sandbox.close()

    def _context(self, needs: list[Need]) -> ToolContext:
        self._calls += 1

        async def lift(need: Need) -> Lifted:
            return Lifted.NAMED if need in self.granted else Lifted.NO

        async def noted(_: Spawned) -> None:
            return None

        async def nothing(*_: object) -> Any:
            raise AssertionError("no tool asks here")

        return ToolContext(
            session_id="session",
            call_id=f"call{self._calls}",
            project=self.project,
            roots=(self.project,),
            state_dir=self.home / "state",
            mode=PermissionMode.WORKSPACE_WRITE,
            environment=clean_environment(self._environment, "session"),
            spawned=noted,
            progress=lambda text: None,
            ask=nothing,
            approve=nothing,
            delegate=nothing,
            lift=lift,
            sandbox=self.sandbox,
            hidden=(self.home,),
            needs=tuple(needs),
        )
