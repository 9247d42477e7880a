"""Who may speak: nobody we do not know by an id that is never given to another."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outlast.app.chat.pairing_code import CODE_SECONDS, MOST_TRIES, Pairing
from outlast.core import events as e
from outlast.core.messages import ToolCall
from outlast.models.port import CompletionResponse, ModelRequest
from outlast.runtime.permissions.mode import PermissionMode
from tests.gateway.echo import Echo
from tests.gateway.room import MEMBER, OWNER, STRANGER, Room
from tests.gateway.world import kinds_of, running, settings_for

GROUP = "-100"


async def nothing_happens(tmp_path: Path, **update: Any) -> None:
    """This update is stored nowhere and answered by nothing, though what comes after it is."""
    room = Room()
    room.groups = {GROUP}
    async with running(tmp_path, room) as world:
        room.say(update.pop("text", "hello"), **update)
        await world.asked("from the owner")
        assert [one.text for one in room.shown] == ["re: from the owner"]
        assert room.typed <= 2
        assert len(world.store.routes()) == 1


async def test_a_stranger_gets_nothing(tmp_path: Path) -> None:
    await nothing_happens(tmp_path, user=STRANGER)


@pytest.mark.parametrize("text", ["/help", "/status", "/new", "/approve", "/pair", "/pair ABCD-EFGH", "/start", None])
async def test_a_strangers_commands_get_nothing(tmp_path: Path, text: str | None) -> None:
    await nothing_happens(tmp_path, user=STRANGER, text=text)


@pytest.mark.parametrize("user", [f"@{OWNER}", f" {OWNER}", f"{OWNER} ", f"0{OWNER}", f"{OWNER}\u200b", "owner"])
async def test_somebody_who_calls_himself_like_the_owner_gets_nothing(tmp_path: Path, user: str) -> None:
    await nothing_happens(tmp_path, user=user, chat="77")


async def test_a_stranger_who_presses_the_owners_button_gets_nothing(tmp_path: Path) -> None:
    await nothing_happens(tmp_path, user=STRANGER, chat=OWNER, text=None, pressed="q:5:abc:once", message_id="b1")


async def test_a_forwarded_message_gets_nothing_though_the_owner_forwards_it(tmp_path: Path) -> None:
    await nothing_happens(tmp_path, forwarded=True, text="/new")


async def test_a_stranger_in_a_group_of_the_owner_gets_nothing(tmp_path: Path) -> None:
    await nothing_happens(tmp_path, user=STRANGER, chat=GROUP, text="@bot hello")


async def test_nobody_is_an_owner_unless_it_is_said(tmp_path: Path) -> None:
    room = Room()
    async with running(tmp_path, room, owners=frozenset(), members=frozenset()) as world:
        room.say("hello")
        await room.until(lambda: len(room.confirmed) == 1)
        assert room.shown == []
        assert world.store.routes() == []


# --- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "addressed", "answered"),
    [("addressed", True, True), ("addressed", False, False), ("always", False, True), ("never", True, False)],
)
async def test_groups_go_by_the_policy(tmp_path: Path, groups: str, addressed: bool, answered: bool) -> None:
    room = Room()
    room.groups = {GROUP}
    async with running(tmp_path, room, groups=groups) as world:
        room.say("hello", chat=GROUP, addressed=addressed)
        if answered:
            await room.heard("re: hello", GROUP)
        await world.asked("and in private")
        assert room.texts(GROUP) == (["re: hello"] if answered else [])


@pytest.mark.parametrize("per_user", [True, False])
async def test_people_in_a_group_have_their_own_session_or_share_one(tmp_path: Path, per_user: bool) -> None:
    room = Room()
    room.groups = {GROUP}
    async with running(tmp_path, room, per_user=per_user) as world:
        room.say("one", chat=GROUP, user=OWNER)
        await room.heard("re: one", GROUP)
        room.say("two", chat=GROUP, user=MEMBER)
        await room.heard("re: two", GROUP)
        assert len({session for _, session in world.store.routes()}) == (2 if per_user else 1)


@pytest.mark.parametrize("per_thread", [True, False])
async def test_threads_have_their_own_session_or_share_one(tmp_path: Path, per_thread: bool) -> None:
    room = Room()
    async with running(tmp_path, room, per_thread=per_thread) as world:
        for n in range(3):
            room.say(f"in thread {n}", thread=str(n) if n else "")
            await room.heard(f"re: in thread {n}")
        assert len({session for _, session in world.store.routes()}) == (3 if per_thread else 1)
        if per_thread:
            assert [one.address.thread for one in room.shown] == ["", "1", "2"]


# --- pairing ---------------------------------------------------------------------------------------------------------


async def test_whoever_sends_the_code_in_private_becomes_an_owner_for_good(tmp_path: Path) -> None:
    room = Room()
    room.groups = {GROUP}
    code = Pairing(settings_for(tmp_path), "test").issue(asyncio.get_running_loop().time() + 10**12)
    async with running(tmp_path, room) as world:
        room.say(f"/pair {code}", user=STRANGER, chat=GROUP)
        room.say(f"/pair {code}", user=STRANGER, forwarded=True)
        room.say(f"/pair {code}", user=STRANGER)
        await room.until(lambda: bool(room.texts(STRANGER)))
        assert "owner" in room.texts(STRANGER)[0]
        await world.asked("hello", chat=STRANGER)
        room.say(f"/pair {code}", user="7777")
    async with running(tmp_path, room) as world:
        await world.asked("again", chat=STRANGER)
        assert room.texts("7777") == room.texts(GROUP) == []


def test_a_code_works_once_for_ten_minutes_and_is_void_after_a_few_tries(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    pairing, other = Pairing(settings, "test"), Pairing(settings, "test")
    assert not pairing.pair("1", "ABCD-EFGH", 0.0), "there is no code yet"
    code = pairing.issue(1000.0)
    assert not pairing.pair("1", code, 1000.0 + CODE_SECONDS + 1)
    code = pairing.issue(1000.0)
    assert pairing.pair("1", code.lower().replace("-", " "), 1001.0)
    assert not pairing.pair("2", code, 1002.0), "it was used"
    assert other.owners() == {"1"}
    code = pairing.issue(1000.0)
    for _ in range(MOST_TRIES):
        assert not other.pair("2", "AAAA-AAAA", 1001.0)
    assert not pairing.pair("2", code, 1002.0), "too many have tried"
    old, new = pairing.issue(1000.0), pairing.issue(1000.0)
    assert not pairing.pair("2", old, 1001.0), "a new code takes the place of the old one"
    assert pairing.pair("2", new, 1001.0)
    assert pairing.owners() == {"1", "2"}
    assert pairing.unpair("1")
    assert not pairing.unpair("1")
    assert other.owners() == {"2"}
    assert pairing.path.stat().st_mode & 0o077 == 0
    assert code.replace("-", "") not in pairing.path.read_text()


async def test_an_owner_who_is_unpaired_gets_nothing_at_once(tmp_path: Path) -> None:
    room = Room()
    pairing = Pairing(settings_for(tmp_path), "test")
    pairing.pair(STRANGER, pairing.issue(1.0), 2.0)
    async with running(tmp_path, room) as world:
        await world.asked("hello", chat=STRANGER)
        pairing.unpair(STRANGER)
        room.say("and now", user=STRANGER)
        await world.asked("from the owner")
        assert room.texts(STRANGER) == ["re: hello"]


# --- rights ----------------------------------------------------------------------------------------------------------


async def test_a_chat_is_read_only_unless_it_is_said(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("hello")
        changes = [event.changes for event in kinds_of(world.store, world.session(), e.RuntimeStateChanged)]
        modes = [change["permission_mode"] for change in changes if "permission_mode" in change]
        assert set(modes) == {"read-only"}
        assert world.line.settings.permission_mode == "read-only"


def writing(asked: str, request: ModelRequest) -> str | CompletionResponse:
    """A model that makes a file of the name that it is told, and says that it tried."""
    if request.messages[-1].tool_results:
        return f"tried {asked}"
    call = ToolCall(id=f"call-{asked}", name="write", arguments={"file_path": asked, "content": "x"})
    return CompletionResponse(tool_calls=[call])


async def test_each_chat_has_its_own_rights_and_they_are_those_of_today(tmp_path: Path) -> None:
    room, model, owners = Room(), Echo(script=writing), frozenset({"1001", "1002"})
    write = PermissionMode.WORKSPACE_WRITE

    async with running(tmp_path, room, model, owners=owners, chats={"1002": write}) as world:
        await asyncio.gather(world.asked("one", "tried one", chat="1001"), world.asked("two", "tried two", chat="1002"))
        room.say("/status", user="1002")
        await room.until(lambda: any("rights workspace-write" in text for text in room.texts("1002")))
        assert {path.name for path in world.line.project.iterdir()} == {"two"}

        # A session is no way into a chat that may less; while both lead to it, neither may more.
        room.say(f"/resume {world.session('1002')}", user="1001")
        await room.until(lambda: any("is in session" in text for text in room.texts("1001")))
        await world.asked("three", "tried three", chat="1001")
        await world.asked("four", "tried four", chat="1002")
        room.say("/new", user="1002")
        await room.until(lambda: any("A new session" in text for text in room.texts("1002")))
        await world.asked("five", "tried five", chat="1002")
        assert {path.name for path in world.line.project.iterdir()} == {"two", "five"}

    async with running(tmp_path, room, model, owners=owners, chats={"1003": write}) as world:
        await world.asked("six", "tried six", chat="1002")
        assert {path.name for path in world.line.project.iterdir()} == {"two", "five"}


# --- what is no message ----------------------------------------------------------------------------------------------


async def test_media_and_too_long_messages_get_one_clear_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        world.room.say(None, media="a photo")
        world.room.say("x" * 40_000)
        await world.room.until(lambda: len(world.room.shown) == 2)
        assert world.room.texts() == [
            "I can read text only, so a photo was ignored.",
            "That message has 40,000 characters, and I accept at most 32,768: put it into a file.",
        ]
        assert world.store.routes() == []
        world.room.say("   ")
        await world.asked("hello")
        assert len(world.room.shown) == 3
