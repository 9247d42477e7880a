"""The factory of turns: imports everything, opens nothing, forks agents to be killed and agents that go on.

    python -m tests.faults.turn_factory STORE PLACE PART PARTS HOW [TALE]

HOW is `every` (each failpoint at each time it is passed), `first` (each failpoint once), `some:COUNT` (so many of them,
evenly chosen), or `random:COUNT:SEED` (so many kills at any moment). TALE is `tale` or `parallel`. With several parts
the points are shared among as many processes. Prints a JSON object.
"""

import asyncio
import importlib
import os
import pkgutil
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

import outlast.runtime
from outlast.core.errors import OutlastError
from outlast.runtime import failpoints
from outlast.runtime.turn import draft
from outlast.store import open_store
from tests.faults import parallel_scenario, scenario
from tests.faults.factory import in_child
from tests.faults.ledger import TaleCheck
from tests.faults.parallel_scenario import ParallelTaleCheck
from tests.faults.stores import in_memory, load, url_in

PATIENCE = 30.0
INSIDE = frozenset({"outlast.runtime.sandbox.session_init"})
"""Programs that run inside a sandbox, with their own folder as their only path: no turn imports them."""
Point = tuple[str, int]


class Report(msgspec.Struct, kw_only=True):
    """`killed` says how often a process was really killed at each name."""

    killed: dict[str, int] = {}
    problems: list[str] = []


class Bomb:
    """Kills this process when it passes a failpoint for the n-th time; notes every one it passes."""

    def __init__(self, notes: Path, point: Point | None) -> None:
        self._notes, self._point = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND), point
        self._passed: Counter[str] = Counter()

    def __call__(self, name: str) -> None:
        self._passed[name] += 1
        os.write(self._notes, f"{name}\n".encode())
        if (name, self._passed[name]) == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


class Session:
    """One session, killed as often as it is told to be, and then carried on to its end."""

    def __init__(self, kind: str, place: str, folder: Path, parallel: bool) -> None:
        self._tale, self._check_of = (parallel_scenario, ParallelTaleCheck) if parallel else (scenario, TaleCheck)
        self.folder, self.url = folder, url_in(kind, place, folder)
        self.passed, self._ids, self._acks = folder / "passed", folder / "ids", folder / "acks"
        self._tale.project_in(folder)

    def start(self, point: Point | None) -> int:
        return in_child(lambda: asyncio.run(self._work(point)))

    async def _work(self, point: Point | None) -> None:
        failpoints.install(Bomb(self.passed, point))
        with open_store(self.url) as store:
            agent = self._tale.teller_of(store, self.folder)
            if self._ids.exists():
                assert agent.resume_session(self._ids.read_text())
            else:
                agent.session.persist()
                _note(self._ids, agent.session.session_id)
            if not self._acks.exists():
                # The same key, however often: a user who got no acknowledgement says it again.
                receipt = await agent.service.admit(agent.session.session_id, self._tale.TASK, key="said")
                _note(self._acks, str(receipt.seq))
            await agent.resume()
            told = agent.backend
            rejected = told.rejected if isinstance(told, scenario.Teller | parallel_scenario.ParallelTeller) else []
            _note(self.folder / "rejected", msgspec.json.encode(rejected).decode())

    def problems(self) -> list[str]:
        if code := ended(self.start(None)):
            return [f"the process that went on ended with {code}"]
        checker = in_child(self._check)
        if code := ended(checker):
            return [f"the checker ended with {code}"]
        return msgspec.json.decode((self.folder / "problems").read_bytes(), type=list[str])

    def _check(self) -> None:
        with open_store(self.url) as store:
            check = self._check_of(store, self._ids.read_text(), self.folder / "project")
            found = check.problems([int(self._acks.read_text())])
        found += msgspec.json.decode((self.folder / "rejected").read_bytes(), type=list[str])
        (self.folder / "problems").write_bytes(msgspec.json.encode(found))

    def points(self) -> list[Point]:
        """Every failpoint that was passed, with the how-manieth time it was."""
        passed: Counter[str] = Counter()
        found: list[Point] = []
        for name in self.passed.read_text().split():
            passed[name] += 1
            found.append((name, passed[name]))
        return found


