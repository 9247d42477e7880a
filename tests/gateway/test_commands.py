"""What can be typed in a chat."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from outlast.agent import Agent
from outlast.core import events as e
from outlast.doors.gateway.commands import COMMANDS, parsed
from outlast.doors.gateway.platform import NotSent
from outlast.runtime.service import SessionService
from outlast.session import ConversationSession
from outlast.testing import ScriptedBackend
from tests.gateway.echo import Echo
from tests.gateway.room import MEMBER, OWNER, Room
from tests.gateway.world import eventually, inputs_of, kinds_of, running


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/new", ("new", "")),
        ("/Resume abc def ", ("resume", "abc def")),
        ("/stop@our_bot", ("stop", "")),
        ("/stop@our_bot now", ("stop", "now")),
        ("hello /new", None),
        ("/", None),
        ("/usr/bin/env is a path", None),
        ("//comment", None),
        ("/1", None),
    ],
)
def test_what_is_a_command(text: str, found: tuple[str, str] | None) -> None:
    assert parsed(text) == found


async def test_help_lists_what_this_person_may_do_here(tmp_path: Path) -> None:
    room = Room()
    room.groups = {"-7"}
    async with running(tmp_path, room):
        room.say("/help")
        await room.until(lambda: len(room.shown) == 1)
        assert all(f"/{name}" in room.texts()[0] for name, known in COMMANDS.items() if known.about)
        room.say("/help", user=MEMBER, chat="-7")
        await room.until(lambda: bool(room.texts("-7")))
        told = room.texts("-7")[0]
        assert "/new" in told
        assert "/approve" not in told
        assert "/resume" not in told


async def test_help_alone_makes_no_session(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        for command in ("/help", "/status", "/stop", "/model", "/compact", "/sessions", "/nonsense"):
            world.room.say(command)
        await world.room.until(lambda: len(world.room.shown) == 7)
        assert world.store.routes() == []


async def test_new_begins_another_session_and_leaves_the_old_one(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("one")
        old = world.session()
        await world.asked("/new", "A new session. What do you want to do?")
        await world.asked("two")
        assert world.session() != old
        assert inputs_of(world.store, old) == ["one"]
        assert inputs_of(world.store, world.session()) == ["two"]
        [opened] = kinds_of(world.store, world.session(), e.RouteOpened)
        assert opened.from_session_id == old


async def test_what_the_old_session_still_says_after_new_arrives_after_a_restart_too(tmp_path: Path) -> None:
    room, model = Room(), Echo()
    model.hold = asyncio.Event()
    async with running(tmp_path, room, model, patience=0.1) as world:
        room.say("a long task")
        await eventually(lambda: bool(model.seen))
        old = world.session()
        await world.asked("/new", "A new session. What do you want to do?")
        assert world.session() != old
    async with running(tmp_path, room) as world:
        await room.heard("re: a long task")
        await eventually(lambda: len(world.store.routes()) == 1)
        assert world.store.routes()[0][1] == world.session() != old


async def test_a_chat_that_comes_back_is_still_owed_what_it_was_owed_when_it_left(tmp_path: Path) -> None:
    room, model = Room(), Echo()
    model.hold = asyncio.Event()
    async with running(tmp_path, room, model, patience=0.0, edit_seconds=0.0) as world:
        room.say("slow")
        await eventually(lambda: bool(model.seen))
        old = world.session()
        room.say("/new")
        await room.until(lambda: any("A new session" in text for text in room.texts()))
        room.faults = [NotSent("no network")] * 1000
        room.say(f"/resume {old}")
        await eventually(lambda: world.session() == old)
    model.hold, room.faults = None, []
    async with running(tmp_path, room, model):
        await room.heard("re: slow", seconds=5)


async def test_sessions_and_resume_stay_in_the_project_of_the_chat(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("in the project")
        mine = world.session()
        other = ConversationSession(project_root=tmp_path, store=world.store)
        other.persist()
        world.room.say("/sessions")
        await world.room.until(lambda: len(world.room.shown) == 2)
        assert mine[:6] in world.room.texts()[1]
        assert other.session_id[:6] not in world.room.texts()[1]
        for prefix in (other.session_id[:8], "aaaaaaaa", "x"):
            world.room.say(f"/resume {prefix}")
        await world.room.until(lambda: len(world.room.shown) == 5)
        told = {text.replace(other.session_id[:8], "aaaaaaaa") for text in world.room.texts()[2:4]}
        assert told == {"no session of this chat's project begins with aaaaaaaa; /sessions lists them"}
        assert world.session() == mine


async def test_a_session_goes_from_the_chat_to_the_terminal_and_back(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("begun in the chat")
        await world.settled()
        session = world.session()
        agent = Agent(ScriptedBackend(["from the terminal"]), project_root=world.line.project, store=world.store)
        assert agent.resume_session(session)
        assert await agent.run("said in the terminal") == "from the terminal"
        await world.asked("back in the chat")
        assert world.session() == session
        assert inputs_of(world.store, session) == ["begun in the chat", "said in the terminal", "back in the chat"]
        assert "from the terminal" not in "".join(world.room.texts())


async def test_a_session_of_the_terminal_is_taken_up_in_the_chat_with_the_chats_rights(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        backend = ScriptedBackend(["hi"], name=world.settings.model or "")
        agent = Agent(backend, project_root=world.line.project, store=world.store)
        await agent.run("begun in the terminal")
        session = agent.session.session_id
        assert agent.session.permission_mode == "workspace-write"
        world.room.say(f"/resume {session[:6]}")
        await world.room.until(lambda: any("is in session" in text for text in world.room.texts()))
        assert world.session() == session
        await world.asked("from the chat")
        loaded = ConversationSession.load(project_root=world.line.project, session_id=session, store=world.store)
        assert loaded is not None
        assert loaded.permission_mode == "read-only"


async def test_stop_stops_what_runs(tmp_path: Path) -> None:
    room, model = Room(), Echo()
    model.hold = asyncio.Event()
    async with running(tmp_path, room, model) as world:
        room.say("a long task")
        await eventually(lambda: bool(model.seen))
        room.say("/stop")
        await room.until(lambda: any("⏹ Stopped." in text for text in room.texts()))
        [ended] = kinds_of(world.store, world.session(), e.TurnEnded)
        assert ended.outcome == "interrupted"


async def test_status_tells_where_the_session_stands(tmp_path: Path) -> None:
    room, model = Room(), Echo()
    async with running(tmp_path, room, model) as world:
        await world.asked("hello")
        room.say("/status")
        await room.until(lambda: len(room.shown) == 2)
        assert world.session()[:6] in room.texts()[1]
        assert "idle" in room.texts()[1]
        assert "read-only" in room.texts()[1]


async def test_model_is_shown_chosen_and_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("hello")
        for command in ("/model", "/model nonsense", "/model openai:gpt-5"):
            world.room.say(command)
        await world.room.until(lambda: len(world.room.shown) == 4)
        await world.settled()
        assert world.store.head(world.session()).model == "openai:gpt-5"
        assert [change.model for change in kinds_of(world.store, world.session(), e.ModelChanged)] == ["openai:gpt-5"]


async def test_compact_tells_what_became_of_it(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        for n in range(4):
            await world.asked(f"{n} " + "word " * 100 + "end")
        world.room.say("/compact")
        await world.room.until(lambda: any("summarised now" in text for text in world.room.texts()))
        world.room.say("/compact")
        await world.room.until(lambda: any("Nothing was done" in text for text in world.room.texts()))


async def test_a_member_may_talk_and_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("hello", chat=MEMBER)
        for command in ("/resume aaaaaa", "/model openai:gpt-5", "/compact", "/approve", "/sessions"):
            world.room.say(command, user=MEMBER)
        await world.room.until(lambda: len(world.room.texts(MEMBER)) == 6)
        assert set(world.room.texts(MEMBER)[1:]) == {"Only an owner may do that."}
        assert kinds_of(world.store, world.session(MEMBER), e.ModelChanged, e.BoundaryRequested) == []


async def test_what_another_door_stops_or_renames_does_not_disturb_the_chat(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("hello")
        service = SessionService(world.store, "http")
        await service.update_async(world.session(), title="another name")
        await service.interrupt(world.session())
        await world.asked("still there?")
        assert world.room.texts(OWNER) == ["re: hello", "re: still there?"]
