"""Replay of recorded runs: no request, command or prompt that the recorded model did not cause, and a stable prefix."""

import json
from pathlib import Path

import msgspec
import pytest

from outlast import Agent, AgentConfig
from outlast.core import events as e
from outlast.models.port import Abilities, ModelRequest
from outlast.models.scripted import ScriptedBackend
from outlast.store import open_store
from tests.support.agents import only
from tests.workflow.trajectory import recorded_run, replies


def sent(request: ModelRequest) -> list[bytes]:
    return [msgspec.json.encode((message.role, message.parts)) for message in request.messages]


@pytest.mark.parametrize(("seed", "steps"), [(1, 300), (2, 80), (3, 80)])
async def test_a_recorded_run_goes_exactly_as_recorded(seed: int, steps: int, tmp_path: Path) -> None:
    files, run = recorded_run(seed, steps)
    run = json.loads(json.dumps(run))  # as it would be read from a file
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    backend = ScriptedBackend(completions=replies(run), abilities=Abilities(context_window=2_000_000, summarises=False))
    config = AgentConfig(auto_context=False, allow=("bash",))
    agent = Agent(backend, config, tmp_path, store=open_store("memory://"))
    assert await agent.run("Please solve this issue: values are wrong, and names too.") == "All of it is done."

    assert len(backend.requests) == steps
    assert len({request.system for request in backend.requests}) == 1
    assert len(only(agent, e.PromptRecorded)) == len(only(agent, e.EnvironmentDescribed)) == 1
    before: list[bytes] = []
    for request in backend.requests:
        now = sent(request)
        assert now[: len(before)] == before
        before = now
    planned = [f"s{number}-{place}" for number, step in enumerate(run) for place in range(len(step["calls"]))]
    assert [done.call_id for done in only(agent, e.ToolCallFinished)] == planned
    assert [ended.outcome for ended in only(agent, e.TurnEnded)] == ["completed"]
    assert not only(agent, e.MessageAppended)
    assert not [done for done in only(agent, e.ToolCallFinished) if done.status in {"blocked", "declined"}]
