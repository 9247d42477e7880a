"""A real conversation in a real Matrix room, on a real homeserver, with the gateway and the server restarted in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.app.chat.sync_position import SyncPosition
from outlast.core import events as e
from outlast.core.chat_route import ChatAddress, route_key
from outlast.core.messages import ToolCall
from outlast.doors.gateway.platform import OutgoingMessage, Rejected
from outlast.doors.gateway.platforms.matrix import Matrix
from outlast.models.port import CompletionResponse, ModelRequest
from outlast.runtime.permissions.mode import PermissionMode
from tests.gateway.echo import Echo
from tests.gateway.synapse import Person, Synapse, homeserver
from tests.gateway.world import NAME, World, inputs_of, kinds_of, running, settings_for

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("synapse")]

AT_ONCE = 2
MISSED = 2 * AT_ONCE + 1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Synapse]:
    with homeserver(tmp_path_factory.mktemp("synapse")) as found:
        yield found


@asynccontextmanager
async def chatting(tmp_path: Path, bot: Person, owner: Person, model: Echo, **table: Any) -> AsyncGenerator[World]:
    platform = Matrix(
        bot.server.url,
        bot.user,
        password=bot.password,
        position=SyncPosition(settings_for(tmp_path), NAME),
        welcomes=lambda user: user == owner.user,
        poll_ms=2000,
        at_once=AT_ONCE,
    )
    given: dict[str, Any] = {"platform": "matrix", "owners": frozenset({owner.user}), "edit_seconds": 0.3, **table}
    async with running(tmp_path, model=model, chat_platform=platform, **given) as world:
        yield world


async def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for what a homeserver shows; it is asked again and again, as a client would."""
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(true):
            await asyncio.sleep(0.05)


def route_of(room: str) -> str:
    return route_key("matrix", NAME, ChatAddress(room))


def wanting_once(asked: str, request: ModelRequest) -> str | CompletionResponse:
    if asked != "make a file":
        return f"re: {asked}"
    if any(message.tool_results for message in request.messages):
        return "made"
    return CompletionResponse(tool_calls=[ToolCall(id="c", name="bash", arguments={"command": "touch it"})])


async def test_a_conversation_survives_restarts_of_the_gateway_and_of_the_homeserver(
    server: Synapse, tmp_path: Path
) -> None:
    bot, owner, stranger = server.person("bot"), server.person("owner"), server.person("stranger")
    model = Echo(script=wanting_once)
    rights = {"permission_mode": PermissionMode.PROMPT}

    # A room, an invitation, a first message that is written before the bot has come in.
    room = owner.room(bot.user)
    owner.say(room, "hello")
    async with chatting(tmp_path, bot, owner, model, **rights) as world:
        await until(lambda: owner.texts(room, bot.user) == ["re: hello"])
        session = world.store.route(route_of(room))
        assert session is not None

        # A stranger's room is not entered, and a stranger's words are not read.
        theirs = stranger.room(bot.user)
        stranger.say(theirs, "let me in")

        # A question, answered by a sign under it.
        owner.say(room, "make a file")
        await until(lambda: any("Allow bash" in text for text in owner.texts(room, bot.user)))
        question = next(event for event in owner.events(room) if "Allow bash" in event["content"].get("body", ""))
        owner.react(room, question["event_id"], "👍️")
        await until(lambda: "made" in owner.texts(room, bot.user))
        [answered] = kinds_of(world.store, session, e.ApprovalAnswered)
        assert answered.answer == "once"
        assert (world.line.project / "it").exists()

    # While the gateway is away, more is said than a homeserver tells in one answer.
    for n in range(MISSED):
        owner.say(room, f"missed {n}")
        bot.rename(f"Outlast {n}")
    async with chatting(tmp_path, bot, owner, model, **rights) as world:
        await until(lambda: f"re: missed {MISSED - 1}" in owner.texts(room, bot.user), 120)
        assert world.store.route(route_of(room)) == session, "the chat goes on in its session"
        assert inputs_of(world.store, session) == ["hello", "make a file", *(f"missed {n}" for n in range(MISSED))]

        # The homeserver goes away and comes back; nothing that was said is lost or answered twice.
        await asyncio.to_thread(server.stop)
        await until(lambda: world.gateway.states[0].state == "waiting")
        await asyncio.to_thread(server.start)
        owner.say(room, "are you still there")
        await until(lambda: "re: are you still there" in owner.texts(room, bot.user), 60)

        # A thread has a session of its own and is answered in it.
        root = owner.say(room, "/status")
        await until(lambda: any(session[:6] in text for text in owner.texts(room, bot.user)))
        thread = {"m.relates_to": {"rel_type": "m.thread", "event_id": root}}
        owner.say(room, "in the thread", **thread)
        await until(lambda: "re: in the thread" in owner.texts(room, bot.user))
        inside = next(one for one in owner.events(room) if one["content"].get("body") == "re: in the thread")
        assert inside["content"]["m.relates_to"]["event_id"] == root
        assert world.store.route(route_key("matrix", NAME, ChatAddress(room, root))) not in (None, session)

    texts = owner.texts(room, bot.user)
    answers = [text for text in texts if text.startswith("re: ")]
    assert len(answers) == len(set(answers)) == MISSED + 3
    assert stranger.texts(theirs, bot.user) == []
    members = stranger._ask("GET", f"/rooms/{theirs}/joined_members")["joined"]
    assert set(members) == {stranger.user}


def account(server: Synapse, tmp_path: Path, user: str, token: str) -> Matrix:
    position = SyncPosition(settings_for(tmp_path), NAME)
    return Matrix(server.url, user, token=token, position=position, welcomes=lambda user: False)


async def test_a_send_that_is_repeated_is_one_message_there(server: Synapse, tmp_path: Path) -> None:
    bot, owner = server.person("bot2"), server.person("owner2")
    room = owner.room(bot.user)
    bot.join(room)
    matrix = account(server, tmp_path, bot.user, bot.token)
    assert await matrix.open() == bot.user
    message, edited = OutgoingMessage(text="**once**", key="k.1.1"), OutgoingMessage(text="edited", key="k.1.1")
    first = await matrix.send(ChatAddress(room), message)
    assert await matrix.send(ChatAddress(room), message) == first
    await matrix.edit(ChatAddress(room), first, edited)
    await matrix.edit(ChatAddress(room), first, edited)
    assert owner.texts(room, bot.user) == ["edited"]
    sent = [one for one in owner.events(room) if (one["sender"], one["type"]) == (bot.user, "m.room.message")]
    assert len(sent) == 2
    assert sent[0]["content"]["formatted_body"] == "<p><strong>once</strong></p>"
    assert await matrix.is_private(room)
    with pytest.raises(Rejected):
        await matrix.send(ChatAddress("!nowhere:outlast.test"), message)
    await matrix.close()


async def test_a_wrong_token_is_one_sentence(server: Synapse, tmp_path: Path) -> None:
    wrong = account(server, tmp_path, "@bot:outlast.test", "wrong")
    with pytest.raises(Rejected, match=r"rejects the login of @bot:outlast\.test"):
        await wrong.open()
    await wrong.close()
