"""Matrix on a bad day: what the homeserver cannot say just now is asked again, and costs no message."""

from __future__ import annotations

import socket
from collections.abc import Collection, Generator
from pathlib import Path
from typing import Any

import pytest

from outlast.app.chat.sync_position import SyncPosition
from outlast.core.chat_route import ChatAddress
from outlast.doors.gateway.platform import MaybeSent, NotSent, OutgoingMessage
from outlast.doors.gateway.platforms.matrix import Matrix
from outlast.doors.gateway.platforms.matrix_event import MOST_TRIES
from tests.gateway.homeserver import BOT, BROKEN, LIMITED, OWNER, ROOM, UNKNOWN_TOKEN, Answer, Homeserver, serving
from tests.gateway.world import NAME, eventually, running, settings_for

HELLO = OutgoingMessage(text="hello", key="k")


@pytest.fixture
def home() -> Generator[Homeserver]:
    with serving() as found:
        yield found


def account(url: str, tmp_path: Path, welcome: Collection[str] = (OWNER,), token: str | None = None) -> Matrix:
    return Matrix(
        url,
        BOT,
        token=token,
        password=None if token else "p",
        position=SyncPosition(settings_for(tmp_path), NAME),
        welcomes=lambda user: user in welcome,
        poll_ms=200,
    )


def talking(tmp_path: Path, matrix: Matrix) -> Any:
    owners = frozenset({OWNER})
    return running(tmp_path, chat_platform=matrix, platform="matrix", owners=owners, edit_seconds=0.0)


@pytest.mark.parametrize("answer", [LIMITED, BROKEN])
async def test_a_message_is_not_lost_when_the_homeserver_does_not_say_who_is_in_the_room(
    home: Homeserver, tmp_path: Path, answer: Answer
) -> None:
    async with talking(tmp_path, account(home.url, tmp_path)):
        await eventually(lambda: home.asked.count("sync") >= 2)
        home.faults = [("joined_members", answer)]
        home.say("hello")
        await eventually(lambda: home.texts == ["re: hello"])


async def test_what_has_another_shape_than_it_should_silences_nobody(home: Homeserver, tmp_path: Path) -> None:
    hostile: list[dict[str, Any]] = [
        {"m.mentions": ["x"]},
        {"m.mentions": {"user_ids": "x"}},
        {"m.relates_to": ["x"]},
        {"m.relates_to": {"m.in_reply_to": "x"}},
        {"m.relates_to": {"m.in_reply_to": {"event_id": 7}}},
        {"m.relates_to": {"rel_type": "m.thread", "event_id": {}}},
        {"body": 7},
        {"msgtype": ["m.text"]},
    ]
    async with talking(tmp_path, account(home.url, tmp_path)) as world:
        await eventually(lambda: home.asked.count("sync") >= 2)
        for content in hostile:
            home.say("x", "@stranger:here", **content)
            home.say("x", **content)
        home.say("hello")
        await eventually(lambda: "re: hello" in home.texts)
        assert world.gateway.states[0].detail is None


async def test_media_is_answered_in_a_sentence(home: Homeserver, tmp_path: Path) -> None:
    async with talking(tmp_path, account(home.url, tmp_path)):
        await eventually(lambda: home.asked.count("sync") >= 2)
        home.say("cat.jpg", msgtype="m.image", url="mxc://here/cat")
        home.say("hello")
        await eventually(lambda: "re: hello" in home.texts)
        assert home.texts[0] == "I can read text only, so a message of the kind m.image was ignored."


@pytest.mark.parametrize("answer", [LIMITED, BROKEN])
async def test_an_invitation_is_accepted_though_it_does_not_work_at_once(
    home: Homeserver, tmp_path: Path, answer: Answer
) -> None:
    home.invite()
    home.faults = [("join", answer)]
    async with talking(tmp_path, account(home.url, tmp_path)):
        await eventually(lambda: home.asked.count("join") == 2)
        home.say("hello")
        await eventually(lambda: home.texts == ["re: hello"])


