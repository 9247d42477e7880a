"""The fleet: many workers and doors on one store, users who post and follow, and everything that goes wrong.

The crews, runners, drivers, recovery and streams are the real ones. What is simulated is below them (time, the network,
the store's disk) and beside them (the model, the shell, the users).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from outlast.app.settings import Settings
from outlast.app.streams.broadcast import StreamHub
from outlast.app.workers.worker_pool import WorkerPool
from outlast.core.header import Header
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.turn.context import TurnContext
from outlast.store.memory import Memory
from tests.crash.evidence import Evidence, Head, Row, Stored
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Network, SimulatedStore
from tests.simulation.parts import SimulatedModel, tools
from tests.simulation.users import Member, Users

SETTLE_SECONDS = 300.0
FAULTS = ("kill", "kill", "kill", "pause", "pause", "cut", "cut", "leave", "store", "clock", "door")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large, and how bad. `every` is the seconds from one fault to the next, on average."""

    seed: int = 1
    workers: int = 50
    doors: int = 4
    sessions: int = 5_000
    at_once: int = 4
    users: int = 200
    followed: float = 0.05
    every: float = 0.5
    lease_seconds: float = 10.0


@dataclass
class Found:
    """What a run leaves behind."""

    evidence: Evidence
    faults: Counter[str]
    counts: Counter[str]
    seconds: float
    settle_seconds: float
    is_settled: bool


@dataclass
class Fleet:
    scale: Scale
    loop: SimulatedLoop
    folder: Path
    memory: Memory = field(default_factory=Memory)
    witness: list[str] = field(default_factory=list[str])
    faults: Counter[str] = field(default_factory=Counter[str])
    workers: list[Member] = field(default_factory=list[Member])
    doors: list[Member] = field(default_factory=list[Member])
    _born: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(f"{self.scale.seed} fleet")
        self._strikes: set[asyncio.Task[None]] = set()
        self.network = Network(self.loop, self.memory, self.scale.seed)
        self.project = self.folder / "project"
        self.project.mkdir(parents=True)
        self.settings = Settings(
            home=self.folder / "home",
            project_root=self.project,
            store="memory://",
            model="simulated",
            permission_mode=PermissionMode.DANGER_FULL_ACCESS,
        )

    # --- the whole

    async def run(self) -> Found:
        self.workers = [await self._worker(f"w{n}") for n in range(self.scale.workers)]
        self.doors = [self._door(f"d{n}") for n in range(self.scale.doors)]
        users = Users(self.loop, self.scale.seed, self.doors, self.settings, followed=self.scale.followed)
        nemesis = self.loop.create_task(self._nemesis())
        await users.post(self.scale.users, self.scale.sessions)
        nemesis.cancel()
        await asyncio.gather(nemesis, *self._strikes, return_exceptions=True)
        began = self.loop.time()
        while not self._is_settled() and self.loop.time() < began + SETTLE_SECONDS:
            await asyncio.sleep(0.5)
        settled = self.loop.time() - began
        await users.catch_up()
        evidence = Evidence(self._stored(), users.acks, users.logs, self.witness, self._files())
        return Found(evidence, self.faults, users.counts, self.loop.time(), settled, self._is_settled())

    def _is_settled(self) -> bool:
        return not self.memory.work

    # --- processes

    def _process(self, host: str) -> Process:
        self._born += 1
        process = Process(f"{host}-{self._born}", host)
        process.skew = self.dice.choice((0, 0, 0, 600, -600, 86_400))
        self.loop.add(process)
        return process

    async def _worker(self, host: str) -> Member:
        process = self._process(host)
        store = SimulatedStore(self.network, process)
        own = tools(self.witness, self.dice)

        def equip(context: TurnContext, header: Header) -> TurnContext:
            return replace(context, tools=own)

        async def begin() -> WorkerPool:
            pool = WorkerPool(
                store,
                self.settings,
                AgentConfig(auto_context=False),
                at_once=self.scale.at_once,
                lease_seconds=self.scale.lease_seconds,
                equip=equip,
            )
            pool.contexts.models[None] = SimulatedModel(self.dice)
            await pool.start()
            return pool

        return Member(process, store, await self.loop.run_as(process, begin()))

    def _door(self, host: str) -> Member:
        process = self._process(host)
        store = SimulatedStore(self.network, process)
        return Member(process, store, live=StreamHub(store))

    def _bury(self, member: Member) -> None:
        self.loop.kill(member.process)
        self.network.forget(member.process)

    # --- what goes wrong

    async def _nemesis(self) -> None:
        while True:
            await asyncio.sleep(self.scale.every * (0.25 + 1.5 * self.dice.random()))
            kind = self.dice.choice(FAULTS)
            self.faults[kind] += 1
            strike = self.loop.create_task(self._strike(kind, self.dice.choice(self.workers)))
            self._strikes.add(strike)
            strike.add_done_callback(self._strikes.discard)

    async def _strike(self, kind: str, member: Member) -> None:
        process = member.process
        match kind:
            case "kill":
                await self._replaced(member, 0.1 + 5 * self.dice.random())
            case "pause":
                process.stopped_until = self.loop.time() + self.dice.choice((0.5, 2.0, 9.0, 11.0, 14.0, 25.0))
            case "cut":
                process.cut = True
                await asyncio.sleep(self.dice.choice((0.3, 2.0, 9.0, 11.0, 16.0, 30.0)))
                process.cut = False
            case "leave":
                await self._left(member)
            case "store":
                self.network.down = True
                await asyncio.sleep(self.dice.choice((0.2, 1.0, 2.5, 18.0)))
                self.network.down = False
            case "clock":
                process.skew = self.dice.choice((-86_400, -600, 0, 600, 86_400))
            case _:
                place = self.dice.randrange(len(self.doors))
                self._bury(self.doors[place])
                self.doors[place] = self._door(self.doors[place].process.host)

    async def _left(self, member: Member) -> None:
        """Asked to leave, it hands over what it runs; then somebody else starts there."""
        assert member.pool is not None
        if member.process.alive:
            closing = self.loop.run_as(member.process, member.pool.close(patience=self.dice.choice((0.0, 3.0))))
            await asyncio.wait([closing], timeout=60)
            await self._replaced(member, 0.1)

    async def _replaced(self, member: Member, seconds: float) -> None:
        """It is killed, unless somebody did that already, and after a while a new one starts on its machine."""
        if not member.process.alive:
            return
        self._bury(member)
        await asyncio.sleep(seconds)
        self.workers[self.workers.index(member)] = await self._worker(member.process.host)

    # --- what is left

    def _stored(self) -> Stored:
        stored = Stored()
        for session_id, row in self.memory.sessions.items():
            stored.heads[session_id] = Head(
                session_id=session_id,
                base_id=row.base_id,
                base_seq=row.base_seq,
                last_seq=row.last_seq,
                head_hash=row.head_hash,
                pending=row.pending_count,
                turn=row.turn,
                rotated_to=row.rotated_to,
                lease_token=row.lease_token,
            )
            stored.rows[session_id] = [Row(*event[:12]) for event in self.memory.events[session_id]]
        stored.keys = {place: (row.session_id, row.seq) for place, row in self.memory.keys.items()}
        stored.chunks = {session_id: len(chunks) for session_id, chunks in self.memory.chunks.items()}
        return stored

    def _files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.project.glob("*.txt")}
