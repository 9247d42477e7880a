"""A process that goes on with a session: how long until the model could be asked, and the memory it took.

    python -m bench.figures.resumer URL SESSION WARM_UP FOLDER

WARM_UP is another session, resumed before: what a process imports and prepares once is not counted.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

import msgspec

from bench.figures.workloads.resuming import Resumed
from outlast.agent import Agent
from outlast.models.scripted import ScriptedBackend
from outlast.runtime.agent_config import AgentConfig
from outlast.store import open_store

KIB_A_MB = 1024


def _resume(agent: Agent, session_id: str) -> tuple[float, int]:
    began = time.perf_counter()
    assert agent.resume_session(session_id)
    seen = agent.messages
    return (time.perf_counter() - began) * 1e3, len(seen)


def main(url: str, session_id: str, warm_up: str, folder: Path) -> None:
    with open_store(url) as store:
        agent = Agent(ScriptedBackend(), AgentConfig(auto_context=False), folder, store=store)
        _resume(agent, warm_up)
        ms, messages = _resume(agent, session_id)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_A_MB
    told = Resumed(ms=ms, messages=messages, peak_mb=peak)
    os.write(1, msgspec.json.encode(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
