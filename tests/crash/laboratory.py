"""The laboratory: puts the real thing on stage, lets the nemesis at it, waits until it settles, hands on what is left.

    PostgreSQL (or a SQLite file) < proxies < servers and workers > proxies > model server
                                        ^ clients that post, clients that follow

Nothing in here judges: `checker.violations` does, from what lies in the store, what commands left, what clients heard.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import psycopg

from outlast.doors.cli.command_table import COMMANDS
from tests.crash.actor import Actor, free_port
from tests.crash.client_log import Diary
from tests.crash.environment import PostgresStage, SqliteStage, Stage
from tests.crash.evidence import Evidence, Settled
from tests.crash.follower import Notebook, Ways
from tests.crash.model import ModelServer
from tests.crash.nemesis import Nemesis
from tests.crash.oracle import WITNESS
from tests.crash.plan import LEASE_SECONDS, PER_PROCESS, Fault, schedule
from tests.crash.poster import Poster
from tests.crash.proxy import Proxy, to_port

SETTLE_SECONDS = 60.0
CATCH_UP_SECONDS = 45.0
WARM_UP_SECONDS = 60.0
DRAIN_SECONDS = 5
DISK_MB = 64
UNFORESEEN = re.compile(r"Traceback|(turn\.broke|claim\.failed) [^\n]*raised_at=")
"""What only an error that nobody foresaw leaves in a log: it is printed, or its place is."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a run is made of. The faults are spread over `seconds`; without it they come at their usual pace."""

    seed: int
    store: str = "postgres"
    faults: int = 30
    seconds: float | None = None
    servers: int = 2
    workers: int = 3
    users: int = 8
    lease_seconds: float = LEASE_SECONDS
    unreliability: float = 0.08
    may_mount: bool = False

    @property
    def plan(self) -> list[Fault]:
        usual = self.faults * PER_PROCESS / (self.servers + self.workers)
        return schedule(self.seed, self.store, self.faults, self.seconds or usual, self.lease_seconds)


@dataclass
class Outcome:
    """What came of a run. `found` is what the laboratory itself saw go wrong: somebody who did not leave, or died."""

    setup: Setup
    evidence: Evidence
    diary: Diary
    settled: Settled
    settle_seconds: float
    seconds: float
    faults: dict[str, int]
    skipped: dict[str, str]
    counts: dict[str, int]
    model_faults: dict[str, int]
    longest_leave: float
    found: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])


Told = Callable[[str], None]


