"""Looking writes nothing: opening, listing, showing, exporting and following a session leave its log as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from outlast import Agent, AgentConfig, ConversationSession, Message, Role, RuntimeHandle, open_store
from outlast.app.settings import load_settings
from outlast.doors import cli
from outlast.doors.repl.launch import CLI, REPL, LaunchOptions, open_repl_session
from outlast.doors.repl.print_mode import PrintMode
from outlast.doors.repl.repl import Repl
from outlast.runtime.service import SessionService
from outlast.store.log_store import LogStore
from tests.http.inside import inside


class Place:
    """A project with one session, which a server made: no agent is remembered in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/s.db"
        self.project = folder / "project"
        self.project.mkdir()
        with self.opened() as store:
            self.session = SessionService(store, "http").create(root=self.project, title="Shed")
            found = ConversationSession.load(session_id=self.session, store=store)
            assert found is not None
            found.extend([Message(role=Role.USER, content="hi"), Message(role=Role.ASSISTANT, content="Hello.")])

    def opened(self) -> LogStore:
        return open_store(self.url)

    def kinds(self) -> list[str]:
        with self.opened() as store:
            return [row.kind for row in store.read(self.session)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    made = Place(tmp_path)
    monkeypatch.chdir(made.project)
    before = made.kinds()
    yield made
    assert made.kinds()[: len(before)] == before


def test_resuming_writes_one_event_where_another_kind_of_agent_was_there(place: Place) -> None:
    before = len(place.kinds())
    with place.opened() as store:
        settings = load_settings(project_root=place.project)
        plain = Agent(None, AgentConfig(auto_context=False), place.project, store=store, settings=settings)
        handle = RuntimeHandle(None, AgentConfig(auto_context=False), place.project, store=store, settings=settings)
        for agent, written in ((plain, 1), (plain, 1), (handle, 2), (handle, 2), (plain, 3)):
            assert agent.resume_session(place.session)
            assert store.head(place.session).last_seq == before + written
            assert agent.session.runtime_owner_type == type(agent).__name__


def test_an_agent_that_opens_a_session_or_begins_one_writes_nothing(place: Place) -> None:
    before = place.kinds()
    with place.opened() as store:
        agent = Agent(None, AgentConfig(auto_context=False), place.project, store=store)
        assert agent.open_session(place.session)
        assert agent.session.session_id == place.session
        agent.clear_history()
        assert not agent.open_session("a" * 26)
        assert len(ConversationSession.list(store=store)) == 1
    assert place.kinds() == before


@pytest.mark.parametrize("resume", [None, "id"])
async def test_the_terminal_writes_nothing_until_something_is_said(place: Place, resume: str | None) -> None:
    before = place.kinds()
    start = LaunchOptions(
        model="none", store=place.url, continue_newest=resume is None, resume=place.session if resume else None
    )
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        repl_session = open_repl_session(start, REPL)
        try:
            repl = Repl(repl_session)
            pipe.send_text("/sessions\r/quit\r")
            assert await repl.run() == 0
            assert repl_session.session_id == place.session
            assert place.kinds() == before
            await repl.controller.work.admit("hello")
            await repl.controller.work.admit("and more")
        finally:
            repl_session.agent.store.close()
    assert place.kinds() == [*before, "RuntimeStateChanged", "InputAdmitted", "InputAdmitted"]


async def test_a_printed_answer_records_its_agent_with_the_message(place: Place) -> None:
    before = place.kinds()
    repl_session = open_repl_session(LaunchOptions(model="none", store=place.url, continue_newest=True), CLI)
    try:
        assert place.kinds() == before
        assert await PrintMode(repl_session, "json").run("hello") == 0
    finally:
        repl_session.agent.store.close()
    assert place.kinds() == [*before, "RuntimeStateChanged", "InputAdmitted"]


def test_commands_that_show_a_session_write_nothing(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    before = place.kinds()
    for words in (["list"], ["show", place.session], ["export", place.session, "--format", "jsonl"]):
        assert cli.main(["sessions", *words, "--store", place.url]) == 0, capfd.readouterr()
    capfd.readouterr()
    assert place.kinds() == before


async def test_reading_and_streaming_over_http_write_nothing(place: Place) -> None:
    before = place.kinds()
    async with inside(place.folder, store=place.url) as door:
        here = f"/api/sessions/{place.session}"
        for path in ("/api/sessions", here, f"{here}?all=true", f"{here}/approvals", "/api/search?q=hello"):
            await door.api("GET", path)
        for path in (f"{here}/export?format=jsonl", f"{here}/stream?follow=false"):
            answer = await door.client.get(path)
            assert answer.status_code == 200
            assert "Hello." in answer.text
    assert place.kinds() == before
