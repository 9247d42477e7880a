"""The driver's lease: it is renewed while the driver has it, and never mistaken for one that was taken over."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from outlast.core import events as e
from outlast.core.errors import StaleLease
from outlast.core.header import Header
from outlast.runtime.clock import SystemClock
from outlast.runtime.driver import Driver
from outlast.store import open_store
from outlast.store.port import Claim, Create, NewEvent
from outlast.testing.contract.exam import new_id


class Hasty(SystemClock):
    """Never waits, so that renewals come all the time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def test_a_renewal_never_meets_the_commit_that_gives_the_lease_back(tmp_path: Path) -> None:
    session_id = new_id()
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        store.commit(Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),)))
        driver = await Driver.open(store, session_id, Hasty())
        renewing = asyncio.create_task(driver.renew_for_ever())
        for n in range(60):
            await driver.claim()
            await driver.write(e.RuntimeStateChanged(changes={"n": n}), release=True)
            assert not renewing.done(), renewing.exception()
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
    assert driver.state.runtime["n"] == 59


class Sleeper(SystemClock):
    """A clock of a machine that stood still for `gone` seconds."""

    gone = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.gone


async def test_a_lease_that_ran_low_is_renewed_before_an_effect_if_no_other_driver_took_it(tmp_path: Path) -> None:
    session_id, clock = new_id(), Sleeper()
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        store.commit(Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),)))
        driver = await Driver.open(store, session_id, clock)
        await driver.claim()
        clock.gone = 60.0
        await driver.fresh()  # nobody took over: it goes on
        clock.gone = 120.0
        store.commit(Claim(session_id=session_id, token=new_id(), holder="elsewhere boot 1 1", force=True))
        with pytest.raises(StaleLease):
            await driver.fresh()
