"""A message in a chat: stored once, answered once, whatever is delivered twice, killed or raced."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, StoreUnavailable
from outlast.core.events import Delivery
from outlast.doors.gateway import delivery_worker
from outlast.doors.gateway.gateway import Gateway
from outlast.doors.gateway.platform import NotSent
from outlast.runtime.service import SessionService
from outlast.store import open_store
from outlast.store.port import Delete
from tests.gateway.echo import Echo
from tests.gateway.room import OWNER, Room
from tests.gateway.world import World, events_of, eventually, inputs_of, kinds_of, running, settings_for


async def test_a_message_is_answered_in_its_chat(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("hello")
        assert inputs_of(world.store, world.session()) == ["hello"]
        await world.asked("again")
        assert world.room.texts() == ["re: hello", "re: again"]
        assert inputs_of(world.store, world.session()) == ["hello", "again"]


async def test_a_chat_goes_on_after_a_restart(tmp_path: Path) -> None:
    room = Room()
    async with running(tmp_path, room) as world:
        await world.asked("one")
        first = world.session()
    async with running(tmp_path, room) as world:
        await world.asked("two")
        assert world.session() == first
        assert inputs_of(world.store, first) == ["one", "two"]
    assert room.texts(OWNER) == ["re: one", "re: two"]


async def test_the_first_message_makes_session_route_and_input_in_one_commit(tmp_path: Path) -> None:
    async with running(tmp_path, model=Echo()) as world:
        update = world.room.update("hello")
        before = world.store.routes()
        taken = await world.gateway.take("test", update)
        assert before == []
        assert taken is not None
        assert taken.began
        assert world.session() == taken.session_id
        kinds = [type(event).__name__ for event in world.events()][:4]
        assert kinds == ["SessionCreated", "RuntimeStateChanged", "RouteOpened", "InputAdmitted"]


async def test_1000_redeliveries_are_one_message_one_turn_and_one_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        update = world.room.update("once only")
        first = await world.gateway.take("test", update)
        assert first is not None
        for _ in range(10):
            again = await asyncio.gather(*(world.gateway.take("test", update) for _ in range(100)))
            assert {(one.session_id, one.seq) for one in again if one is not None} == {(first.session_id, first.seq)}
            assert all(one is not None and one.replayed for one in again)
        await world.asked("and another one")
        assert inputs_of(world.store, world.session()) == ["once only", "and another one"]
        assert len(kinds_of(world.store, world.session(), e.TurnStarted)) == 2
        assert world.room.texts() == ["re: once only", "re: and another one"]


async def test_commands_that_come_twice_are_carried_out_once(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("hello")
        old = world.session()
        new = world.room.say("/new")
        await world.room.until(lambda: len(world.room.texts()) == 2)
        fresh = world.session()
        assert fresh != old
        resume = world.room.say(f"/resume {old[:8]}")
        await world.room.until(lambda: len(world.room.texts()) == 3)
        assert world.session() == old
        for update in (new, resume, new):
            world.room.queue.put_nowait(update)
        await world.asked("still here")
        assert world.session() == old
        assert len(world.room.texts()) == 4


async def test_an_id_that_comes_again_with_another_text_is_not_taken(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.gateway.take("test", world.room.update("one", update_id="same"))
        with pytest.raises(ConflictError):
            await world.gateway.take("test", world.room.update("two", update_id="same"))
        assert inputs_of(world.store, world.session()) == ["one"]


async def test_two_gateways_that_hear_a_new_chat_at_once_begin_one_session(tmp_path: Path) -> None:
    async with running(tmp_path) as one, running(tmp_path, url=one.store.url) as two:
        for n in range(10):
            chat = str(5000 + n)
            updates = [one.room.update(f"m{k}", chat=chat) for k in range(3)]
            takes = [gateway.take("test", update) for update in updates for gateway in (one.gateway, two.gateway)]
            taken = await asyncio.gather(*takes)
            assert len({each.session_id for each in taken if each is not None}) == 1
            assert sorted(inputs_of(one.store, one.session(chat))) == ["m0", "m1", "m2"]
            assert sum(each is not None and each.began for each in taken) == 1


async def test_what_was_stored_and_not_answered_is_answered_after_a_restart(tmp_path: Path) -> None:
    room, stuck = Room(), Echo()
    stuck.hold = asyncio.Event()
    async with running(tmp_path, room, stuck, patience=0.1):
        room.say("one")
        room.say("two")
        await room.until(lambda: len(room.confirmed) == 2)
    async with running(tmp_path, room) as world:
        await room.heard("re: two")
        assert [text for text in room.texts() if text.startswith("re:")] == ["re: one", "re: two"]
        assert len(kinds_of(world.store, world.session(), e.TurnStarted)) == 2


async def test_an_update_is_confirmed_only_when_it_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as world:
        real, away, tried = world.store.commit_async, True, asyncio.Event()

        async def commit(*writes: object) -> object:
            tried.set()
            if away:
                raise StoreUnavailable("the disk is full")
            return await real(*writes)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(world.store, "commit_async", commit)
        update = world.room.say("hello")
        await tried.wait()
        assert world.room.confirmed == []
        away = False
        await world.room.heard("re: hello")
        await world.room.until(lambda: world.room.confirmed == [update.update_id])


async def test_while_the_platform_is_away_the_gateway_waits_and_nothing_is_lost(tmp_path: Path) -> None:
    room = Room()
    room.trouble = [NotSent("the network is down"), NotSent("the network is down", retry_after=0.1)]
    async with running(tmp_path, room) as world:
        await world.asked("hello")
        assert room.opened == 3
        assert world.gateway.states[0].state == "connected"


def has_heard(world: World, inputs: int) -> bool:
    """Whether whoever drives a session knows of so many inputs; that shows nowhere else."""
    drivers = [runner.driver for runner in world.line.pool._host.runners.values()]
    return any(len(driver.state.unanswered) == inputs for driver in drivers if driver is not None)


@pytest.mark.parametrize("busy", list(Delivery))
async def test_messages_while_a_turn_runs_go_by_the_policy(tmp_path: Path, busy: Delivery) -> None:
    room, model = Room(), Echo()
    model.hold = asyncio.Event()
    async with running(tmp_path, room, model, busy=busy) as world:
        room.say("first")
        await eventually(lambda: bool(model.seen))
        room.say("second")
        await room.until(lambda: len(room.confirmed) == 2)
        await eventually(lambda: len(inputs_of(world.store, world.session())) == 2)
        if busy is Delivery.STEER:
            await eventually(lambda: has_heard(world, 2))
        if busy is Delivery.INTERRUPT:
            await room.until(lambda: any("Stopped" in text for text in room.texts()))
        model.hold.set()
        await room.until(lambda: any(text.endswith("re: second") for text in room.texts()))
        turns = kinds_of(world.store, world.session(), e.TurnStarted)
        assert len(turns) == (1 if busy is Delivery.STEER else 2)


async def test_the_next_message_after_a_session_ended_begins_a_new_one(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("hello")
        await world.settled()
        ended = world.session()
        service = SessionService(world.store, "cli")
        await service.end(ended, world.line.pool.turn_context(ended))
        await world.asked("are you there")
        assert world.session() != ended
        assert inputs_of(world.store, world.session()) == ["are you there"]
        assert any("has ended" in text for text in world.room.texts())


async def test_the_next_message_after_a_session_was_deleted_begins_a_new_one(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("hello")
        await world.settled()
        gone = world.session()
        world.store.commit(Delete(session_id=gone, actor="user"))
        await world.asked("are you there")
        assert world.session() != gone


async def test_a_chat_that_changes_nothing_writes_nothing_to_its_route(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("one")
        for n in range(5):
            await world.asked(f"more {n}")
        assert len(kinds_of(world.store, world.session(), e.RouteOpened)) == 1
        assert world.store.routes() == [(world.route(), world.session())]


async def test_why_nothing_answers_is_told_once(tmp_path: Path) -> None:
    room = Room()
    settings = replace(settings_for(tmp_path), model="anthropic:claude-sonnet-4-5")
    with open_store(settings.store) as store:
        gateway = Gateway(store, settings, make=lambda table, given: room)
        await gateway.start()
        room.say("hello")
        await room.until(lambda: any("needs a key" in text for text in room.texts()))
        room.say("again")
        await room.until(lambda: len(room.confirmed) == 2)
        await gateway.look(gateway.lines["test"])
        assert len(room.texts()) == 1
        await gateway.close(0.2)


async def test_a_trouble_that_comes_later_is_told_though_nobody_sees_us_typing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_worker, "TROUBLE_SECONDS", 0.01)
    room = Room()
    room.typing_seconds = 3600.0
    settings = settings_for(tmp_path)
    with open_store(settings.store) as store:
        gateway = Gateway(store, settings, make=lambda table, given: room, works=False)
        looks = iter([None, None])

        def trouble(session_id: str) -> str | None:
            return next(looks, "no model")

        monkeypatch.setattr(gateway.lines["test"].pool, "trouble", trouble)
        await gateway.start()
        room.say("hello")
        await room.heard("⚠️ Nothing answers here just now: no model")
        await gateway.close(0.2)


async def test_why_a_request_is_not_carried_out_is_told_too(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.asked("hello")
    settings = replace(world.settings, model="anthropic:claude-sonnet-4-5")
    room = Room()
    with open_store(world.settings.store) as store:
        gateway = Gateway(store, settings, make=lambda table, given: room)
        await gateway.start()
        room.say("/compact", update_id="another")
        await room.until(lambda: any("needs a key" in text for text in room.texts()))
        await gateway.close(0.2)


async def test_a_long_silence_is_not_read_from_the_beginning(tmp_path: Path) -> None:
    """The outbox of a chat that is owed nothing is found out from the last few events."""
    async with running(tmp_path) as world:
        for n in range(11):
            await world.asked(f"m{n}")
        await world.settled()
        session, reads = world.session(), list[int]()
        real = world.store.read

        def read(session_id: str, **how: object) -> object:
            found = real(session_id, **how)  # pyright: ignore[reportArgumentType]
            reads.append(len(found))
            return found

        world.store.read = read  # pyright: ignore[reportAttributeAccessIssue]
        assert world.line.deliveries.outbox(world.route(), session).empty
        assert sum(reads) <= 12
        assert len(events_of(world.store, session)) > 150


async def test_one_update_that_breaks_something_does_not_silence_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as world:
        real = world.line.chats.admit

        async def admit(sender: Any, text: str, *more: Any) -> Any:
            if text == "poison":
                raise RuntimeError("nobody foresaw this")
            return await real(sender, text, *more)

        monkeypatch.setattr(world.line.chats, "admit", admit)
        world.room.say("poison")
        await world.asked("hello")
        assert "unexpected error" in world.room.texts()[0]
