"""Berths: never more than there are, and a turn that waits for a person holds none."""

from __future__ import annotations

import asyncio

import pytest

from outlast.app.workers.turn_slots import TurnSlot, TurnSlots


def taken(slots: TurnSlots) -> TurnSlot:
    assert slots.reserve(1) == 1
    return slots.take()


async def test_one_that_returns_comes_before_one_that_is_new() -> None:
    freed: list[int] = []
    slots = TurnSlots(1, lambda: freed.append(1))
    first = taken(slots)
    answered = asyncio.Event()

    async def asks() -> None:
        async with first.released():
            await answered.wait()

    asking = asyncio.create_task(asks())
    await asyncio.sleep(0)
    assert (slots.free, slots.beside, first.is_released, len(freed)) == (1, 1, True, 1)
    second = taken(slots)
    answered.set()
    await asyncio.sleep(0.01)
    assert (asking.done(), slots.free, slots.beside) == (False, 0, 0)
    second.leave()
    await asking
    assert (slots.free, slots.taken) == (0, 1)
    first.leave()
    first.leave()
    assert (slots.free, slots.taken) == (1, 0)


async def test_who_is_stopped_while_it_waits_takes_none_back() -> None:
    slots = TurnSlots(1, lambda: None)
    slot = taken(slots)

    async def asks(seconds: float) -> None:
        async with slot.released():
            await asyncio.sleep(seconds)

    asking = asyncio.create_task(asks(60))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    slot.leave()
    assert (slots.free, slots.beside, slots.taken) == (1, 0, 0)
    slot = taken(slots)
    returning = asyncio.create_task(asks(0))
    await asyncio.sleep(0)
    other = taken(slots)
    await asyncio.sleep(0.01)
    returning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await returning
    other.leave()
    slot.leave()
    assert (slots.free, slots.taken) == (1, 0)


async def test_only_so_many_wait_beside() -> None:
    slots = TurnSlots(1, lambda: None)
    answered = asyncio.Event()

    async def asks() -> None:
        slot = taken(slots)
        async with slot.released():
            await answered.wait()
        slot.leave()

    asking = [asyncio.create_task(asks()) for _ in range(16)]
    await asyncio.sleep(0)
    assert (slots.free, slots.beside) == (1, 16)
    one_more = asyncio.create_task(asks())
    await asyncio.sleep(0)
    assert (slots.free, slots.beside) == (0, 17)
    answered.set()
    await asyncio.gather(*asking, one_more)
    assert (slots.free, slots.beside, slots.taken) == (1, 0, 0)


async def test_what_is_reserved_and_not_needed_goes_to_those_who_return() -> None:
    freed: list[int] = []
    slots = TurnSlots(2, lambda: freed.append(1))
    slot = taken(slots)
    answered = asyncio.Event()

    async def asks() -> None:
        async with slot.released():
            await answered.wait()

    asking = asyncio.create_task(asks())
    await asyncio.sleep(0)
    assert (slots.reserve(8), slots.reserve(8), slots.free) == (2, 0, 0)
    answered.set()
    await asyncio.sleep(0.01)
    assert not asking.done(), "never more run than there are berths"
    seen = len(freed)
    slots.hand_back(2)
    await asking
    assert (slots.free, slots.taken, len(freed)) == (1, 1, seen), "nobody is called for what was only kept"