async def test_a_room_that_cannot_be_entered_silences_no_other(home: Homeserver, tmp_path: Path) -> None:
    home.invite()
    home.faults = [("join", BROKEN)] * 100
    async with talking(tmp_path, account(home.url, tmp_path)):
        await eventually(lambda: "join" in home.asked)
        home.say("hello")
        await eventually(lambda: home.texts == ["re: hello"])
        syncs = home.asked.count("sync")
        await eventually(lambda: home.asked.count("sync") > syncs + MOST_TRIES)
        assert home.asked.count("join") == MOST_TRIES


async def test_an_invitation_waits_until_the_inviter_is_welcome(home: Homeserver, tmp_path: Path) -> None:
    welcome = set[str]()
    home.invite()
    async with talking(tmp_path, account(home.url, tmp_path, welcome)):
        await eventually(lambda: home.asked.count("sync") >= 3)
        assert "join" not in home.asked
        welcome.add(OWNER)
        await eventually(lambda: home.asked.count("join") == 1)


async def test_an_invitation_waits_over_a_restart(home: Homeserver, tmp_path: Path) -> None:
    home.invite()
    async with talking(tmp_path, account(home.url, tmp_path, welcome=())):
        await eventually(lambda: home.asked.count("sync") >= 3)
    assert "join" not in home.asked
    async with talking(tmp_path, account(home.url, tmp_path)):
        await eventually(lambda: home.asked.count("join") == 1)
        home.say("hello")
        await eventually(lambda: home.texts == ["re: hello"])
        kept = SyncPosition(settings_for(tmp_path), NAME)
        await eventually(lambda: kept.invitations(BOT) == {})
    async with talking(tmp_path, account(home.url, tmp_path)):
        home.say("again")
        await eventually(lambda: home.texts == ["re: hello", "re: again"])
        assert home.asked.count("join") == 1


async def test_what_is_to_be_brought_before_we_are_let_in_waits(home: Homeserver, tmp_path: Path) -> None:
    matrix = account(home.url, tmp_path)
    with pytest.raises(NotSent):
        await matrix.send(ChatAddress(ROOM), HELLO)
    assert not await matrix.is_private(ROOM)
    await matrix.typing(ChatAddress(ROOM))
    assert home.asked == []
    await matrix.close()


async def test_a_homeserver_that_is_away_has_certainly_taken_nothing(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        matrix = account(f"http://127.0.0.1:{nobody.getsockname()[1]}", tmp_path, token="t")
        with pytest.raises(NotSent):
            await matrix.open()
        with pytest.raises(NotSent):
            await matrix.send(ChatAddress(ROOM), HELLO)
        await matrix.close()


@pytest.mark.parametrize(("answer", "raised"), [(UNKNOWN_TOKEN, NotSent), (LIMITED, NotSent), (BROKEN, MaybeSent)])
async def test_a_send_that_fails_for_now_can_be_tried_again(
    home: Homeserver, tmp_path: Path, answer: Answer, raised: type[Exception]
) -> None:
    matrix = account(home.url, tmp_path)
    await matrix.open()
    home.faults = [("send", answer)]
    with pytest.raises(raised):
        await matrix.send(ChatAddress(ROOM), HELLO)
    await matrix.send(ChatAddress(ROOM), HELLO)
    assert home.texts == ["hello"]
    await matrix.close()


async def test_a_reply_outlasts_a_homeserver_that_fails_again_and_again(home: Homeserver, tmp_path: Path) -> None:
    async with talking(tmp_path, account(home.url, tmp_path)) as world:
        await eventually(lambda: home.asked.count("sync") >= 2)
        home.faults = [("send", BROKEN)] * 8
        home.say("hello")
        await eventually(lambda: home.texts == ["re: hello"])
        assert home.faults == []
        assert world.gateway.states[0].state == "connected"
