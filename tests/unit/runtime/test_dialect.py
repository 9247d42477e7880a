"""The dialect of tool calls: when a session switches to text, that it stays there, and what never runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, CompletionResponse, open_store
from outlast.core import events as e
from outlast.core.errors import ConfigError, ToolsUnsupported
from outlast.core.messages import Role, ToolCall, text_of
from outlast.models.port import Abilities, ModelEvent, ModelRequest
from outlast.runtime.agent_config import ReasoningConfig
from outlast.runtime.turn.context import PolicyFactory
from outlast.runtime.turn.plain_policy import PlainPolicy
from outlast.store.log_store import LogStore
from outlast.testing import ScriptedBackend
from outlast.workflow.guided_policy import GuidedPolicy
from tests.support.agents import Reply, agent_with, call, log_of, only

POLICIES: dict[str, PolicyFactory] = {"plain": PlainPolicy, "guided": GuidedPolicy}
READ = 'I look.\nAction: read\nAction Input: {"file_path": "a.txt"}'
FENCED = 'I look.\n```json\n{"name": "read", "arguments": {"file_path": "a.txt"}}\n```'
TAGGED = '<tool_call>{"name": "read", "arguments": {"file_path": "a.txt"}}</tool_call>'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    return folder


@pytest.fixture(params=["plain", "guided"])
def workflow(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(
    store: LogStore, project: Path, *replies: Reply, workflow: str = "plain", provider: str = "scripted", **config: Any
) -> tuple[Agent, ScriptedBackend]:
    backend = ScriptedBackend(list(replies), name=f"{provider}:m")
    backend.provider = provider
    policy = POLICIES[workflow]
    agent = agent_with(store, project, backend=backend, context=lambda given: replace(given, policy=policy), **config)
    return agent, backend


def formats(agent: Agent) -> list[str | None]:
    return [snapshot.prompt_format for snapshot in agent.session.prompt_history]


async def test_a_server_that_refuses_tools_is_asked_again_in_the_text_dialect(
    store: LogStore, project: Path, workflow: str
) -> None:
    refused = ToolsUnsupported("m takes no tools (400: m does not support tools)", status=400)
    agent, backend = made(store, project, refused, READ, "It says hello.", "Still hello.", workflow=workflow)
    assert await agent.run("What does a.txt say?") == "It says hello."
    assert [bool(request.tools) for request in backend.requests] == [True, False, False]
    assert formats(agent) == ["native", "react"]
    [finished] = only(agent, e.ToolCallFinished)
    assert finished.status == "executed"
    switched = agent.session.state.runtime["dialect"]
    assert (switched["dialect"], switched["code"]) == ("text", "dialect_tools_refused")
    assert "does not support tools" in switched["reason"]
    assert await agent.run("And now?") == "Still hello."
    assert len(formats(agent)) == 2

    again, resumed = made(store, project, "In text.", workflow=workflow)
    assert again.resume_session(agent.session.session_id)
    await again.run("Go on.")
    assert not resumed.requests[0].tools
    assert len(formats(again)) == 2


async def test_the_switch_is_written_in_the_commit_that_closes_the_attempt(store: LogStore, project: Path) -> None:
    agent, _ = made(store, project, ToolsUnsupported("no tools", status=400), "Hello.")
    commits: list[list[str]] = []
    commit = store.commit_async

    async def counted(*writes: Any) -> object:
        commits.append([type(item.event).__name__ for write in writes for item in getattr(write, "events", ())])
        return await commit(*writes)

    store.commit_async = counted  # pyright: ignore[reportAttributeAccessIssue]
    await agent.run("Say it.")
    [closing] = [kinds for kinds in commits if "ReplyInterrupted" in kinds]
    assert closing == ["ReplyInterrupted", "RuntimeStateChanged", "TimelineRecorded"]
    assert len([kinds for kinds in commits if kinds]) == 6  # the input, the start, two requests, and their ends


async def test_a_forced_native_dialect_fails_with_the_sentence_of_the_server(store: LogStore, project: Path) -> None:
    agent, backend = made(store, project, ToolsUnsupported("no tools"), dialect="native")
    with pytest.raises(ToolsUnsupported, match="no tools; use --dialect text"):
        await agent.run("Say it.")
    assert len(backend.requests) == 1


@pytest.mark.parametrize("said", [READ, FENCED, TAGGED], ids=["action", "fenced", "tags"])
async def test_with_a_forced_native_dialect_text_is_text(store: LogStore, project: Path, said: str) -> None:
    agent, backend = made(store, project, said, dialect="native")
    assert await agent.run("Show me a call.") == said
    assert len(backend.requests) == 1
    assert not only(agent, e.ToolCallStarted)


@pytest.mark.parametrize("said", [READ, FENCED, TAGGED], ids=["action", "fenced", "tags"])
async def test_a_model_that_writes_its_first_call_as_text_switches_the_session(
    store: LogStore, project: Path, workflow: str, said: str
) -> None:
    agent, backend = made(store, project, said, "It says hello.", workflow=workflow)
    assert await agent.run("What does a.txt say?") == "It says hello."
    assert [bool(request.tools) for request in backend.requests] == [True, False]
    assert agent.session.state.runtime["dialect"]["code"] == "dialect_calls_written"
    assert backend.requests[1].messages[-2].content.endswith('Action: read\nAction Input: {"file_path":"a.txt"}')
    assert backend.requests[1].messages[-1].role is Role.USER
    assert backend.requests[1].messages[-1].content.startswith("Observation of read:\n")


async def test_a_model_that_makes_native_calls_may_slip_without_a_switch(store: LogStore, project: Path) -> None:
    native = call("read", file_path="a.txt")
    agent, backend = made(store, project, native, TAGGED, TAGGED, "It says hello.", TAGGED, TAGGED, TAGGED, "Done.")
    await agent.run("What does a.txt say?")
    assert all(request.tools for request in backend.requests)
    assert "dialect" not in agent.session.state.runtime
    await agent.run("And again?")
    assert agent.session.state.runtime["dialect"]["code"] == "dialect_calls_written"


async def test_an_example_that_the_user_asked_for_does_not_run(store: LogStore, project: Path, workflow: str) -> None:
    example = FENCED.replace("I look.", "A tool call in JSON looks like this:")
    for provider in ("anthropic", "openai", "google"):
        agent, backend = made(store, project, example, workflow=workflow, provider=provider)
        assert await agent.run("Show me an example of a tool call in JSON?") == example
        assert len(backend.requests) == 1
        assert not only(agent, e.ToolCallStarted)
    agent, backend = made(store, project, call("read", file_path="a.txt"), example, workflow=workflow)
    assert await agent.run("Read a.txt, then show me that call in JSON?") == example
    assert len(only(agent, e.ToolCallStarted)) == 1


@pytest.mark.parametrize(
    "said",
    [
        f"{FENCED}\nThat is how a call looks.",
        f"A call is written as {TAGGED} there.",
        f"```xml\n{TAGGED}\n```",
        TAGGED.replace("file_path", "path_of_the_file"),
        TAGGED.replace("read", "format_disk"),
    ],
    ids=["fenced, then prose", "tags in prose", "tags in a block", "wrong arguments", "unknown tool"],
)
async def test_a_call_in_the_middle_or_that_does_not_fit_is_text(store: LogStore, project: Path, said: str) -> None:
    agent, backend = made(store, project, said)
    assert await agent.run("What is a call?") == said
    assert len(backend.requests) == 1
    assert not only(agent, e.ToolCallFinished)
    assert "dialect" not in agent.session.state.runtime


async def test_a_reply_with_native_calls_makes_no_text_calls(store: LogStore, project: Path) -> None:
    both = CompletionResponse(
        content=TAGGED, tool_calls=[ToolCall(id="n", name="read", arguments={"file_path": "a.txt"})]
    )
    agent, _ = made(store, project, both, "Done.")
    await agent.run("Read it.")
    assert [one.call_id for one in only(agent, e.ToolCallStarted)] == ["n"]


async def test_text_calls_are_unlimited_and_not_scolded(store: LogStore, project: Path, workflow: str) -> None:
    calls = [f'Action: bash\nAction Input: {{"command": "echo line {n}"}}' for n in range(40)]
    agent, backend = made(
        store,
        project,
        *calls,
        "All lines are said.",
        workflow=workflow,
        dialect="text",
        permission_mode="allow",
        reasoning=ReasoningConfig(completion_check=False, verification=False),
    )
    assert await agent.run("Say forty lines.") == "All lines are said."
    assert len(backend.requests) == 41
    assert not any(request.tools for request in backend.requests)
    said = [text_of(event.parts) for event in only(agent, e.ToolCallFinished)]
    assert said == [f"line {n}" for n in range(40)]
    told = [event for event in only(agent, e.MessageAppended) if event.role is Role.SYSTEM]
    assert not [event for event in told if "tool-calling interface" in str(event.parts)]
    assert all(not message.tool_calls for request in backend.requests for message in request.messages)


async def test_a_malformed_text_call_is_answered_with_its_error(store: LogStore, project: Path, workflow: str) -> None:
    agent, backend = made(
        store, project, 'Action: read\nAction Input: {"file_path": ', READ, "Hello.", workflow=workflow, dialect="text"
    )
    assert await agent.run("What does a.txt say?") == "Hello."
    assert [one.status for one in only(agent, e.ToolCallFinished)] == ["malformed", "executed"]
    assert "(error)" in backend.requests[1].messages[-1].content


async def test_a_text_call_in_plan_mode_is_a_call_and_not_the_plan(store: LogStore, project: Path) -> None:
    plan = "## Steps\n- read\n## Verification commands\n- `true`"
    agent, backend = made(store, project, READ, plan, "Done.", workflow="guided", dialect="text", workflow_mode="plan")
    await agent.run("Plan the work.")
    assert [one.status for one in only(agent, e.ToolCallFinished)][:1] == ["executed"]
    assert len(backend.requests) >= 2


async def test_another_model_starts_with_native_calls_again(store: LogStore, project: Path) -> None:
    agent, _ = made(store, project, TAGGED, "Hello.")
    await agent.run("Read it.")
    other, backend = made(store, project, "Native.", provider="other")
    assert other.resume_session(agent.session.session_id)
    await other.run("Go on.")
    assert backend.requests[0].tools


async def test_a_model_without_tools_uses_text_from_the_start(store: LogStore, project: Path) -> None:
    backend = ScriptedBackend([READ, "Hello."], abilities=Abilities(tools=False))
    agent = agent_with(store, project, backend=backend)
    assert await agent.run("What does a.txt say?") == "Hello."
    assert "dialect" not in agent.session.state.runtime


async def test_a_demo_model_gets_no_calls(store: LogStore, project: Path) -> None:
    backend = ScriptedBackend([TAGGED], abilities=Abilities(tools=False, chat_profile=True))
    agent = agent_with(store, project, backend=backend, context=lambda given: replace(given, policy=PlainPolicy))
    assert await agent.run("Hello?") == TAGGED


def test_an_unknown_dialect_is_refused_when_the_agent_is_made(store: LogStore, project: Path) -> None:
    with pytest.raises(ConfigError, match="unknown dialect 'klingon'; use one of native, text, auto"):
        agent_with(store, project, dialect="klingon")


async def test_the_switch_stands_in_the_timeline_with_its_reason(store: LogStore, project: Path) -> None:
    class Refusing(ScriptedBackend):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            if request.tools:
                raise ToolsUnsupported("m takes no tools")
            async for event in super().stream(request):
                yield event

    agent = agent_with(store, project, backend=Refusing(["Hello."]))
    await agent.run("Say it?")
    [entry] = [one for one in agent.session.workflow_timeline if one.reason_code == "dialect_tools_refused"]
    assert "m takes no tools" in entry.summary
    assert [type(event).__name__ for event in log_of(agent)].count("ModelRequested") == 2


async def test_a_sub_agent_uses_the_dialect_that_its_parent_switched_to(store: LogStore, project: Path) -> None:
    task = 'Action: task\nAction Input: {"prompt": "Look at a.txt."}'
    agent, backend = made(store, project, ToolsUnsupported("no tools"), task, READ, "It says hello.", "Done.")
    assert await agent.run("Let somebody look.") == "Done."
    assert [bool(request.tools) for request in backend.requests] == [True, False, False, False, False]
    assert "It says hello." in backend.requests[-1].messages[-1].content


async def test_a_sub_agents_answer_that_was_cut_off_comes_back_whole(store: LogStore, project: Path) -> None:
    cut = CompletionResponse(content="It says ", finish_reason="length")
    agent, backend = made(store, project, call("task", prompt="Look."), cut, "hello.", "Done.")
    assert await agent.run("Let somebody look.") == "Done."
    assert backend.requests[-1].messages[-1].content == "It says hello."