def _note(path: Path, text: str) -> None:
    """Whole or not at all: this process may be killed at any moment."""
    made = path.with_suffix(".new")
    made.write_text(text)
    made.rename(path)


def ended(pid: int, within: float = PATIENCE) -> int:
    """Its exit code, negative for a signal."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 124


class Factory:
    def __init__(self, kind: str, place: str, parallel: bool = False) -> None:
        self._kind, self._place, self._parallel = kind, place, parallel
        self.report = Report()

    def session(self) -> Session:
        folder = Path(tempfile.mkdtemp(prefix="outlast-turn-", dir=in_memory()))
        return Session(self._kind, self._place, folder, self._parallel)

    def whole(self) -> list[Point]:
        """The points of a turn that nobody kills."""
        session = self.session()
        self._checked(session, "without a kill")
        points = session.points()
        shutil.rmtree(session.folder)
        return points

    def kill(self, *points: Point) -> None:
        """Kill at each of these points in turn, each time in the process that goes on after the last kill."""
        session = self.session()
        for name, number in points:
            if (code := ended(session.start((name, number)))) != -signal.SIGKILL:
                self.report.problems.append(f"{name} no. {number} was not reached: {code}")
            self.report.killed[name] = self.report.killed.get(name, 0) + 1
        self._checked(session, f"killed at {points}")

    def kill_sometime(self, rng: random.Random, most: float) -> None:
        session = self.session()
        for _ in range(rng.choice((1, 1, 1, 2))):
            pid = session.start(None)
            time.sleep(rng.random() * most)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self.report.killed["sometime"] = self.report.killed.get("sometime", 0) + 1
        self._checked(session, "killed sometime")

    def _checked(self, session: Session, how: str) -> None:
        found = session.problems()
        self.report.problems += [f"{how}: {text} [{session.folder}]" for text in found]
        if not found and how != "without a kill":
            shutil.rmtree(session.folder)


def prepare(kind: str) -> None:
    """Import what a turn imports; let drafts be written often enough to be killed at."""
    load(kind)
    for module in pkgutil.walk_packages(outlast.runtime.__path__, "outlast.runtime."):
        if module.name not in INSIDE:
            importlib.import_module(module.name)
    draft.FLUSH_SECONDS = 0.01


def run(kind: str, place: str, part: int, parts: int, how: str, parallel: bool = False) -> Report:
    prepare(kind)
    factory = Factory(kind, place, parallel)
    if how.startswith("random:"):
        _, count, seed = how.split(":")
        rng = random.Random(int(seed) + part)
        for _ in range(int(count) // parts):
            factory.kill_sometime(rng, 1.2)
        return factory.report
    # How often a draft is flushed is a matter of time, and every part must see the same points.
    points = [point for point in factory.whole() if point[1] == 1 or (how != "first" and point[0] != "draft.flushed")]
    if how.startswith("some:"):
        count = int(how.removeprefix("some:"))
        points = sorted(points)  # the order of what runs side by side is not always the same
        points = [points[n * len(points) // count] for n in range(count)]
    chosen: list[tuple[Point, ...]] = [(point,) for point in points]
    # A turn is claimed apart from its start only by whoever takes it over.
    chosen += [(("model.asked", 1), ("lease.claimed", 1)), (("call.started", 4), ("lease.claimed", 1))]
    for points_of_one in chosen[part::parts]:
        factory.kill(*points_of_one)
    return factory.report


if __name__ == "__main__":
    try:
        made = run(
            sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], sys.argv[6:] == ["parallel"]
        )
    except OutlastError as error:
        made = Report(problems=[f"{type(error).__name__}: {error}"])
    os.write(1, msgspec.json.encode(made))
