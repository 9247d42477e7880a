"""Agents for tests: a real store, a real project folder, a scripted model, and what the log says afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from outlast import Agent, AgentConfig, CompletionResponse, ToolCall
from outlast.core import events as e
from outlast.models.port import Model
from outlast.models.scripted import Item
from outlast.runtime.turn.approvals import Answerer
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore
from outlast.store.read.decode import decode_events
from outlast.testing import ScriptedBackend

Reply = Item


def call(name: str, call_id: str = "c1", /, **arguments: Any) -> CompletionResponse:
    """A reply that asks for one call."""
    return CompletionResponse(tool_calls=[ToolCall(id=call_id, name=name, arguments=arguments)])


def agent_with(
    store: LogStore,
    project: Path,
    *replies: Reply,
    backend: Model | None = None,
    answerer: Answerer | None = None,
    context: Callable[[TurnContext], TurnContext] | None = None,
    **config: Any,
) -> Agent:
    project.mkdir(exist_ok=True)
    given: dict[str, Any] = {"auto_context": False, **config}
    settings = AgentConfig(**given)
    model = backend if backend is not None else ScriptedBackend(completions=list(replies))
    return Agent(model, settings, project, store=store, answerer=answerer, context=context)


def log_of(agent: Agent) -> list[e.Event | e.Opaque]:
    rows = decode_events(agent.store, agent.store.read(agent.session.session_id))
    return [event for _, event in rows]


def kinds_of(agent: Agent) -> list[str]:
    return [stored.kind for stored in agent.store.read(agent.session.session_id)]


def only(agent: Agent, kind: type[e.Event]) -> list[Any]:
    return [event for event in log_of(agent) if isinstance(event, kind)]
