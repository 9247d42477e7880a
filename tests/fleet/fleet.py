"""A fleet for tests: real `outlast worker` processes on one store, and a look at what the log says they did.

Everything that is said in these sessions holds `CANARY`, and no worker's log may: each is read when its worker ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from outlast.app.sessions.create import create
from outlast.app.settings import load_settings
from outlast.core import events as e
from outlast.core.event_row import Actor, StoredEvent
from outlast.core.messages import TextPart
from outlast.store import open_store
from outlast.store.port import Append, NewEvent
from outlast.store.read.decode import decode_events

CANARY = "canary-4711"
SOON = 30.0
LEASE = 3.0
LOOK_SECONDS = 0.02


def reply(text: str = "", *calls: dict[str, Any], ms: float = 0) -> dict[str, Any]:
    return {"content": f"{text} {CANARY}", "tool_calls": list(calls), "delay_ms": ms}


def bash(command: str) -> dict[str, Any]:
    return {"id": "c1", "name": "bash", "arguments": {"command": f"{command} # {CANARY}"}}


class Worker:
    """One process. Its log is a file of JSON lines."""

    def __init__(self, words: Sequence[str], folder: Path, home: Path, before: Sequence[str] = ()) -> None:
        self._errors = folder / f"worker-{time.monotonic_ns()}.log"
        with self._errors.open("wb") as log:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", "outlast", "worker", "--json", "--log-format", "json", *words],
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {"OUTLAST_HOME": str(home)},
                cwd=folder,
            )
        self.told: dict[str, Any] = {}

    def ready(self) -> Self:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self._errors.read_text()
        self.told = json.loads(line)
        return self

    @property
    def pid(self) -> int:
        return int(self.told["worker"].rpartition(":")[2])

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._errors.read_text().splitlines()]

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] == event]

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def ended(self, seconds: float = SOON) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()  # whatever was stopped, too
            self.process.wait(SOON)
        if self.process.stdout is not None:
            self.process.stdout.close()
        text = self._errors.read_text()
        assert CANARY not in text, text
        assert "Traceback" not in text, text


class Fleet:
    """A store with sessions, and workers on it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.project = folder / "project"
        self.project.mkdir()
        self.home = folder / "home"
        self.settings = load_settings(home=self.home, store=url, model="none", project_root=self.project)
        self.store = open_store(url)
        self.workers: list[Worker] = []
        self._script = folder / "script.json"

    def says(self, *replies: dict[str, Any]) -> None:
        self._script.write_text(json.dumps(list(replies)))

    def start(self, *flags: str, url: str | None = None, before: Sequence[str] = (), lease: float = LEASE) -> Worker:
        words = ["--store", url or self.url, "--model", f"scripted:{self._script}", "--permission-mode", "allow"]
        worker = Worker([*words, "--lease-seconds", str(lease), *flags], self.folder, self.home, before)
        self.workers.append(worker)
        return worker

    def worker(self, *flags: str, **more: Any) -> Worker:
        return self.start(*flags, **more).ready()

    def two(self) -> None:
        """Two workers, started side by side."""
        for worker in [self.start("--concurrency", "1") for _ in range(2)]:
            worker.ready()

    # --- sessions

    def session(self, place: str | None = None) -> str:
        return create(self.store, self.settings, self.project, door="http", place=place)

    def admit(self, session_id: str, text: str = "please", door: str = "http") -> None:
        event = e.InputAdmitted(parts=(TextPart(f"{text} {CANARY}"),))
        new = NewEvent(event=event, actor=Actor("user", door).text())
        self.store.commit(Append(session_id=session_id, events=(new,)))

    def asked(self, place: str | None = None) -> str:
        session_id = self.session(place)
        self.admit(session_id)
        return session_id

    def rows(self, session_id: str) -> list[tuple[StoredEvent, e.Event | e.Opaque]]:
        return decode_events(self.store, self.store.read(session_id))

    def events(self, session_id: str, kind: type[e.Event]) -> list[Any]:
        return [event for _, event in self.rows(session_id) if isinstance(event, kind)]

    def is_answered(self, session_id: str) -> bool:
        head = self.store.head(session_id)
        return head.pending_count == 0 and head.turn is None

    def is_idle(self) -> bool:
        """Nobody waits, and nothing runs."""
        queue = self.store.queue()
        return queue.waiting == queue.driven == 0

    def until(self, true: Callable[[], object], seconds: float = SOON) -> float:
        """Wait until it is so; how long that took. Time for which a busy machine did not let us run does not count: it
        did not let the workers run either."""
        began, stolen = time.monotonic(), 0.0
        while not true():
            asleep = time.monotonic()
            if asleep > began + seconds:
                told = "\n".join(str(line) for worker in self.workers for line in worker.log[-5:])
                raise AssertionError(f"it did not come to pass in {seconds} s\n{told}")
            time.sleep(LOOK_SECONDS)
            stolen += time.monotonic() - asleep - LOOK_SECONDS
        return time.monotonic() - began - stolen

    def driver_of(self, session_id: str) -> Worker:
        """The worker that drives it now."""
        held = self.store.holder(session_id)
        assert held is not None, "nobody drives it"
        return next(worker for worker in self.workers if held.holder.split(" ")[2] == str(worker.pid))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for worker in self.workers:
                worker.close()
        finally:
            self.store.close()
