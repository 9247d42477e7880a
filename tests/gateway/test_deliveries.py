"""Bringing replies to a chat: at most once unmarked, and in the end for certain."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast.app.chat.delivery_log import DeliveryLog
from outlast.core import events as e
from outlast.core.chat_route import ChatAddress
from outlast.core.errors import ModelRefused, StoreUnavailable
from outlast.core.ids import id_from
from outlast.core.messages import ToolCall
from outlast.core.outbox import DeliveryKind, OutboxItem
from outlast.doors.gateway import delivery_worker
from outlast.doors.gateway.delivery_worker import MOST_ATTEMPTS, DeliveryWorker
from outlast.doors.gateway.message_text import REPEATED, turn_text
from outlast.doors.gateway.platform import MaybeSent, NotSent, OutgoingMessage, Rejected
from outlast.models.port import CompletionResponse, ModelRequest
from outlast.runtime.permissions.mode import PermissionMode
from outlast.store import open_store
from outlast.store.lineage import rotate
from tests.gateway.echo import Echo
from tests.gateway.room import OWNER, Room
from tests.gateway.world import events_of, eventually, kinds_of, running


async def test_a_reply_grows_in_place_at_the_pace_of_the_platform(tmp_path: Path) -> None:
    model = Echo(pieces=6)
    model.halfway = asyncio.Event()
    async with running(tmp_path, model=model) as world:
        world.room.say("tell me something long")
        await world.room.until(lambda: bool(world.room.shown))
        model.halfway.set()
        await world.room.heard("re: tell me something long")
        [shown] = world.room.shown
        assert shown.edits, "nothing was shown while it was written"
        assert all("re: tell me something long".startswith(edit) for edit in shown.edits)
        assert len(kinds_of(world.store, world.session(), e.DeliveryBegun)) == 1


def test_a_turn_that_was_stopped_is_not_told_as_done() -> None:
    item = OutboxItem(
        what=DeliveryKind.TURN, of_seq=1, needs=1, over=True, outcome="stopped", reason="it repeats itself"
    )
    assert turn_text(item, "") == "⏹ Stopped: it repeats itself"


async def test_with_no_edits_only_whole_replies_are_shown(tmp_path: Path) -> None:
    model = Echo()
    model.halfway = asyncio.Event()
    async with running(tmp_path, model=model, edit_seconds=0.0) as world:
        world.room.say("hello")
        await world.room.until(lambda: world.room.typed > 0)
        assert world.room.shown == []
        model.halfway.set()
        await world.room.heard("re: hello")
        assert [(one.text, one.edits) for one in world.room.shown] == [("re: hello", [])]


async def test_a_long_reply_comes_in_several_messages_in_order(tmp_path: Path) -> None:
    paragraphs = [f"Paragraph {n}. " + "words " * 200 for n in range(8)]

    def script(asked: str, request: ModelRequest) -> str:
        return "\n\n".join(paragraphs)

    async with running(tmp_path, model=Echo(script=script, delay=0.02, pieces=10)) as world:
        world.room.say("go")
        await world.room.until(lambda: "Paragraph 7" in "".join(world.room.texts()))
        await world.settled()
        text = "\n\n".join(world.room.texts())
        assert len(world.room.shown) == 3
        places = [text.index(f"Paragraph {n}.") for n in range(8)]
        assert places == sorted(places)
        assert all(len(one.text) <= world.room.longest for one in world.room.shown)


async def test_what_was_certainly_not_sent_is_sent_again_and_not_marked(tmp_path: Path) -> None:
    room = Room()
    room.faults = [NotSent("no network"), NotSent("wait", retry_after=0.2)]
    async with running(tmp_path, room) as world:
        await world.asked("hello")
        assert room.texts() == ["re: hello"]
        assert [begun.attempt for begun in kinds_of(world.store, world.session(), e.DeliveryBegun)] == [1]


class Timed(Room):
    """Notes when it was asked to send."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    async def send(self, address: ChatAddress, message: OutgoingMessage) -> str:
        self.times.append(asyncio.get_running_loop().time())
        try:
            return await super().send(address, message)
        finally:
            await self._tell()


class Losing(Room):
    """Sends, and loses the confirmation."""

    async def send(self, address: ChatAddress, message: OutgoingMessage) -> str:
        sent = await super().send(address, message)
        if self.lost_answers:
            self.lost_answers -= 1
            raise MaybeSent("the answer was lost")
        return sent


