"""Agents with the guided workflow and a scripted model, and what their logs say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outlast import Agent, CompletionResponse, load_settings
from outlast.app.turn_setup import build_turn_context
from outlast.core import events as e
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore
from outlast.store.read.decode import load_state
from outlast.testing import ScriptedBackend
from tests.support.agents import Reply, agent_with, call, only

SENTINEL = "A request too many was made."
"""A reply that no script needs: a turn that returns it has asked the model once too often."""


def guided(store: LogStore, project: Path, *replies: Reply, **config: Any) -> Agent:
    return agent_with(store, project, *replies, SENTINEL, workflow="guided", **config)


def requests(agent: Agent) -> int:
    backend = agent.backend
    assert isinstance(backend, ScriptedBackend)
    return len(backend.requests)


def codes(agent: Agent) -> list[str]:
    return [decided.code for decided in only(agent, e.CompletionDecided)]


def uninvited(agent: Agent) -> list[str]:
    """The commands that the runtime ran by itself."""
    started = only(agent, e.ToolCallStarted)
    return [one.arguments["command"] for one in started if one.call_id.startswith("verify-")]


def ended(agent: Agent) -> e.TurnEnded:
    found: e.TurnEnded = only(agent, e.TurnEnded)[-1]
    return found


def turn_context(agent: Agent) -> TurnContext:
    settings = load_settings(project_root=agent.project_root)
    state = load_state(agent.store, agent.session.session_id)
    return build_turn_context(settings, agent.config, agent.project_root, state, backend=agent.backend)


def todo(call_id: str, **items: str) -> CompletionResponse:
    listed = [{"content": content, "status": status} for content, status in items.items()]
    return call("todo", call_id, items=listed)


def bash(call_id: str, command: str) -> CompletionResponse:
    return call("bash", call_id, command=command)


WRITE = call("write", "w1", file_path="a.py", content="x = 1\n")
