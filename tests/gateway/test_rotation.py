"""Compaction that rotates a chat's session: the chat, its route and its context go along, in one commit, for good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.core import events as e
from outlast.core.messages import ToolCall
from outlast.models.port import CompletionResponse
from outlast.runtime.permissions.mode import PermissionMode
from tests.gateway.echo import Echo
from tests.gateway.room import OWNER, Room
from tests.gateway.world import World, inputs_of, kinds_of, running

LONG = "word " * 400
FULL, ROOMY = 90_000, 100
AT = 80_000


@asynccontextmanager
async def rotating(tmp_path: Path, room: Room, model: Echo, **more: Any) -> AsyncGenerator[World]:
    async with running(tmp_path, room, model, compaction="rotate", compact_at_tokens=AT, **more) as world:
        yield world


async def filled(world: World, chat: str = OWNER) -> str:
    """A chat whose session has been talked in, and whose model has said last that its window is full."""
    for n in range(3):
        await world.asked(f"{n} {LONG}".strip(), chat=chat)
    world.model.tokens = FULL
    await world.asked(f"3 {LONG}".strip(), chat=chat)
    world.model.tokens = ROOMY
    return world.session(chat)


async def next_turns_read_the_child(world: World, parent: str, chat: str = OWNER) -> None:
    """The chat is in the tip of the lineage; it goes on there, sees the summary, and is not compacted again."""
    child = world.session(chat)
    assert child == world.store.tip(parent) != parent
    compactions = len(kinds_of(world.store, child, e.Compacted))
    assert compactions == 1
    for text in ("what now", "and then"):
        await world.asked(text, chat=chat)
        assert world.session(chat) == child
        session, context, _ = world.model.seen[-1]
        assert session == context == child
    assert len(kinds_of(world.store, child, e.Compacted)) == compactions
    assert inputs_of(world.store, child)[-2:] == ["what now", "and then"]


async def test_automatic_rotation_between_queued_messages_moves_the_chat(tmp_path: Path) -> None:
    room, model = Room(), Echo()
    async with rotating(tmp_path, room, model) as world:
        parent = await filled(world)
        for n in range(3):
            room.say(f"queued {n}")
        await room.heard("re: queued 2")
        child = world.session()
        assert child == world.store.tip(parent) != parent
    async with rotating(tmp_path, room, model) as world:
        await next_turns_read_the_child(world, parent)
    assert room.texts().count("re: queued 0") == 1


async def test_rotation_before_the_first_turn_after_a_restart_moves_the_chat(tmp_path: Path) -> None:
    room, model = Room(), Echo()
    async with rotating(tmp_path, room, model) as world:
        parent = await filled(world)
        assert world.session() == parent
    async with rotating(tmp_path, room, model) as world:
        await world.asked("the first after the restart")
        assert world.session() != parent
    async with rotating(tmp_path, room, model) as world:
        await next_turns_read_the_child(world, parent)


async def test_manual_compaction_moves_the_chat(tmp_path: Path) -> None:
    room, model = Room(), Echo()
    async with rotating(tmp_path, room, model) as world:
        for n in range(4):
            await world.asked(f"{n} {LONG}".strip())
        parent = world.session()
        room.say("/compact")
        await room.until(lambda: any("summarised" in text for text in room.texts()))
        assert world.session() != parent
    async with rotating(tmp_path, room, model) as world:
        await next_turns_read_the_child(world, parent)


async def test_compaction_in_place_keeps_the_session_and_writes_nothing_to_the_route(tmp_path: Path) -> None:
    room, model = Room(), Echo()
    async with running(tmp_path, room, model, compaction="in_place", compact_at_tokens=AT) as world:
        session = await filled(world)
        await world.asked("go on")
        assert world.session() == session
        assert len(kinds_of(world.store, session, e.Compacted)) == 1
        assert len(kinds_of(world.store, session, e.RouteOpened)) == 1


async def test_a_message_that_waits_while_the_session_rotates_is_answered_once(tmp_path: Path) -> None:
    room, model = Room(), Echo()
    async with rotating(tmp_path, room, model) as world:
        parent = await filled(world)
        model.hold = asyncio.Event()
        for n in range(5):
            room.say(f"waiting {n}")
        await room.until(lambda: len(room.confirmed) == 9)
        model.hold.set()
        await room.heard("re: waiting 4")
        child = world.session()
        assert child != parent
        assert [text for text in inputs_of(world.store, child) if "waiting" in text] == [
            f"waiting {n}" for n in range(5)
        ]
        assert [text for text in room.texts() if "waiting" in text] == [f"re: waiting {n}" for n in range(5)]


async def test_every_chat_rotates_and_no_session_id_crosses(tmp_path: Path) -> None:
    """50 chats at once, a rotation in each: every request, context and route names the chat's own session."""
    chats = [str(n) for n in range(50)]
    room, model = Room(), Echo()
    owners = frozenset(chats)
    async with rotating(tmp_path, room, model, owners=owners, edit_seconds=0.0) as world:
        await asyncio.gather(*(world.asked(f"{chat}:0 {LONG}".strip(), chat=chat) for chat in chats))
        parents = {chat: world.session(chat) for chat in chats}
        model.tokens = FULL
        await asyncio.gather(*(world.asked(f"{chat}:1 {LONG}".strip(), chat=chat) for chat in chats))
        model.tokens = ROOMY
        await asyncio.gather(*(world.asked(f"{chat}:2", chat=chat) for chat in chats))
        children = {chat: world.session(chat) for chat in chats}
        assert len({*parents.values(), *children.values()}) == 100
        assert all(world.store.tip(parents[chat]) == children[chat] for chat in chats)
        for session, context, text in model.seen:
            chat, _, number = text.split()[0].partition(":")
            assert context == session == (children if number == "2" else parents)[chat]
        for chat in chats:
            assert [text.split(":")[0] for text in inputs_of(world.store, children[chat])] == [chat] * 3


@pytest.mark.parametrize("rotates", [False, True])
async def test_a_shell_command_sees_the_session_that_the_route_leads_to(tmp_path: Path, rotates: bool) -> None:
    def script(asked: str, request: object) -> str | CompletionResponse:
        if asked != "which":
            return f"re: {asked}"
        done = [one for one in request.messages if one.tool_results]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
        if done:
            return done[-1].tool_results[0].content  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        call = ToolCall(id="c1", name="bash", arguments={"command": "printenv OUTLAST_SESSION_ID"})
        return CompletionResponse(tool_calls=[call])

    room, model = Room(), Echo(script=script)
    mode = PermissionMode.DANGER_FULL_ACCESS
    async with rotating(tmp_path, room, model, permission_mode=mode) as world:
        if rotates:
            await filled(world)
        room.say("which")
        await room.until(lambda: any(text.strip() == world.session() for text in room.texts()))
        assert (len(kinds_of(world.store, world.session(), e.SessionForked)) == 1) is rotates
