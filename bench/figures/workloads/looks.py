"""What it costs to know what a shell command changed: a look at the project before it and after it.

The yardstick is `git status` in the same repository, warm, in turns with the looks. A command that is known only to
read has no looks at all; a real turn with such commands shows it, and a command that writes shows that looks count.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from bench.figures.figure import Figure, ratio
from bench.figures.lab import Lab
from bench.figures.repository import make_repository, run_git
from bench.figures.turns import in_turns
from outlast.agent import Agent
from outlast.app.sandbox import command_sandbox
from outlast.app.settings import load_settings
from outlast.core.messages import ToolCall
from outlast.models.port import CompletionResponse
from outlast.models.scripted import ScriptedBackend
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.changes.session_changes import WorkspaceChanges
from outlast.runtime.changes.workspace_index import RootChanges, WorkspaceIndex

FILES, LOOKS = 10_000, 20
MOST = 1.5
READING = (
    "ls", "cat part0/folder0/module_0.py", "grep -rn NUMBER part0 | head -n 5", "git status --short", "git log -n 3",
    "git diff", "find . -name '*.py' | wc -l", "sed -n 1,5p part0/folder0/module_1.py", "pwd", "wc -l part0/*/*.py",
)  # fmt: skip
WRITING = "echo more > new.txt"


def looks(lab: Lab, kind: str) -> Iterator[Figure]:
    files = lab.count(FILES, 100)
    project = make_repository(lab.folder(), files)
    changes = WorkspaceChanges(lab.folder() / "changes", project, (project,))
    changes.before("first", 1)
    time.sleep(0.05)  # what changed within a tick of the clock is read again; nobody starts a command so soon
    changes.after()

    def look(count: int) -> None:
        for number in range(count):
            if number % 2 == 0:
                changes.before("call", 1)
            elif changes.after().files:
                raise RuntimeError("a look at unchanged files found a change")

    def status(count: int) -> None:
        for _ in range(count):
            run_git(project, "status", "--porcelain")

    rounds = in_turns(lab.rounds, lab.count(LOOKS, 2), status, look, per=1e3, piece=2)
    title = f"a look at {files:,} unchanged files"
    yield ratio("looks", title, "`git status --porcelain` there", rounds, measured_in="ms", goal=MOST)
    yield from _of_reading(lab, kind, project)


def _of_reading(lab: Lab, kind: str, project: Path) -> Iterator[Figure]:
    count, control = _counted(lab, kind, project, READING), _counted(lab, kind, project, (WRITING,))
    if control < 2:
        raise RuntimeError("a command that writes was not looked at, so that the count means nothing")
    yield Figure(
        name="looks-reading",
        title=f"looks around {len(READING)} commands that only read",
        against="-",
        value=float(count),
        goal=0.0,
        unit="in all",
        note=f"{control} around one that writes",
    )


def _counted(lab: Lab, kind: str, project: Path, commands: tuple[str, ...]) -> int:
    """How many looks a turn with these commands had."""
    counted = 0
    real = WorkspaceIndex.look

    def look(index: WorkspaceIndex) -> RootChanges:
        nonlocal counted
        counted += 1
        return real(index)

    replies = [
        CompletionResponse(tool_calls=[ToolCall(id=f"c{at}", name="bash", arguments={"command": command})])
        for at, command in enumerate(commands)
    ]
    settings = load_settings(home=lab.folder(), project_root=project, permission_mode="allow")
    model, config = ScriptedBackend(completions=[*replies, "Done."]), AgentConfig(auto_context=False)
    with patch.object(WorkspaceIndex, "look", look), lab.store(kind) as store:
        agent = Agent(model, config, project, store=store, settings=settings)
        answer = asyncio.run(agent.run("Look."))
    sandbox = command_sandbox(settings)
    if sandbox is not None:
        sandbox.close()
    if answer != "Done.":
        raise RuntimeError(f"the turn ended otherwise: {answer}")
    return counted
