"""The registry of tools by name: their specifications for the model, and the check whether a call fits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from outlast.models.port import ToolSpec
from outlast.runtime.tools.builtin.apply_patch import APPLY_PATCH, prefers_patch
from outlast.runtime.tools.builtin.bash import Bash
from outlast.runtime.tools.builtin.edit import EDIT
from outlast.runtime.tools.builtin.glob import GLOB
from outlast.runtime.tools.builtin.interaction import ASK_USER, TASK, TODO
from outlast.runtime.tools.builtin.plan_mode import ENTER_PLAN, EXIT_PLAN
from outlast.runtime.tools.builtin.read import READ
from outlast.runtime.tools.builtin.recall import RECALL
from outlast.runtime.tools.builtin.search import SEARCH
from outlast.runtime.tools.builtin.skill import SKILL
from outlast.runtime.tools.builtin.web_fetch import WebFetch
from outlast.runtime.tools.builtin.write import WRITE
from outlast.runtime.tools.port import Tool
from outlast.runtime.tools.process.background_jobs import Jobs, kill_tool, output_tool


def built_in_tools(jobs: Jobs, web: WebFetch | None = None) -> tuple[Tool, ...]:
    """Return every tool that comes with Outlast, in the order in which the model sees them."""
    return (
        READ,
        WRITE,
        EDIT,
        APPLY_PATCH,
        GLOB,
        SEARCH,
        Bash(jobs).tool(),
        output_tool(jobs),
        kill_tool(jobs),
        TODO,
        ASK_USER,
        (web or WebFetch()).tool(),
        TASK,
        RECALL,
        SKILL,
        ENTER_PLAN,
        EXIT_PLAN,
    )


class BuiltinRegistry:
    """The tools of an agent: `tools`, or the built-in ones by default. `only` keeps the named ones."""

    def __init__(self, tools: Iterable[Tool] | None = None, *, jobs: Jobs | None = None) -> None:
        self.jobs = jobs or Jobs()
        self._tools = {tool.name: tool for tool in (built_in_tools(self.jobs) if tools is None else tools)}

    def only(self, names: Iterable[str]) -> BuiltinRegistry:
        """Return a registry with only the named tools and the same jobs."""
        wanted = set(names)
        return BuiltinRegistry((tool for tool in self._tools.values() if tool.name in wanted), jobs=self.jobs)

    def for_model(self, model: str | None, apply_patch: bool | None = None) -> BuiltinRegistry:
        """Return a registry with the tools for a model of this name: with apply_patch only if the model is trained on
        patches, or if `apply_patch` says so."""
        if prefers_patch(model) if apply_patch is None else apply_patch:
            return self
        return self.only(name for name in self._tools if name != APPLY_PATCH.name)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def specs(self) -> tuple[ToolSpec, ...]:
        """The specifications for the model, always in the same order so that a provider's prompt cache is valid."""
        return tuple(
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.parameters)
            for tool in self._tools.values()
        )

    def fault(self, name: str, arguments: dict[str, Any]) -> str | None:
        """Return why a call cannot be carried out, in one sentence that names what is wrong; None if it can."""
        tool = self._tools.get(name)
        if tool is None:
            return f"there is no tool '{name}'; there are {', '.join(self._tools)}"
        wrong = tool.fault(arguments)
        return f"{name}: {wrong}" if wrong else None

    async def close(self, session_id: str | None = None) -> None:
        """End the background jobs of one session, or of all sessions."""
        await self.jobs.close(session_id)
