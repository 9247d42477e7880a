"""Users of the simulated fleet: they post until they are told that it is stored, and some of them follow a stream."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from outlast.app.sessions.create import create
from outlast.app.settings import Settings
from outlast.app.streams.broadcast import StreamHub
from outlast.app.streams.cursor import BEGINNING, cursor_from
from outlast.app.workers.worker_pool import WorkerPool
from outlast.core.errors import OutlastError
from outlast.core.events import Delivery
from outlast.runtime.service import SessionService
from tests.crash.evidence import Ack, ClientLog, Heard
from tests.crash.oracle import Job, made_job
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import SimulatedStore
from tests.support.sse import StreamClient

T = TypeVar("T")
ANSWER_SECONDS = 30.0
PAUSE_SECONDS = 5.0
CATCH_UP_SECONDS = 120.0


@dataclass
class Member:
    """A worker (with its crew) or a door (with its streams), alive."""

    process: Process
    store: SimulatedStore
    pool: WorkerPool | None = None
    live: StreamHub | None = None


class Users:
    """All of them. `doors` is whoever serves at the moment."""

    def __init__(
        self, loop: SimulatedLoop, seed: int, doors: list[Member], settings: Settings, *, followed: float
    ) -> None:
        self.acks: list[Ack] = []
        self.logs: list[ClientLog] = []
        self.counts: Counter[str] = Counter()
        self._loop, self._seed, self._doors, self._settings = loop, seed, doors, settings
        self._followed = followed
        self._finish = asyncio.Event()
        self._following: list[asyncio.Task[None]] = []

    async def post(self, users: int, sessions: int) -> None:
        """So many users at once, until so many sessions have got their messages."""
        todo = iter(range(sessions))
        await asyncio.gather(*(self._user(number, todo) for number in range(users)))

    async def catch_up(self) -> None:
        """Every follower reads to the tip."""
        self._finish.set()
        if self._following:
            await asyncio.wait(self._following, timeout=CATCH_UP_SECONDS)

    async def _user(self, number: int, todo: Iterator[int]) -> None:
        dice = random.Random(f"{self._seed} user {number}")
        for n in todo:
            session_id = await self._made(dice)
            if dice.random() < self._followed:
                log = ClientLog(f"f{len(self.logs)}", session_id)
                self.logs.append(log)
                self._following.append(asyncio.create_task(self._follow(log, random.Random(f"{self._seed} {n}"))))
            for m in range(dice.choice((1, 1, 2))):
                await self._say(session_id, made_job(f"s{n}m{m}", dice, asks=False), dice)
                await asyncio.sleep(2 * PAUSE_SECONDS * dice.random())

    # --- posting

    async def _made(self, dice: random.Random) -> str:
        project = self._settings.project_root
        while True:
            door = dice.choice(self._doors)
            try:
                making = asyncio.to_thread(create, door.store, self._settings, project, door="http")
                return await self._at(door, making)
            except OutlastError:
                self.counts["not made"] += 1
                await asyncio.sleep(0.5)

    async def _say(self, session_id: str, job: Job, dice: random.Random) -> None:
        key = f"key-{job.name}"
        delivery = Delivery.STEER if dice.random() < 0.1 else Delivery.QUEUE
        while True:
            door = dice.choice(self._doors)
            service = SessionService(door.store, "http")
            try:
                receipt = await self._at(door, service.admit(session_id, job.text, key=key, delivery=delivery))
            except OutlastError:
                self.counts["not acknowledged"] += 1
                await asyncio.sleep(0.5)
                continue
            self.acks.append(Ack(receipt.session_id, job.name, key, receipt.seq))
            self.counts["repeated"] += receipt.replayed
            return

    async def _at(self, member: Member, work: Coroutine[Any, Any, T]) -> T:
        """Have it done there. A door that is killed never answers: its client has a patience of its own."""
        task: asyncio.Task[T] = self._loop.run_as(member.process, work)
        done, _ = await asyncio.wait([task], timeout=ANSWER_SECONDS)
        if not done:
            raise OutlastError("no answer")
        return task.result()

    # --- following

    async def _follow(self, log: ClientLog, dice: random.Random) -> None:
        """Cut off again and again, and back with its cursor at some door; to the tip when it is over."""
        client = StreamClient()
        while not log.broken:
            last = self._finish.is_set()
            door = dice.choice(self._doors)
            client.ids.clear()
            cursor = client.connected(bare=dice.random() < 0.3)
            streaming = self._loop.run_as(door.process, self._stream(door, log, client, cursor, follow=not last))
            finishing = asyncio.create_task(self._finish.wait())
            seconds = ANSWER_SECONDS if last else 1 + 20 * dice.random()
            await asyncio.wait(
                {streaming} if last else {streaming, finishing}, timeout=seconds, return_when="FIRST_COMPLETED"
            )
            finishing.cancel()
            self.counts["streams"] += 1
            if last and streaming.done() and streaming.result():
                return
            streaming.cancel()
            await asyncio.sleep(0.05)

    async def _stream(self, door: Member, log: ClientLog, client: StreamClient, cursor: str, *, follow: bool) -> bool:
        """One connection; whether it came to its end."""
        assert door.live is not None
        after = cursor_from(cursor) if cursor else BEGINNING
        try:
            async for data in door.live.frames(log.session_id, after, follow=follow):
                client.feed(data)
                new = client.events[len(log.heard) :]
                log.heard += [
                    Heard(one["seq"], one["kind"], one["at"], one.get("turn"), one.get("body"), self._loop.time())
                    for one in new
                ]
        except OutlastError:
            return False
        except AssertionError as error:
            log.broken = str(error) or "the stream broke its promises"
        return True