async def test_a_lost_confirmation_costs_one_copy_that_is_marked(tmp_path: Path) -> None:
    room = Losing()
    room.lost_answers = 1
    async with running(tmp_path, room) as world:
        await world.asked("hello", f"{REPEATED}\n\nre: hello")
        assert room.texts() == ["re: hello", f"{REPEATED}\n\nre: hello"]
        assert [one.repeat for one in room.shown] == [False, True]
        await world.asked("next")
        assert room.texts()[2:] == ["re: next"]


async def test_a_platform_that_knows_repeats_is_sent_the_same_key_and_no_mark(tmp_path: Path) -> None:
    room = Room()
    room.knows_repeats = True
    room.faults = [MaybeSent("lost")]
    async with running(tmp_path, room) as world:
        await world.asked("hello")
        assert room.texts() == ["re: hello"]
        assert [begun.attempt for begun in kinds_of(world.store, world.session(), e.DeliveryBegun)] == [1]


class Keeping(Room):
    """Answers a key that it knows with the message of the first time, and ignores the new text, as Matrix does."""

    knows_repeats = True

    async def send(self, address: ChatAddress, message: OutgoingMessage) -> str:
        for shown in self.shown:
            if shown.key == message.key:
                return shown.message_id
        sent = await super().send(address, msgspec.structs.replace(message, text=message.text[:4]))
        raise MaybeSent(f"the confirmation of {sent} was lost")


async def test_a_reply_whose_first_part_was_taken_before_is_completed_by_an_edit(tmp_path: Path) -> None:
    room = Keeping()
    async with running(tmp_path, room) as world:
        await world.asked("hello")
        assert room.texts() == ["re: hello"]
        assert [shown.edits for shown in room.shown] == [["re: "]]


async def test_a_platform_that_knows_repeats_is_tried_until_it_takes_it(tmp_path: Path) -> None:
    room = Room()
    room.knows_repeats = True
    room.faults = [MaybeSent("lost")] * (MOST_ATTEMPTS + 2)
    async with running(tmp_path, room) as world:
        await world.asked("hello")
        assert room.texts() == ["re: hello"]


async def test_an_outage_after_a_lost_confirmation_uses_up_no_attempts(tmp_path: Path) -> None:
    room = Room()
    async with running(tmp_path, room) as world:
        await room.until(lambda: room.opened == 1)
        room.faults = [MaybeSent("lost")]
        room.trouble = [*[NotSent("no network")] * MOST_ATTEMPTS, *[Rejected("the token is void")] * MOST_ATTEMPTS]
        await world.asked("hello", f"{REPEATED}\n\nre: hello")
        assert room.trouble == []
        assert [begun.attempt for begun in kinds_of(world.store, world.session(), e.DeliveryBegun)] == [1, 2]


async def test_what_is_never_confirmed_is_given_up_where_every_attempt_may_be_seen(tmp_path: Path) -> None:
    room = Losing()
    room.lost_answers = 100
    async with running(tmp_path, room) as world:
        room.say("hello")
        await room.until(lambda: len(room.shown) == MOST_ATTEMPTS)
        await world.settled()
        [closed] = kinds_of(world.store, world.session(), e.DeliveryClosed)
        assert (closed.outcome, len(room.shown)) == ("failed", MOST_ATTEMPTS)


async def test_a_chat_that_refuses_us_is_given_up_and_the_session_goes_on(tmp_path: Path) -> None:
    room = Room()
    room.faults = [Rejected("the bot was blocked")]
    async with running(tmp_path, room) as world:
        room.say("hello")
        await world.asked("again")
        [closed, *_] = kinds_of(world.store, world.session(), e.DeliveryClosed)
        assert (closed.outcome, closed.reason) == ("failed", "the bot was blocked")
        assert room.texts() == ["re: again"]


async def test_a_message_that_cannot_be_edited_is_sent_anew(tmp_path: Path) -> None:
    room, model = Room(), Echo()
    model.halfway = asyncio.Event()
    async with running(tmp_path, room, model):
        room.say("hello there")
        await room.until(lambda: bool(room.shown))
        room.edit_faults = [Rejected("message to edit not found")]
        model.halfway.set()
        await room.heard("re: hello there")
        assert len(room.shown) == 2
        assert [one.text for one in room.shown][-1] == "re: hello there"
        assert REPEATED not in "".join(room.texts())


