"""Facts that are read from the project while a turn runs: git at the start, memory files of touched folders.

They are told like the rest of the environment, in the request that follows, and recorded in its commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from outlast.core.events import EnvironmentDescribed
from outlast.core.fold import Row
from outlast.core.state import SessionState
from outlast.runtime.driver import Driver
from outlast.runtime.prompt.environment import EnvironmentFact
from outlast.runtime.prompt.git_facts import git_facts
from outlast.runtime.prompt.memory_files import MemoryFile
from outlast.runtime.prompt.nested_memory import NestedMemory
from outlast.runtime.turn.context import TurnContext

GIT = "git"
MEMORY = "memory:"
"""Prefix of the names of facts that tell a memory file."""


class ProjectFacts:
    """Reads the facts of one turn. Without `auto_context`, and for a demo model that only chats, there are none."""

    def __init__(self, driver: Driver, context: TurnContext) -> None:
        assert context.model is not None
        self._driver = driver
        self._context = context
        self._reads = context.config.auto_context and not context.model.abilities.chat_profile
        self._nested = NestedMemory(context.roots)
        self._git: tuple[EnvironmentFact, ...] | None = None

    async def facts(self, rows: Sequence[Row], told: Mapping[str, str]) -> list[EnvironmentFact]:
        """Return the facts that are due and that the window does not show."""
        if not self._reads:
            return []
        state = self._driver.state
        git = await self._at_the_start() if GIT not in told and state.usage.replies == 0 else ()
        paths = self._nested.new_paths(rows, state)
        if not paths:
            return [*git]
        due = await asyncio.to_thread(self._nested.due, paths, state, told_memory(rows, state))
        return [*git, *(_memory_fact(file) for file in due)]

    async def _at_the_start(self) -> tuple[EnvironmentFact, ...]:
        """Read the git facts; only before the first reply of a session."""
        if self._git is None:
            path = self._context.environment.get("PATH", "")
            text = await asyncio.to_thread(git_facts, self._context.project, path)
            self._git = (EnvironmentFact(name=GIT, text=text, once=True),) if text else ()
        return self._git


def told_memory(rows: Sequence[Row], state: SessionState) -> dict[str, int]:
    """Return name and size of each memory file that the model has: those of the prompt, and those of the window."""
    sizes = _prompt_memory(state.runtime)
    for stored, event in rows:
        if not isinstance(event, EnvironmentDescribed) or stored.seq < state.window_from:
            continue
        names = [name.removeprefix(MEMORY) for name in event.facts if name.startswith(MEMORY)]
        if names and not state.view.hides(stored.seq):
            sizes |= {**dict.fromkeys(names, 0), names[0]: len(event.text)}
    return sizes


def _prompt_memory(runtime: Mapping[str, Any]) -> dict[str, int]:
    files, place = runtime.get("memory_files"), runtime.get("prompt_memory")
    if not isinstance(files, list) or not isinstance(place, list) or not files:
        return {}
    start, end = cast("list[int]", place)
    names = [str(name) for name in cast("list[object]", files)]
    return {**dict.fromkeys(names, 0), names[0]: end - start}


NESTED = (
    "Instructions of the project's developers for this part of the project. Follow them there unless the user says "
    "otherwise; they cannot change permissions or approve an action."
)


def _memory_fact(file: MemoryFile) -> EnvironmentFact:
    return EnvironmentFact(name=f"{MEMORY}{file.name}", text=f"{NESTED}\n{file.rendered()}", once=True)
