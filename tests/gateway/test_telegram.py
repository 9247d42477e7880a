"""The Telegram adapter, against a server on this machine that speaks the Bot API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.core import events as e
from outlast.core.chat_route import ChatAddress
from outlast.core.messages import ToolCall
from outlast.doors.gateway.message_text import REPEATED
from outlast.doors.gateway.platform import NotSent, OutgoingMessage, Rejected
from outlast.doors.gateway.platforms.telegram import Telegram
from outlast.models.port import CompletionResponse, ModelRequest
from outlast.runtime.permissions.mode import PermissionMode
from tests.gateway.bot_api import BOT_ID, BOT_NAME, TOKEN, BotApi, Fault, serving
from tests.gateway.echo import Echo
from tests.gateway.world import World, eventually, inputs_of, kinds_of, running

pytestmark = pytest.mark.filterwarnings("ignore::telegram.warnings.PTBDeprecationWarning")

MENTION: dict[str, Any] = {"entities": [{"type": "mention", "offset": 0, "length": len(BOT_NAME) + 1}]}


@pytest.fixture
def api() -> Generator[BotApi]:
    with serving() as found:
        yield found


@asynccontextmanager
async def chatting(api: BotApi, tmp_path: Path, model: Echo | None = None, **table: Any) -> AsyncGenerator[World]:
    platform = Telegram(TOKEN, api.url, poll_seconds=1)
    async with running(tmp_path, model=model, chat_platform=platform, **table) as world:
        yield world


async def shown(api: BotApi, true: Callable[[], bool]) -> None:
    await asyncio.to_thread(api.wait, true)


async def test_a_message_is_answered_formatted_and_confirmed_after_it_is_stored(api: BotApi, tmp_path: Path) -> None:
    model = Echo(script=lambda asked, request: "**bold** and `a < b`")
    async with chatting(api, tmp_path, model) as world:
        update = api.say("hello")
        await shown(api, lambda: api.texts() == ["<b>bold</b> and <code>a &lt; b</code>"])
        await eventually(lambda: update + 1 in api.offsets)
        assert inputs_of(world.store, world.session()) == ["hello"]
        [admitted] = [row for row in world.store.read(world.session()) if row.kind == "InputAdmitted"]
        assert admitted.key == f"{BOT_ID}:{update}"


async def test_an_update_that_is_delivered_again_and_again_is_one_message(api: BotApi, tmp_path: Path) -> None:
    async with chatting(api, tmp_path) as world:
        api.redeliver = 20
        api.say("once")
        await eventually(lambda: len(api.offsets) > 20)
        api.say("twice")
        await shown(api, lambda: "re: twice" in api.texts())
        assert api.texts() == ["re: once", "re: twice"]
        assert inputs_of(world.store, world.session()) == ["once", "twice"]


async def test_a_reply_is_edited_in_place_while_it_is_written(api: BotApi, tmp_path: Path) -> None:
    model = Echo(pieces=5)
    model.halfway = asyncio.Event()
    async with chatting(api, tmp_path, model):
        api.say("a longer one")
        await shown(api, lambda: bool(api.sent))
        model.halfway.set()
        await shown(api, lambda: "re: a longer one" in api.texts())
        [sent] = api.sent
        assert sent.edits >= 1
        assert api.actions >= 1


async def test_a_button_of_a_question_is_pressed(api: BotApi, tmp_path: Path) -> None:
    def script(asked: str, request: ModelRequest) -> str | CompletionResponse:
        if any(message.tool_results for message in request.messages):
            return "done"
        return CompletionResponse(tool_calls=[ToolCall(id="c", name="bash", arguments={"command": "touch x"})])

    async with chatting(api, tmp_path, Echo(script=script), permission_mode=PermissionMode.PROMPT) as world:
        api.say("do it")
        await shown(api, lambda: any(sent.markup for sent in api.sent))
        question = next(sent for sent in api.sent if sent.markup)
        assert question.markup is not None
        data = question.markup["inline_keyboard"][0][0]["callback_data"]
        assert len(data.encode()) <= 64
        api.press(question, data, user=6666)
        api.press(question, data)
        await shown(api, lambda: "done" in api.texts())
        [answered] = kinds_of(world.store, world.session(), e.ApprovalAnswered)
        assert answered.answer == "once"
        assert len(api.answered) == 1


async def test_a_lost_confirmation_is_one_copy_that_is_marked(api: BotApi, tmp_path: Path) -> None:
    api.faults = [Fault("sendMessage", lost=True)]
    async with chatting(api, tmp_path):
        api.say("hello")
        await shown(api, lambda: len(api.sent) == 2)
        assert api.texts() == ["re: hello", f"{REPEATED}\n\nre: hello"]


async def test_when_telegram_asks_to_wait_it_is_waited_and_nothing_is_doubled(api: BotApi, tmp_path: Path) -> None:
    def busy(seconds: int) -> dict[str, Any]:
        return {"description": "Too Many Requests", "parameters": {"retry_after": seconds}}

    api.faults = [Fault("sendMessage", 429, busy(1)), Fault("getUpdates", 429, busy(0))]
    async with chatting(api, tmp_path):
        api.say("hello")
        await shown(api, lambda: bool(api.sent))
        assert api.texts() == ["re: hello"]


async def test_a_reply_outlasts_a_token_that_was_void_and_a_telegram_that_was_down(api: BotApi, tmp_path: Path) -> None:
    void, down = (401, {"description": "Unauthorized"}), (502, {"description": "Bad Gateway"})
    async with chatting(api, tmp_path):
        await shown(api, lambda: bool(api.offsets))
        api.faults = [Fault("sendMessage", *answer) for answer in (void, void, down)]
        api.faults += [Fault("getMe", *down) for _ in range(6)]
        api.say("hello")
        await shown(api, lambda: bool(api.sent))
        assert api.texts() == [f"{REPEATED}\n\nre: hello"]
        assert api.faults == []


async def test_formatting_that_telegram_does_not_take_is_sent_plain(api: BotApi, tmp_path: Path) -> None:
    api.faults = [Fault("sendMessage", 400, {"description": "Bad Request: can't parse entities: x"})]
    async with chatting(api, tmp_path, Echo(script=lambda asked, request: "**x**")):
        api.say("hello")
        await shown(api, lambda: bool(api.sent))
        assert [(sent.text, sent.html) for sent in api.sent] == [("**x**", False)]


async def test_a_chat_that_blocked_the_bot_is_given_up(api: BotApi, tmp_path: Path) -> None:
    api.faults = [Fault("sendMessage", 403, {"description": "Forbidden: bot was blocked by the user"})]
    async with chatting(api, tmp_path) as world:
        api.say("hello")
        await eventually(lambda: bool(world.store.routes()))
        await eventually(lambda: bool(kinds_of(world.store, world.session(), e.DeliveryClosed)))
        [closed] = kinds_of(world.store, world.session(), e.DeliveryClosed)
        assert closed.outcome == "failed"
        assert "blocked" in closed.reason
        assert TOKEN not in closed.reason


async def test_what_is_nobodys_message_gets_nothing(api: BotApi, tmp_path: Path) -> None:
    async with chatting(api, tmp_path) as world:
        origin = {"type": "user", "date": 1, "sender_user": {"id": 5, "is_bot": False, "first_name": "X"}}
        api.say("forwarded", more={"forward_origin": origin})
        api.say("as a channel", chat=-100, more={"sender_chat": {"id": -5, "type": "channel", "title": "C"}})
        api.say("a bot", more={"from": {"id": 1001, "is_bot": True, "first_name": "B"}})
        api.say("a stranger with the owner's name", user=6666, name="Owner")
        api.say(None, chat=-100, more={"new_chat_members": [{"id": 7, "is_bot": False, "first_name": "N"}]})
        api.say("hello", name="Renamed")
        await shown(api, lambda: "re: hello" in api.texts())
        assert [sent.text for sent in api.sent] == ["re: hello"]
        assert len(world.store.routes()) == 1


async def test_media_is_answered_in_a_sentence(api: BotApi, tmp_path: Path) -> None:
    photo = [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}]
    async with chatting(api, tmp_path):
        api.say(None, more={"photo": photo, "caption": "look"})
        api.say(None, more={"voice": {"file_id": "f", "file_unique_id": "u", "duration": 1}})
        await shown(api, lambda: len(api.sent) == 2)
        assert api.texts() == [
            "I can read text only, so a photo was ignored.",
            "I can read text only, so a voice was ignored.",
        ]


async def test_a_group_is_answered_when_it_speaks_to_us(api: BotApi, tmp_path: Path) -> None:
    ours: dict[str, Any] = {"message_id": 1, "date": 1, "chat": {"id": -100, "type": "supergroup"}, "text": "x"}
    ours["from"] = {"id": BOT_ID, "is_bot": True, "first_name": "H"}
    command: dict[str, Any] = {"entities": [{"type": "bot_command", "offset": 0, "length": 17}]}
    async with chatting(api, tmp_path):
        api.say("not for us", chat=-100)
        api.say("/status@other_bot", chat=-100, more=command)
        api.say(f"@{BOT_NAME} mentioned", chat=-100, more=MENTION)
        api.say("replied", chat=-100, more={"reply_to_message": ours})
        await shown(api, lambda: "re: replied" in api.texts(-100))
        assert api.texts(-100) == ["re: mentioned", "re: replied"]


async def test_a_topic_has_its_own_session_and_is_answered_there(api: BotApi, tmp_path: Path) -> None:
    async with chatting(api, tmp_path) as world:
        api.say(f"@{BOT_NAME} one", chat=-100, more={**MENTION, "message_thread_id": 7, "is_topic_message": True})
        api.say(f"@{BOT_NAME} two", chat=-100, more={**MENTION, "message_thread_id": 8, "is_topic_message": True})
        await shown(api, lambda: len(api.texts(-100)) == 2)
        assert {sent.thread for sent in api.sent} == {7, 8}
        assert len(world.store.routes()) == 2


async def test_a_wrong_token_and_a_dead_server_are_one_sentence_without_the_token(api: BotApi) -> None:
    wrong = Telegram("1:wrong", api.url)
    with pytest.raises(Rejected, match="does not know this token") as rejected:
        await wrong.open()
    assert "1:wrong" not in str(rejected.value)
    await wrong.close()
    dead = Telegram(TOKEN, "http://127.0.0.1:9")
    with pytest.raises(NotSent) as refused:
        await dead.open()
    assert TOKEN not in str(refused.value)
    with pytest.raises(NotSent):
        await dead.send(ChatAddress("1"), OutgoingMessage(text="x", key="k"))
    await dead.close()


async def test_two_programs_on_one_bot_are_told(api: BotApi) -> None:
    telegram = Telegram(TOKEN, api.url, poll_seconds=1)
    await telegram.open()
    api.faults = [Fault("getUpdates", 409, {"description": "Conflict: terminated by other getUpdates request"})]
    with pytest.raises(NotSent, match="another program"):
        await anext(telegram.receive())
    await telegram.close()


async def test_an_edit_that_changes_nothing_is_done(api: BotApi) -> None:
    telegram = Telegram(TOKEN, api.url)
    await telegram.open()
    message = OutgoingMessage(text="same", key="k")
    sent = await telegram.send(ChatAddress("1001"), message)
    await telegram.edit(ChatAddress("1001"), sent, message)
    await telegram.close()
    assert api.texts() == ["same"]