async def test_a_failed_turn_says_why(tmp_path: Path) -> None:
    def script(asked: str, request: ModelRequest) -> str:
        raise ModelRefused("the provider does not like this")

    async with running(tmp_path, model=Echo(script=script)) as world:
        world.room.say("hello")
        await world.room.until(lambda: any("the provider does not like this" in text for text in world.room.texts()))


async def test_what_another_process_left_undelivered_is_delivered_once_after_a_restart(tmp_path: Path) -> None:
    room = Room()
    room.faults = [NotSent("no network")] * 200
    async with running(tmp_path, room, patience=0.3) as world:
        room.say("hello")
        await eventually(lambda: world.store.route(world.route()) is not None)
        await eventually(lambda: bool(kinds_of(world.store, world.session(), e.TurnEnded)))
    assert room.texts() == []
    room.faults = []
    async with running(tmp_path, room):
        await room.until(lambda: len(room.shown) == 1)
    [text] = room.texts()
    assert text in ("re: hello", f"{REPEATED}\n\nre: hello")


async def test_a_begun_delivery_of_a_dead_gateway_is_sent_once_more_and_marked(tmp_path: Path) -> None:
    room = Room()
    async with running(tmp_path, room) as world:
        await world.asked("hello")
        await world.settled()
        session, route = world.session(), world.route()
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        dead = DeliveryLog(store)
        dead.by = "elsewhere some-boot 1 1 abcd"  # on another machine, so nobody here knows that it is dead
        await dead.tell(route, session, "a notice", "k")
        [seq] = dead.outbox(route, session).items
        assert await dead.begin(route, session, seq, 1, 1)
        assert not await DeliveryLog(store).begin(route, session, seq, 1, 1), "only one may send an attempt"
        delivery_worker = DeliveryWorker(
            room, DeliveryLog(store), route, session, edit_seconds=0.05, take_over_seconds=0.2
        )
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(10):
            await delivery_worker.run()
        assert asyncio.get_running_loop().time() - began >= 0.2, "it may still have been at it"
    assert room.texts()[-1] == f"{REPEATED}\n\na notice"


async def test_two_gateways_on_one_store_deliver_each_reply_once(tmp_path: Path) -> None:
    one, two = Room(), Room()
    async with running(tmp_path, one) as first, running(tmp_path, two, store=first.store) as second:
        for n in range(5):
            update = one.update(f"message {n}")
            await asyncio.gather(
                first.gateway.take("test", update), second.gateway.take("test", update), return_exceptions=True
            )
        for n in range(5):
            await eventually(lambda n=n: f"re: message {n}" in (*one.texts(), *two.texts()))
        shown = [*one.texts(), *two.texts()]
        assert sorted(shown) == [f"re: message {n}" for n in range(5)]
        turns = [event for event in events_of(first.store, first.session()) if isinstance(event, e.TurnStarted)]
        assert len(turns) == 5


async def test_what_was_said_is_brought_before_it_stops_though_nobody_had_read_it_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = asyncio.Event()
    reads.set()
    real_feed, real_finish = delivery_worker.feed, DeliveryWorker.finish

    async def feed(*given: Any, **more: Any) -> AsyncIterator[Any]:
        async for thing in real_feed(*given, **more):
            await reads.wait()
            yield thing

    def finish(self: DeliveryWorker, *given: Any) -> None:
        real_finish(self, *given)
        reads.set()

    monkeypatch.setattr(delivery_worker, "feed", feed)
    monkeypatch.setattr(DeliveryWorker, "finish", finish)
    room, model = Room(), Echo()
    model.halfway = asyncio.Event()
    async with running(tmp_path, room, model) as world:
        room.say("hello")
        await room.until(lambda: bool(room.shown))
        reads.clear()
        model.halfway.set()
        await eventually(lambda: bool(kinds_of(world.store, world.session(), e.TurnEnded)))
    assert room.texts() == ["re: hello"]


