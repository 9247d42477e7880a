"""The nemesis: carries the schedule out. Each fault is a task of its own, so they overlap as they like.

A process that is already in trouble is left to it: the next one in order is taken. What was done is in the diary.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from tests.crash.actor import Actor
from tests.crash.client_log import Diary
from tests.crash.environment import Stage
from tests.crash.model import ModelServer
from tests.crash.plan import ON_EVERYBODY, Fault

BAD_MODEL = 0.7


class Nemesis:
    """`done` counts what was carried out, by kind; `skipped` what this machine does not permit, with the reason."""

    def __init__(self, plan: Sequence[Fault], actors: Sequence[Actor], stage: Stage, model: ModelServer, diary: Diary):
        self.plan = plan
        self.done: Counter[str] = Counter()
        self.skipped: dict[str, str] = {}
        self.refused_to_leave: list[str] = []
        self.longest_leave = 0.0
        self.enough = False
        self._actors, self._stage, self._model, self._diary = actors, stage, model, diary
        self._under_way: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()
        self._bad = 0

    @property
    def count(self) -> int:
        return self.done.total()

    async def run(self) -> None:
        """Carry out all of it; returns when the last fault is over."""
        before = 0.0
        for fault in self.plan:
            await asyncio.sleep(fault.at - before)  # one that had to wait for its victim holds up all that follow
            before = fault.at
            if self.enough:
                break
            if fault.kind == "full disk" and (why := self._stage.no_full_disk):
                self.skipped[fault.kind] = why
                continue
            actor = await self._free(fault.target) if fault.kind not in ON_EVERYBODY else None
            task = asyncio.create_task(self._carry_out(fault, actor))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        await asyncio.gather(*self._under_way)

    async def _free(self, target: int) -> Actor:
        """The actor that is meant, or the next that is not in trouble."""
        while True:
            for n in range(len(self._actors)):
                actor = self._actors[(target + n) % len(self._actors)]
                if not actor.busy and actor.ready.is_set():
                    actor.busy = True
                    return actor
            await asyncio.sleep(0.05)

    async def _carry_out(self, fault: Fault, actor: Actor | None) -> None:
        who = actor.name if actor is not None else "everybody"
        self._diary.note("fault", who, number=fault.number, kind=fault.kind, seconds=fault.seconds)
        try:
            if actor is None:
                await self._do_to_everybody(fault)
            else:
                await self._do(fault, actor)
        finally:
            self.done[fault.kind] += 1
            if actor is not None:
                actor.busy = False
        self._diary.note("over", who, number=fault.number, kind=fault.kind)

    async def _do(self, fault: Fault, actor: Actor) -> None:
        what, _, whose = fault.kind.partition(" ")
        match what:
            case "kill":
                await actor.kill()
            case "term":
                began = self._diary.now
                if not await actor.ask_to_leave():
                    self.refused_to_leave.append(actor.name)
                self.longest_leave = max(self.longest_leave, actor.gone_at - began)
            case "pause":
                await actor.pause(fault.seconds)
            case "clock":
                actor.set_clock(fault.amount)
            case "cut":
                actor.proxies[whose].cut(fault.amount)
            case "silence":
                actor.proxies[whose].silence()
                await asyncio.sleep(fault.seconds)
                actor.proxies[whose].heal()
            case "slow":
                actor.proxies[whose].slow(20_000, 0.05)
                await asyncio.sleep(fault.seconds)
                actor.proxies[whose].heal()
            case _:
                raise AssertionError(f"no such fault: {fault.kind}")

    async def _do_to_everybody(self, fault: Fault) -> None:
        match fault.kind:
            case "bad model":
                await self._bad_model(fault.seconds)
            case "restart postgres":
                async with self._one_at_a_time:
                    await self._stage.crash()
            case _:
                async with self._one_at_a_time:
                    await self._stage.fill_disk(fault.seconds)

    async def _bad_model(self, seconds: float) -> None:
        """Several may overlap: it is as before when the last one is over."""
        usual = self._model.usual
        self._bad += 1
        self._model.unreliability = BAD_MODEL
        await asyncio.sleep(seconds)
        self._bad -= 1
        self._model.unreliability = BAD_MODEL if self._bad else usual
