"""A context for tools under test: a project in a temporary folder, and callbacks that note what they were given."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.tools.port import Spawned, Tool, ToolContext, ToolFault, ToolOutcome
from outlast.runtime.tools.registry import BuiltinRegistry

PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass
class Setting:
    """A project `proj` with a neighbour `proj-evil` and a secret outside."""

    base: Path
    registry: BuiltinRegistry = field(default_factory=BuiltinRegistry)
    spawned: list[Spawned] = field(default_factory=list[Spawned])
    heard: list[str] = field(default_factory=list[str])
    answer: str = "yes"

    def __post_init__(self) -> None:
        self.project.mkdir()
        (self.base / "proj-evil").mkdir()
        self.secret.write_text("secret\n")

    @property
    def project(self) -> Path:
        return self.base / "proj"

    @property
    def secret(self) -> Path:
        return self.base / "secret.txt"

    def context(self, **changes: Any) -> ToolContext:
        async def spawned(process: Spawned) -> None:
            self.spawned.append(process)

        async def ask(question: str, choices: list[str]) -> str:
            return f"{question} {choices} {self.answer}"

        async def approve(reason: str) -> bool | None:
            return None

        async def delegate(prompt: str, persona: str | None) -> ToolOutcome:
            return ToolOutcome(text=f"{persona}: {prompt}")

        context = ToolContext(
            session_id="session1",
            call_id="call1",
            project=self.project,
            roots=(self.project,),
            state_dir=self.base / "state",
            mode=PermissionMode.WORKSPACE_WRITE,
            environment={"PATH": PATH, "HOME": str(self.base)},
            spawned=spawned,
            progress=self.heard.append,
            ask=ask,
            approve=approve,
            delegate=delegate,
        )
        return msgspec.structs.replace(context, **changes)

    def tool(self, name: str) -> Tool:
        tool = self.registry.get(name)
        assert tool is not None
        return tool

    async def run(self, tool_name: str, context: ToolContext | None = None, **arguments: Any) -> ToolOutcome:
        assert self.registry.fault(tool_name, arguments) is None
        return await self.tool(tool_name).run(arguments, context or self.context())

    async def fault(self, tool_name: str, context: ToolContext | None = None, **arguments: Any) -> str:
        """The sentence that the tool refuses with."""
        try:
            outcome = await self.run(tool_name, context, **arguments)
        except ToolFault as fault:
            return str(fault)
        raise AssertionError(f"was not refused: {outcome.text}")
