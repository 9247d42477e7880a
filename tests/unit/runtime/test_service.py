"""What doors ask of a session: boundaries, answers, withdrawals, now or through its driver."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, open_store
from outlast.core import events as e
from outlast.core.errors import ConflictError, InvalidInput
from outlast.core.state import SessionState
from outlast.runtime import service
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, NewEvent
from tests.support.agents import agent_with, call, only


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


async def draw(agent: Agent, what: str, **arguments: object) -> str:
    return await agent.service.boundary(agent.session.session_id, what, dict(arguments), agent._turn_context())


async def talked(store: LogStore, project: Path, turns: int = 6) -> Agent:
    agent = agent_with(store, project, *(f"Answer {n}." for n in range(turns)), "Later.")
    for n in range(turns):
        await agent.run(f"What is {n}?")
    return agent


async def test_clearing_archives_the_messages_and_keeps_the_session(store: LogStore, project: Path) -> None:
    agent = await talked(store, project, 2)
    assert await draw(agent, "clear") == "done"
    assert agent.messages == []
    assert agent.session.history() == []
    assert len(agent.session.history(include_archived=True)) == 4
    assert await agent.run("And now?") == "Later."


async def test_a_compaction_can_be_undone(store: LogStore, project: Path) -> None:
    agent = await talked(store, project)
    before = [message.content for message in agent.messages]
    assert await draw(agent, "compact", instructions="keep the numbers") == "done"
    assert agent.messages[0].content.startswith("[COMPACTED CONTEXT]")
    assert await draw(agent, "uncompact") == "done"
    assert [message.content for message in agent.messages] == before
    with pytest.raises(InvalidInput, match="not compacted"):
        await draw(agent, "uncompact")


async def test_rewinding_brings_files_back_and_can_be_undone(store: LogStore, project: Path) -> None:
    (project / "a.txt").write_text("old\n")
    agent = agent_with(
        store,
        project,
        "Hello.",
        call("write", "w1", file_path="a.txt", content="new\n"),
        call("write", "w2", file_path="b.txt", content="made\n"),
        "Both are written.",
    )
    await agent.run("Hello?")
    await agent.run("Write a.txt and b.txt.")
    first = next(message.seq for message in agent.session.history() if message.content == "Hello.")
    assert await draw(agent, "rewind", seq=first, files=True) == "done"
    assert (project / "a.txt").read_text() == "old\n"
    assert not (project / "b.txt").exists()
    assert [message.content for message in agent.messages] == ["Hello?", "Hello."]
    assert await draw(agent, "unrewind") == "done"
    assert (project / "a.txt").read_text() == "new\n"
    assert (project / "b.txt").read_text() == "made\n"
    assert agent.messages[-1].content == "Both are written."


async def test_a_file_that_somebody_changed_since_is_left_alone(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "Hello.", call("write", file_path="a.txt", content="x\n"), "Done.")
    await agent.run("Hello?")
    await agent.run("Create a.txt.")
    (project / "a.txt").write_text("mine\n")
    first = next(message.seq for message in agent.session.history() if message.content == "Hello.")
    await draw(agent, "rewind", seq=first, files=True)
    assert (project / "a.txt").read_text() == "mine\n"


async def test_a_rotation_on_request_goes_on_elsewhere(store: LogStore, project: Path) -> None:
    agent = await talked(store, project)
    before = agent.session.session_id
    assert await draw(agent, "rotate") == "done"
    after = store.tip(before)
    assert after != before
    assert await agent.run("And now?") == "Later."
    assert agent.session.session_id == after


async def test_what_needs_the_lease_is_asked_of_the_driver_that_holds_it(store: LogStore, project: Path) -> None:
    agent = agent_with(store, project, "One.", call("bash", command="sleep 0.5"), "Never said.", allow=("bash",))
    await agent.run("First?")
    running = asyncio.create_task(agent.run("Work."))
    async for batch in store.follow_async(agent.session.session_id, timeout=10):
        if any(stored.kind == "ToolCallStarted" for stored in batch.events):
            break
    assert await draw(agent, "clear") == "requested"
    await running
    assert agent.messages == []
    assert agent.session.state.requests == []


async def test_an_unknown_boundary_is_refused(store: LogStore, project: Path) -> None:
    agent = await talked(store, project, 1)
    with pytest.raises(InvalidInput, match="is not a boundary"):
        await draw(agent, "explode")
    with pytest.raises(InvalidInput, match="nothing to compact"):
        await draw(agent, "compact")


async def test_an_input_is_withdrawn_only_while_it_waits(store: LogStore, project: Path) -> None:
    agent = await talked(store, project, 1)
    name = agent.session.session_id
    receipt = await agent.service.admit(name, "Later?")
    await agent.service.withdraw(name, [receipt.seq])
    assert agent.session.state.inbox.seqs() == []
    with pytest.raises(ConflictError, match="no longer waiting"):
        await agent.service.withdraw(name, [receipt.seq])
    assert len(only(agent, e.TurnEnded)) == 1


async def test_an_input_that_a_turn_reads_in_the_same_moment_is_not_withdrawn(
    store: LogStore, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await talked(store, project, 1)
    name = agent.session.session_id
    receipt = await agent.service.admit(name, "Now.")
    lease = store.commit(Claim(session_id=name, token="t", holder="another"))[0].lease
    look = service.load_state

    def read_meanwhile(*given: Any) -> SessionState:
        state = look(*given)
        monkeypatch.setattr(service, "load_state", look)
        began = NewEvent(event=e.TurnStarted(inputs=[receipt.seq]), turn="theirs")
        store.commit(Append(session_id=name, events=(began,), lease=lease))
        return state

    monkeypatch.setattr(service, "load_state", read_meanwhile)
    with pytest.raises(ConflictError, match="no longer waiting"):
        await agent.service.withdraw(name, [receipt.seq])
    assert only(agent, e.InputWithdrawn) == []


async def test_an_answer_to_no_question_is_refused(store: LogStore, project: Path) -> None:
    agent = await talked(store, project, 1)
    with pytest.raises(ConflictError, match="no open question"):
        await agent.service.answer(agent.session.session_id, 3, "once")
