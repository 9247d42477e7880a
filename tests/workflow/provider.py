"""Compares the requests a provider got with what the user and the model caused: the runtime may add none of its own."""

from __future__ import annotations

from pathlib import Path

from outlast import Agent, AgentConfig
from outlast.core import events as e
from outlast.core.messages import Message, Role
from outlast.models.port import CompletionResponse
from outlast.models.scripted import ScriptedBackend
from outlast.store.log_store import LogStore
from tests.support.agents import only
from tests.workflow.prompts import FILES

ENVIRONMENT = "[Outlast runtime] Your environment:"


class Uncaused(AssertionError):
    """The runtime sent something, ran something or said something that nobody had asked for."""


def project_at(folder: Path) -> Path:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def agent_at(store: LogStore, folder: Path, script: list[CompletionResponse], workflow: str, *, allow: bool) -> Agent:
    rules = ("bash",) if allow else ()
    config = AgentConfig(workflow=workflow, auto_context=False, allow=rules)
    model = ScriptedBackend(completions=[*script, *(script[-1:] * 9)])  # a nudged model repeats its answer
    return Agent(model, config, project_at(folder), store=store)


def requests_of(agent: Agent) -> int:
    assert isinstance(agent.backend, ScriptedBackend)
    return len(agent.backend.requests)


def check_plain(agent: Agent, prompt: str, script: list[CompletionResponse], answer: str) -> None:
    """Raise `Uncaused` unless every request, call and word of this turn comes from the prompt or the script."""
    assert isinstance(agent.backend, ScriptedBackend)
    requests = agent.backend.requests
    if len(requests) != len(script):
        raise Uncaused(f"{len(requests)} requests for {len(script)} replies")
    for number, request in enumerate(requests):
        if request.system != requests[0].system:
            raise Uncaused("the system prompt changed")
        _check_said(request.messages, prompt, script[:number])
    planned = [call.id for reply in script for call in reply.tool_calls or ()]
    started = [started.call_id for started in only(agent, e.ToolCallStarted)]
    if not set(started) <= set(planned):
        raise Uncaused(f"the runtime ran {set(started) - set(planned)}")
    [ended] = only(agent, e.TurnEnded)
    if (ended.outcome, answer) != ("completed", script[-1].content):
        raise Uncaused(f"the turn ended {ended.outcome} with {answer!r}")


def _check_said(messages: list[Message], prompt: str, before: list[CompletionResponse]) -> None:
    """Check that the messages are the environment, the prompt, and the model's replies with their results."""
    said = [message for message in messages if not message.content.startswith(ENVIRONMENT)]
    if said[0].role is not Role.USER or said[0].content != prompt:
        raise Uncaused(f"the first message is {said[0].content!r}")
    asked = {call.id for reply in before for call in reply.tool_calls or ()}
    for message in said[1:]:
        answered = {result.call_id for result in message.tool_results}
        if message.role is Role.TOOL and answered <= asked:
            continue
        if message.role is not Role.ASSISTANT:
            raise Uncaused(f"nobody caused the message {message.content!r}")
