"""A driver that stops itself (SIGSTOP) at a failpoint, and says how it ended when it was allowed to go on.

    python -m tests.faults.stopping_driver URL FOLDER FAILPOINT LEASE_MS

The session's id is its first line of output. It ends as a door would: one sentence and the error's own exit code.
"""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from outlast import Agent, AgentConfig, ReasoningConfig
from outlast.app.settings import load_settings
from outlast.core.errors import OutlastError
from outlast.models.scripted import ScriptedFile
from outlast.runtime import failpoints
from outlast.runtime.turn.context import TurnContext
from outlast.store import open_store
from outlast.store.log_store import LogStore

SCRIPT = """[
  {"tool_calls": [{"id": "n1", "name": "bash", "arguments": {"command": "echo one >> witness.txt"}}]},
  {"tool_calls": [{"id": "n2", "name": "bash", "arguments": {"command": "echo two >> witness.txt"}}]},
  {"content": "Both are done."}
]"""


def driver_in(store: LogStore, folder: Path, lease_ms: int) -> Agent:
    """An agent with the same script in whichever process it is."""
    project, script = folder / "project", folder / "script.json"
    project.mkdir(exist_ok=True)
    script.write_text(SCRIPT)
    reasoning = ReasoningConfig(completion_check=False, verification=False)
    config = AgentConfig(auto_context=False, workflow_mode="execute", reasoning=reasoning)
    settings = load_settings(home=folder / "home", project_root=project)

    def shorter(context: TurnContext) -> TurnContext:
        return replace(context, ttl_ms=lease_ms)

    return Agent(ScriptedFile(script), config, project, store=store, settings=settings, context=shorter)


def stop_at(name: str) -> None:
    def hook(reached: str) -> None:
        if reached == name:
            failpoints.install(None)
            os.kill(os.getpid(), signal.SIGSTOP)

    failpoints.install(hook)


async def main(url: str, folder: Path, failpoint: str, lease_ms: int) -> int:
    stop_at(failpoint)
    with open_store(url) as store:
        agent = driver_in(store, folder, lease_ms)
        agent.session.persist()
        os.write(1, f"{agent.session.session_id}\n".encode())
        try:
            await agent.run("Do both.")
        except OutlastError as error:
            os.write(1, f"{type(error).__name__}: {error}\n".encode())
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