class Laboratory:
    """One run. `tell` gets a progress line now and then."""

    def __init__(self, setup: Setup, folder: Path, tell: Told = lambda line: None) -> None:
        self.setup = setup
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        (self.project / WITNESS).touch()
        self.diary = Diary(folder / "diary.jsonl")
        self.book = Notebook()
        self.model = ModelServer(setup.seed, setup.unreliability)
        self.stage: Stage = (
            PostgresStage()
            if setup.store == "postgres"
            else SqliteStage(folder, disk_mb=DISK_MB + setup.faults // 2, may_mount=setup.may_mount)
        )
        self.actors: list[Actor] = []
        self._tell = tell
        self._stopping = asyncio.Event()
        self._token = secrets.token_urlsafe(32)

    async def run(self) -> Outcome:
        began = time.monotonic()
        await self.stage.start()
        posters: list[Poster] = []
        try:
            await self._cast()
            nemesis = Nemesis(self.setup.plan, self.actors, self.stage, self.model, self.diary)
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: setattr(nemesis, "enough", True))
            posters = self._posters()
            posting = [asyncio.create_task(poster.run()) for poster in posters]
            progress = asyncio.create_task(self._progress(nemesis))
            await nemesis.run()
            self.diary.note("calm", "nemesis")
            self.model.calm()
            settled, took = await self._settled(posting)
            await self._catch_up(posters)
            progress.cancel()
            await self._leave(nemesis)
            return self._outcome(nemesis, settled, took, time.monotonic() - began)
        finally:
            await self._tidy(posters)

    # --- the cast

    async def _cast(self) -> None:
        model_port = await self.model.start()
        for n in range(self.setup.servers):
            # Where there are workers, one server works too and the others only serve.
            only_serves = ["--no-worker"] if self.setup.workers and n else []
            await self._actor(f"server{n + 1}", model_port, ["serve", "--port", str(free_port()), *only_serves])
        for n in range(self.setup.workers):
            await self._actor(f"worker{n + 1}", model_port, ["worker", "--drain-seconds", str(DRAIN_SECONDS)])
        for actor in self.actors:
            actor.start()
        for actor in self.actors:
            await asyncio.wait_for(actor.ready.wait(), WARM_UP_SECONDS)

    async def _actor(self, name: str, model_port: int, words: list[str]) -> None:
        proxies = {"model": Proxy(to_port(model_port))}
        port = await proxies["model"].start()
        flags = ["--json", "--store", await self.stage.url(proxies), "--model", "openai:lab"]
        flags += ["--base-url", f"http://127.0.0.1:{port}/v1", "--permission-mode", "danger-full-access"]
        flags += ["--lease-seconds", str(self.setup.lease_seconds)]
        actor = Actor(name, [*words, *flags], self.folder, self.project, self._environment(name), self.diary)
        actor.proxies = proxies
        self.actors.append(actor)

    def _environment(self, name: str) -> dict[str, str]:
        kept = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")
        own = {"OUTLAST_HOME": str(self.folder / f"home-{name}"), "OUTLAST_TOKEN": self._token}
        return {name: value for name, value in os.environ.items() if name in kept} | own

    @property
    def ports(self) -> list[int]:
        return [int(actor.words[2]) for actor in self.actors if actor.name.startswith("server")]

    def _posters(self) -> list[Poster]:
        ways = Ways(self.ports, self._token, self.project)
        names = [f"u{n + 1}" for n in range(self.setup.users)]
        return [Poster(name, self.setup.seed, ways, self.book, self.diary, self._stopping) for name in names]

    # --- the end of it

    async def _settled(self, posting: list[asyncio.Task[None]]) -> tuple[Settled, float]:
        """After the last fault: everything that was asked is answered. How long it took."""
        began = time.monotonic()
        self._stopping.set()
        done, late = await asyncio.wait(posting, timeout=SETTLE_SECONDS)
        for task in late:
            task.cancel()
            self.book.wrong.append(("", "a message was not acknowledged though everybody was well again"))
        await asyncio.gather(*late, return_exceptions=True)
        for task in done:
            task.result()
        return await self._at_rest(), time.monotonic() - began

    async def _at_rest(self) -> Settled:
        """When nothing waits any more, or nothing was answered for a minute: the machine may be as busy as it likes."""
        ended, since = -1, time.monotonic()
        while not (now := await asyncio.to_thread(self.stage.settled)).is_so:
            if now.ended > ended:
                ended, since = now.ended, time.monotonic()
            elif time.monotonic() > since + SETTLE_SECONDS:
                break
            await asyncio.sleep(0.25)
        return now

    async def _catch_up(self, posters: list[Poster]) -> None:
        """Every follower reads to the tip."""
        following = [task for poster in posters for task in poster.following]
        for poster in posters:
            poster.finish.set()
        if following:
            await asyncio.wait(following, timeout=CATCH_UP_SECONDS)

    async def _leave(self, nemesis: Nemesis) -> None:
        codes = await asyncio.gather(*(actor.leave() for actor in self.actors))
        for actor, code in zip(self.actors, codes, strict=True):
            if code != 0:
                told = "had to be killed" if code is None else f"left with {code}"
                self.book.wrong.append(("", f"{actor.name} was asked to leave and {told}"))
        for name in nemesis.refused_to_leave:
            self.book.wrong.append(("", f"{name} was asked to leave and had to be killed"))

    def _outcome(self, nemesis: Nemesis, settled: Settled, took: float, seconds: float) -> Outcome:
        files = {path.name: path.read_text() for path in self.project.glob("*.txt") if path.name != WITNESS}
        evidence = Evidence(
            stored=self.stage.read(),
            acks=self.book.acks,
            logs=self.book.logs,
            witness=(self.project / WITNESS).read_text().split(),
            files=files,
        )
        return Outcome(
            setup=self.setup,
            evidence=evidence,
            diary=self.diary,
            settled=settled,
            settle_seconds=took,
            seconds=seconds,
            faults=dict(nemesis.done),
            skipped=nemesis.skipped,
            counts=dict(self.book.counts),
            model_faults=dict(self.model.faults),
            longest_leave=nemesis.longest_leave,
            found=[("told", session_id, text) for session_id, text in self.book.wrong] + self._logs(),
        )

    def _logs(self) -> list[tuple[str, str, str]]:
        """What processes said that no process should say."""
        found: list[tuple[str, str, str]] = []
        for actor in self.actors:
            text = actor.log.read_text(errors="replace")
            if unforeseen := UNFORESEEN.search(text):
                place = unforeseen.start()
                found.append(("traceback", "", f"{actor.name} said: {text[max(0, place - 300) : place + 3000]}"))
        return found

    async def _tidy(self, posters: list[Poster]) -> None:
        for poster in posters:
            for task in (*poster.following, *poster.answering.values()):
                task.cancel()
        await asyncio.gather(*(actor.leave() for actor in self.actors))
        for actor in self.actors:
            for proxy in actor.proxies.values():
                await proxy.close()
        await self.model.close()
        await self.stage.close()
        self.diary.close()

    # --- progress

    async def _progress(self, nemesis: Nemesis) -> None:
        while True:
            await asyncio.sleep(2.0)
            try:
                settled = await asyncio.to_thread(self.stage.settled)
            except (psycopg.Error, apsw.Error):
                continue  # it is down, or full, just now
            up = sum(actor.ready.is_set() for actor in self.actors)
            self.diary.note("progress", "laboratory", ended=settled.ended, waiting=settled.waiting, up=up)
            self._tell(
                f"{self.diary.now:6.0f} s  faults {nemesis.count}/{len(nemesis.plan)}  "
                f"acknowledged {len(self.book.acks)}  turns {settled.ended}  waiting {settled.waiting}  "
                f"up {up}/{len(self.actors)}"
            )


def new_folder(path: Path) -> Path:
    """An empty folder for a run."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True, mode=0o700)
    return path


def has_workers() -> bool:
    """Whether this Outlast has `outlast worker`."""
    return "worker" in COMMANDS
