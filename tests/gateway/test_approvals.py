"""Questions of a session, answered from a chat: by an owner, in private, for the call that was shown, once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.core import events as e
from outlast.core.messages import ToolCall
from outlast.doors.gateway.platform import ChatUpdate
from outlast.models.port import CompletionResponse, ModelRequest
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.service import SessionService
from tests.gateway.echo import Echo
from tests.gateway.room import MEMBER, OWNER, STRANGER, Room, Shown
from tests.gateway.world import World, eventually, kinds_of, running

GROUP = "-100"


def wanting(command: str = "touch made-by-the-test", name: str = "bash", **arguments: Any) -> Echo:
    """A model that wants one call and then tells what came of it."""

    def script(asked: str, request: ModelRequest) -> str | CompletionResponse:
        if asked.startswith("plain"):
            return f"re: {asked}"
        results = [result for message in request.messages for result in message.tool_results]
        if results:
            return f"result: {results[-1].content}"
        given = arguments or {"command": command}
        return CompletionResponse(tool_calls=[ToolCall(id="c1", name=name, arguments=given)])

    return Echo(script=script)


@asynccontextmanager
async def asking(
    tmp_path: Path, room: Room | None = None, model: Echo | None = None, **table: Any
) -> AsyncGenerator[World]:
    table = {"permission_mode": PermissionMode.PROMPT, **table}
    async with running(tmp_path, room or Room(), model or wanting(), **table) as world:
        yield world


async def question_in(world: World, chat: str = OWNER) -> Shown:
    """The question that the chat shows, as soon as the log says that it does."""
    room = world.room

    def asks(one: Shown) -> bool:
        return one.address.chat == chat and ("Allow" in one.text or "❓" in one.text)

    await room.until(lambda: any(map(asks, room.shown)))
    shown = next(filter(asks, room.shown))
    sessions = {session for _, session in world.store.routes()}

    def is_noted() -> bool:
        made = [event for session in sessions for event in kinds_of(world.store, session, e.DeliveryMade)]
        return shown.message_id in {event.message_id for event in made}

    await eventually(is_noted)
    return shown


def pressed(room: Room, shown: Shown, label: str, **more: Any) -> ChatUpdate:
    data = next(button.data for button in shown.buttons if button.label == label)
    return room.say(None, pressed=data, chat=shown.address.chat, **{"message_id": shown.message_id, **more})


@pytest.mark.parametrize(
    ("label", "answer", "done"),
    [("Allow once", "once", True), ("Allow for this session", "session", True), ("Deny", "deny", False)],
)
async def test_a_button_answers(tmp_path: Path, label: str, answer: str, done: bool) -> None:
    async with asking(tmp_path) as world:
        world.room.say("do it")
        shown = await question_in(world)
        assert "touch made-by-the-test" in shown.text
        pressed(world.room, shown, label)
        await world.room.until(lambda: any(text.startswith("result:") for text in world.room.texts()))
        await world.settled()
        [answered] = kinds_of(world.store, world.session(), e.ApprovalAnswered)
        assert answered.answer == answer
        assert (world.line.project / "made-by-the-test").exists() is done
        assert shown.buttons == ()
        assert ("Denied" in shown.text) is not done
        assert len(world.room.acknowledged) == 1


@pytest.mark.parametrize(("text", "answer"), [("/approve", "once"), ("/approve session", "session"), ("/deny", "deny")])
async def test_a_command_answers(tmp_path: Path, text: str, answer: str) -> None:
    async with asking(tmp_path) as world:
        world.room.say("do it")
        await question_in(world)
        world.room.say(text)
        await world.room.until(lambda: any(one.startswith("result:") for one in world.room.texts()))
        [answered] = kinds_of(world.store, world.session(), e.ApprovalAnswered)
        assert answered.answer == answer


@pytest.mark.parametrize(("text", "answer"), [("yes", "once"), ("No", "deny"), ("👍", "once")])
async def test_a_reply_to_the_question_answers(tmp_path: Path, text: str, answer: str) -> None:
    async with asking(tmp_path) as world:
        world.room.say("do it")
        shown = await question_in(world)
        world.room.say("what?", reply_to=shown.message_id)
        await world.room.until(lambda: any("yes or no" in one for one in world.room.texts()))
        world.room.say(text, reply_to=shown.message_id)
        await world.room.until(lambda: any(one.startswith("result:") for one in world.room.texts()))
        [answered] = kinds_of(world.store, world.session(), e.ApprovalAnswered)
        assert answered.answer == answer


async def test_nothing_counts_but_the_owner_in_private_for_what_was_shown(tmp_path: Path) -> None:
    async with asking(tmp_path) as world:
        room = world.room
        room.say("do it")
        shown = await question_in(world)
        data = shown.buttons[0].data
        room.say(None, user=STRANGER, chat=OWNER, pressed=data, message_id=shown.message_id)
        room.say(None, user=MEMBER, chat=OWNER, pressed=data, message_id=shown.message_id)
        room.say(None, pressed=data, message_id=shown.message_id, private=False)
        room.say(None, pressed=data, message_id="b999")
        room.say(None, pressed=data.replace(":once", ":always"), message_id=shown.message_id)
        room.say(None, pressed=data[:-10] + "0" * 5 + ":once", message_id=shown.message_id)
        room.say(None, pressed="q:1:00:once", message_id=shown.message_id)
        room.say(None, pressed="nonsense", message_id=shown.message_id)
        room.say("yes", user=STRANGER, chat=OWNER, reply_to=shown.message_id)
        last = room.say("/status")
        await room.until(lambda: last.update_id in room.confirmed)
        assert kinds_of(world.store, world.session(), e.ApprovalAnswered) == []
        pressed(room, shown, "Deny")
        await room.until(lambda: any(one.startswith("result:") for one in room.texts()))


async def test_a_button_that_is_pressed_before_we_noted_that_it_was_sent_counts(tmp_path: Path) -> None:
    async with asking(tmp_path) as world:
        world.room.say("do it")
        await world.room.until(lambda: bool(world.room.shown and world.room.shown[0].buttons))
        pressed(world.room, world.room.shown[0], "Deny")
        await world.room.until(lambda: any(one.startswith("result:") for one in world.room.texts()))


async def test_a_button_that_is_pressed_again_does_nothing(tmp_path: Path) -> None:
    async with asking(tmp_path) as world:
        room = world.room
        room.say("do it")
        shown = await question_in(world)
        allow, deny = shown.buttons[0].data, shown.buttons[-1].data
        first = room.say(None, pressed=deny, message_id=shown.message_id)
        await room.until(lambda: any(one.startswith("result:") for one in room.texts()))
        taken = [await world.gateway.take("test", first) for _ in range(2)]
        assert taken[0] is not None
        assert taken[0].replayed
        assert taken[0] == taken[1], "the very same update is answered as it was"
        room.queue.put_nowait(first)
        room.say(None, pressed=allow, message_id=shown.message_id)
        room.say(None, pressed=deny, message_id=shown.message_id)
        await world.asked("plain after that", "re: plain after that")
        [answered] = kinds_of(world.store, world.session(), e.ApprovalAnswered)
        assert answered.answer == "deny"
        assert len(room.acknowledged) == 1


async def test_a_question_is_still_open_after_a_restart_and_asked_once(tmp_path: Path) -> None:
    room = Room()
    async with asking(tmp_path, room, patience=0.1) as world:
        room.say("do it")
        shown = await question_in(world)
    async with asking(tmp_path, room) as world:
        pressed(room, shown, "Allow once")
        await room.until(lambda: any(one.startswith("result:") for one in room.texts()))
        assert len([one for one in room.texts() if "Allow" in one and "bash" in one]) == 1
        assert len(kinds_of(world.store, world.session(), e.ApprovalRequested)) == 1


async def test_an_answer_from_another_door_is_shown_in_the_chat(tmp_path: Path) -> None:
    async with asking(tmp_path) as world:
        world.room.say("do it")
        shown = await question_in(world)
        [asked] = SessionService(world.store).state(world.session()).open_approvals
        await SessionService(world.store, "http").answer(world.session(), asked.seq, "deny")
        await world.room.until(lambda: "Denied" in shown.text)
        pressed_late = world.room.say("yes", reply_to=shown.message_id)
        await world.room.until(lambda: pressed_late.update_id in world.room.confirmed)
        await world.room.until(lambda: any("no longer open" in one for one in world.room.texts()))


async def test_a_question_in_a_group_is_answered_by_an_owner_in_private(tmp_path: Path) -> None:
    room = Room()
    room.groups = {GROUP}
    async with asking(tmp_path, room) as world:
        await world.asked("plain hello", "re: plain hello")
        room.say("do it", chat=GROUP)
        shown = await question_in(world, GROUP)
        assert shown.buttons == ()
        room.say("/approve", chat=GROUP)
        await room.until(lambda: any("private" in one for one in room.texts(GROUP)[1:]))
        session = world.session(GROUP, OWNER)
        room.say(f"/approve {session[:8]}")
        linked = await question_in(world)
        assert "touch made-by-the-test" in linked.text
        assert kinds_of(world.store, session, e.ApprovalAnswered) == [], "what is approved is seen first"
        pressed(room, linked, "Allow once")
        await room.until(lambda: any(one.startswith("result:") for one in room.texts(GROUP)))
        assert (world.line.project / "made-by-the-test").exists()


async def test_a_call_that_is_too_long_to_be_read_cannot_be_approved_in_a_chat(tmp_path: Path) -> None:
    model = wanting(command="echo " + "x" * 13_000)
    async with asking(tmp_path, model=model) as world:
        world.room.say("do it")
        await world.room.until(lambda: any("too long to show here" in one for one in world.room.texts()))
        last = world.room.shown[-1]
        assert [button.label for button in last.buttons] == ["Deny"]
        world.room.say("/approve")
        await world.room.until(lambda: any("already been answered" in one for one in world.room.texts()))
        assert kinds_of(world.store, world.session(), e.ApprovalAnswered) == []
        world.room.say("/deny")
        await world.room.until(lambda: any(one.startswith("result:") for one in world.room.texts()))


async def test_what_the_call_hides_is_shown(tmp_path: Path) -> None:
    async with asking(tmp_path, model=wanting(command="echo a\u202eb `x`\n```\nrm")) as world:
        world.room.say("do it")
        shown = await question_in(world)
        assert "<U+202E>" in shown.text
        assert "````" in shown.text, "the call must not be able to leave its block"
        pressed(world.room, shown, "Deny")
        await world.room.until(lambda: any(one.startswith("result:") for one in world.room.texts()))


@pytest.mark.parametrize(("kind", "answer"), [("text", "the blue one"), ("button", "red"), ("reply", "none of them")])
async def test_what_the_model_asks_is_answered(tmp_path: Path, kind: str, answer: str) -> None:
    model = wanting(name="ask_user", question="Which one?", choices=["red", "green"])
    async with asking(tmp_path, model=model) as world:
        world.room.say("do it")
        shown = await question_in(world)
        if kind == "button":
            given = pressed(world.room, shown, "red")
        else:
            given = world.room.say(answer, reply_to=shown.message_id if kind == "reply" else None)
        await world.room.until(lambda: any("result:" in one for one in world.room.texts()))
        [answered] = kinds_of(world.store, world.session(), e.ApprovalAnswered)
        assert answered.answer == answer
        again = await world.gateway.take("test", given)
        assert again is not None
        assert again.replayed
        assert len(kinds_of(world.store, world.session(), e.InputAdmitted)) == 1


async def test_what_a_sub_agent_wants_is_denied_because_no_chat_would_see_its_question(tmp_path: Path) -> None:
    def script(asked: str, request: ModelRequest) -> str | CompletionResponse:
        results = [result for message in request.messages for result in message.tool_results]
        if results:
            return f"result: {results[-1].content}"
        if asked.startswith("Dig"):
            return _calling("bash", command="install /dev/null made-by-the-test", needs=["network:example.org"])
        return _calling("task", prompt="Dig.")

    async with asking(tmp_path, model=Echo(script=script), permission_mode=PermissionMode.WORKSPACE_WRITE) as world:
        world.room.say("go")
        await world.room.until(lambda: any("nobody can be asked here" in one.text for one in world.room.shown))
        assert not any("Allow" in one.text for one in world.room.shown)
        assert not (world.line.project / "made-by-the-test").exists()


def _calling(name: str, **arguments: Any) -> CompletionResponse:
    return CompletionResponse(tool_calls=[ToolCall(id="c1", name=name, arguments=arguments)])
