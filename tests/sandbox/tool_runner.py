"""Runs commands through the product: the bash tool, with the sandbox and the settings that the app gives it."""

import asyncio
import threading
from pathlib import Path

from outlast.app.sandbox import command_sandbox
from outlast.app.settings import Settings
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.sandbox.limits import ResourceLimits
from outlast.runtime.sandbox.port import Lifted, Need, SandboxTier
from outlast.runtime.tools.port import Spawned, ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.process.environment import clean_environment
from outlast.runtime.tools.registry import BuiltinRegistry
from tests.sandbox.world import OTHER, OURS, PROJECT

LIMITS = ResourceLimits(file_bytes=8 << 20, processes=400, tmp_bytes=8 << 20)
"""Small ones, so that a bomb of an attack is small too."""


class ToolRunner:
    """The bash tool of an agent whose user is away: what is asked is refused."""

    def __init__(self, environment: dict[str, str], limits: ResourceLimits = LIMITS, network: str = "ask") -> None:
        self.environment = environment
        self.asked: list[Need] = []
        self.granted: set[Need] | None = None
        """Walls that the user has lifted for the session; None: the user is away."""
        self.code: int | None = None
        self._calls = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._registry = BuiltinRegistry()
        sandbox = command_sandbox(
            Settings(
                home=OURS, project_root=PROJECT, store=str(OURS / "outlast.db"), sandbox_limits=limits, network=network
            )
        )
        assert sandbox is not None
        assert sandbox.report.tier is SandboxTier.BUBBLEWRAP, sandbox.report
        self.sandbox = sandbox

    def run(self, command: str, *, read_only: bool = False, elsewhere: bool = False) -> str:
        project = OTHER if elsewhere else PROJECT
        outcome = asyncio.run_coroutine_threadsafe(self._call(command, project, read_only), self._loop).result(60)
        self.code = outcome.facts.get("exit_code")
        return outcome.text

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._registry.close(), self._loop).result(30)
        self.sandbox.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _call(self, command: str, project: Path, read_only: bool) -> ToolOutcome:
        tool = self._registry.get("bash")
        assert tool is not None
        try:
            return await tool.run({"command": command, "timeout": 30}, self._context(project, read_only))
        except ToolFault as fault:
            return ToolOutcome(text=f"refused: {fault}", is_error=True)

    async def _lift(self, need: Need) -> Lifted:
        if self.granted is None:
            self.asked.append(need)
            return Lifted.NO
        if need not in self.granted:
            self.asked.append(need)
            self.granted.add(need)
        return Lifted.NAMED

    def _context(self, project: Path, read_only: bool) -> ToolContext:
        self._calls += 1
        return ToolContext(
            session_id=f"session-{project.name}",
            call_id=f"call{self._calls}",
            project=project,
            roots=(project,),
            state_dir=OURS / "state",
            mode=PermissionMode.READ_ONLY if read_only else PermissionMode.WORKSPACE_WRITE,
            environment=clean_environment(self.environment, f"session-{project.name}"),
            spawned=_noted,
            progress=lambda text: None,
            ask=_away,
            approve=_nobody,
            delegate=_refused,
            lift=self._lift,
            sandbox=self.sandbox,
            looking=read_only,
            hidden=(OURS,),
        )


async def _noted(process: Spawned) -> None:
    """No session records it here."""


async def _away(question: str, choices: list[str]) -> str:
    return "the user is away"


async def _nobody(reason: str) -> bool | None:
    return None


async def _refused(prompt: str, persona: str | None) -> ToolOutcome:
    return ToolOutcome(text="no sub-agents here", is_error=True)
