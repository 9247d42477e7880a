"""Berths: never more than there are, and a turn that waits for a person holds none."""

from __future__ import annotations

import asyncio

import pytest

from outlast.app.workers.turn_slots import Berth, Berths


def taken(berths: Berths) -> Berth:
    assert berths.reserve(1) == 1
    return berths.take()


async def test_one_that_returns_comes_before_one_that_is_new() -> None:
    freed: list[int] = []
    berths = Berths(1, lambda: freed.append(1))
    first = taken(berths)
    answered = asyncio.Event()

    async def asks() -> None:
        async with first.aside():
            await answered.wait()

    asking = asyncio.create_task(asks())
    await asyncio.sleep(0)
    assert (berths.free, berths.beside, first.is_beside, len(freed)) == (1, 1, True, 1)
    second = taken(berths)
    answered.set()
    await asyncio.sleep(0.01)
    assert (asking.done(), berths.free, berths.beside) == (False, 0, 0)
    second.leave()
    await asking
    assert (berths.free, berths.taken) == (0, 1)
    first.leave()
    first.leave()
    assert (berths.free, berths.taken) == (1, 0)


async def test_who_is_stopped_while_it_waits_takes_none_back() -> None:
    berths = Berths(1, lambda: None)
    berth = taken(berths)

    async def asks(seconds: float) -> None:
        async with berth.aside():
            await asyncio.sleep(seconds)

    asking = asyncio.create_task(asks(60))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    berth.leave()
    assert (berths.free, berths.beside, berths.taken) == (1, 0, 0)
    berth = taken(berths)
    returning = asyncio.create_task(asks(0))
    await asyncio.sleep(0)
    other = taken(berths)
    await asyncio.sleep(0.01)
    returning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await returning
    other.leave()
    berth.leave()
    assert (berths.free, berths.taken) == (1, 0)


async def test_only_so_many_wait_beside() -> None:
    berths = Berths(1, lambda: None)
    answered = asyncio.Event()

    async def asks() -> None:
        berth = taken(berths)
        async with berth.aside():
            await answered.wait()
        berth.leave()

    asking = [asyncio.create_task(asks()) for _ in range(16)]
    await asyncio.sleep(0)
    assert (berths.free, berths.beside) == (1, 16)
    one_more = asyncio.create_task(asks())
    await asyncio.sleep(0)
    assert (berths.free, berths.beside) == (0, 17)
    answered.set()
    await asyncio.gather(*asking, one_more)
    assert (berths.free, berths.beside, berths.taken) == (1, 0, 0)


async def test_what_is_reserved_and_not_needed_goes_to_those_who_return() -> None:
    freed: list[int] = []
    berths = Berths(2, lambda: freed.append(1))
    berth = taken(berths)
    answered = asyncio.Event()

    async def asks() -> None:
        async with berth.aside():
            await answered.wait()

    asking = asyncio.create_task(asks())
    await asyncio.sleep(0)
    assert (berths.reserve(8), berths.reserve(8), berths.free) == (2, 0, 0)
    answered.set()
    await asyncio.sleep(0.01)
    assert not asking.done(), "never more run than there are berths"
    seen = len(freed)
    berths.hand_back(2)
    await asking
    assert (berths.free, berths.taken, len(freed)) == (1, 1, seen), "nobody is called for what was only kept"
