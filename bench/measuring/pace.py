"""Work whose time is taken: `pace.py NAME FOLDER PG_URL`, in that version's interpreter; one JSON request a line.

`{"work": W}` does a short block of that work and answers `{"seconds": S}`, the median of its units. The first request
for a work prepares and warms it too. With a fourth argument, the kind of a store, it is one of several writers: every
line asks for some appends to sessions of its own, and is answered when they are durable.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

TEXT = "A message of an ordinary length, as people write them to an agent that works for them. " * 3
CROWD = 50
WRITERS = 4
WRITES = 40
Block = Callable[[], float]


class Pace:
    """The package, and the works that were prepared."""

    def __init__(self, name: str, folder: str, pg_url: str) -> None:
        self.hf: Any = importlib.import_module(name)
        self.testing: Any = importlib.import_module(f"{name}.testing")
        self.folder = Path(folder)
        self.project = self.folder / "project"
        self.project.mkdir(exist_ok=True)
        self._pg_url = pg_url
        self._stores: dict[str, Any] = {}
        self._works: dict[str, Block] = {}

    def store(self, kind: str) -> Any:
        """The store of that kind, opened once."""
        if kind not in self._stores:
            own = {"sqlite": f"sqlite:///{self.folder}/pace.db", "files": f"files:///{self.folder}/pace"}
            self._stores[kind] = self.hf.open_store(own.get(kind, self._pg_url))
        return self._stores[kind]

    def session(self, kind: str) -> Any:
        return self.hf.ConversationSession(project_root=self.project, store=self.store(kind))

    def message(self) -> Any:
        return self.hf.Message(role=self.hf.Role.USER, content=TEXT)

    def block(self, work: str) -> float:
        """One block of a work, prepared when it is first asked for."""
        if work not in self._works:
            name, _, kind = work.partition("-")
            make: Callable[..., Block] = getattr(self, f"make_{name}")
            self._works[work] = make(kind)
            self._works[work]()
        return self._works[work]()

    # --- the works: each `make_` prepares one and returns its block

    def make_append(self, kind: str) -> Block:
        """One durable append after the other."""
        session, message = self.session(kind), self.message()
        for _ in range(500):  # until the files have the size at which they are written over
            session.append(message)
        return lambda: median(timed(lambda: session.append(message)) for _ in range(40))

    def make_crowd(self, kind: str) -> Block:
        """Fifty sessions, each appended to by a task of its own."""
        runner = asyncio.Runner()
        sessions, message = [self.session(kind) for _ in range(CROWD)], self.message()

        async def one(session: Any) -> None:
            for _ in range(2):
                await session.append_async(message)

        async def everybody() -> None:
            await asyncio.gather(*(one(session) for session in sessions))

        return lambda: timed(lambda: runner.run(everybody())) / (CROWD * 2)

    def make_threads(self, kind: str) -> Block:
        """Fifty sessions, each appended to by a thread of its own."""
        pool = ThreadPoolExecutor(CROWD)
        sessions, message = [self.session(kind) for _ in range(CROWD)], self.message()

        def one(session: Any) -> None:
            for _ in range(2):
                session.append(message)

        return lambda: timed(lambda: list(pool.map(one, sessions))) / (CROWD * 2)

    def make_processes(self, kind: str) -> Block:
        """Four processes on one store, each appending to sessions of its own."""
        self.store(kind)
        words = [sys.executable, __file__, self.hf.__name__, str(self.folder), self._pg_url, kind]
        writers = [
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(WRITERS)
        ]

        def together() -> None:
            for writer in writers:
                assert writer.stdin is not None
                writer.stdin.write("go\n")
                writer.stdin.flush()
            for writer in writers:
                assert writer.stdout is not None
                assert writer.stdout.readline() == "done\n"

        return lambda: timed(together) / (WRITERS * WRITES)

    def write(self, kind: str) -> None:
        """Be one of those processes until stdin ends."""
        sessions, message = [self.session(kind) for _ in range(4)], self.message()
        for _ in sys.stdin:
            for number in range(WRITES):
                sessions[number % len(sessions)].append(message)
            print("done", flush=True)

    def make_turn(self, kind: str) -> Block:
        """Turns without tools; the median of their times."""
        runner = asyncio.Runner()

        async def turns() -> float:
            backend = self.testing.ScriptedBackend(["It is four, as it was."] * 5)
            config = self.hf.AgentConfig(auto_context=False)
            agent = self.hf.Agent(backend, config, self.project, store=self.store(kind))
            await agent.run("What is two and two?")
            times: list[float] = []
            for _ in range(4):
                began = time.perf_counter()
                await agent.run("What is two and two?")
                times.append(time.perf_counter() - began)
            return median(times)

        return lambda: runner.run(turns())

    def make_open(self, kind: str) -> Block:
        """Open a session of 10,000 events and read its last 50 messages."""
        session = self.session(kind)
        for _ in range(20):
            session.extend([self.message()] * 500)
        load, store, name = self.hf.ConversationSession.load, self.store(kind), session.session_id

        def open_and_read() -> None:
            assert len(load(session_id=name, store=store).history(limit=50)) == 50

        return lambda: median(timed(open_and_read) for _ in range(6))


def timed(do: Callable[[], Any]) -> float:
    """How many seconds it took."""
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def main() -> None:
    """Answer request after request until stdin ends."""
    pace = Pace(*sys.argv[1:4])
    if len(sys.argv) > 4:
        pace.write(sys.argv[4])
        return
    for line in sys.stdin:
        print(json.dumps({"seconds": pace.block(json.loads(line)["work"])}), flush=True)


if __name__ == "__main__":
    main()