async def test_a_turn_of_another_door_is_not_told_to_the_chat(tmp_path: Path) -> None:
    from outlast.runtime.service import SessionService

    async with running(tmp_path) as world:
        await world.asked("from the chat")
        service = SessionService(world.store, "cli")
        await service.admit(world.session(), "from the terminal")
        world.line.pool.wake(world.session())
        await world.settled()
        await world.asked("from the chat again")
        assert world.room.texts() == ["re: from the chat", "re: from the chat again"]


async def test_a_tool_that_runs_is_shown_while_it_does(tmp_path: Path) -> None:
    def script(asked: str, request: ModelRequest) -> str | CompletionResponse:
        if any(message.tool_results for message in request.messages):
            return "done"
        waiting = "while [ ! -e seen ]; do sleep 0.02; done"
        return CompletionResponse(tool_calls=[ToolCall(id="c", name="bash", arguments={"command": waiting})])

    mode = PermissionMode.DANGER_FULL_ACCESS
    async with running(tmp_path, model=Echo(script=script), permission_mode=mode) as world:
        world.room.say("wait a little")
        await world.room.until(lambda: any("bash" in text for text in world.room.texts()))
        (world.line.project / "seen").touch()
        await world.room.heard("done")
        assert len(world.room.texts(OWNER)) == 1


async def test_a_courier_that_is_sent_to_a_session_which_rotated_goes_on_in_its_child(tmp_path: Path) -> None:
    room = Room()
    async with running(tmp_path, room) as world:
        await world.asked("hello")
        await world.settled()
        parent, route = world.session(), world.route()
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        child = id_from(os.urandom(16))
        store.commit(*rotate(store.head(parent), child, token="t", holder="h"))
        deliveries = DeliveryLog(store)
        await deliveries.tell(route, parent, "said after the rotation", "k")
        assert deliveries.outbox(route, parent).session_id == child
        async with asyncio.timeout(10):
            await DeliveryWorker(room, deliveries, route, parent, edit_seconds=0.05).run()
    assert room.texts()[-1] == "said after the rotation"


async def test_a_platform_that_asks_to_wait_is_not_asked_before(tmp_path: Path) -> None:
    room, sent = Timed(), 0.5
    room.faults = [NotSent("wait", retry_after=sent)]
    async with running(tmp_path, room):
        room.say("hello")
        await room.until(lambda: not room.faults)
        for n in range(5):  # news must not make the courier impatient
            room.say(f"/status {n}")
        await room.heard("re: hello")
    assert room.times[1] - room.times[0] >= sent


async def test_what_another_gateway_has_begun_is_not_closed_here(tmp_path: Path) -> None:
    room = Room()
    async with running(tmp_path, room) as world:
        await world.asked("hello")
        await world.settled()
        session, route = world.session(), world.route()
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        one, two = DeliveryLog(store), DeliveryLog(store)
        await one.tell(route, session, "a notice", "k")
        [seq] = one.outbox(route, session).items
        late = DeliveryWorker(room, two, route, session, edit_seconds=0.05)
        late.box = two.outbox(route, session)  # as it was before the other one began
        assert await one.begin(route, session, seq, 1, 1)
        await late._round()
        assert kinds_of(store, session, e.DeliveryClosed)[-1].of_seq != seq
        assert "a notice" not in room.texts()
        one.close()
        async with asyncio.timeout(10):
            await DeliveryWorker(room, two, route, session, edit_seconds=0.05).run()
    assert room.texts()[-1] == f"{REPEATED}\n\na notice"


async def test_the_platforms_word_is_noted_again_when_the_store_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as world:
        real, failures = world.line.deliveries.made, [1, 1]

        async def made(*given: Any) -> None:
            if failures:
                failures.pop()
                raise StoreUnavailable("the disk is full")
            await real(*given)

        monkeypatch.setattr(world.line.deliveries, "made", made)
        await world.asked("hello")
        await world.settled()
        [noted] = kinds_of(world.store, world.session(), e.DeliveryMade)
        assert noted.message_id == world.room.shown[0].message_id
        assert world.room.texts() == ["re: hello"]


async def test_it_stops_at_once_though_something_cannot_be_brought(tmp_path: Path) -> None:
    room = Room()
    room.faults = [NotSent("no network")] * 1000
    async with asyncio.timeout(20), running(tmp_path, room, patience=0.0, edit_seconds=0.0):
        room.say("hello")
        await eventually(lambda: len(room.faults) < 999)
    assert room.texts() == []
