"""Real `outlast worker` processes for the run, on one store, with a model that only sleeps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.figures.server import Unavailable
from outlast.app.settings import whole_environment

STOP_SECONDS = 30


class Workers:
    """Stopped when they are left."""

    def __init__(self, store_url: str, folder: Path, *, sleeps: float, concurrency: int) -> None:
        self._folder = folder
        script = folder / "script.json"
        script.write_text(json.dumps([{"content": "It is done.", "delay_ms": sleeps * 1000}]))
        self._words = ["--store", store_url, "--model", f"scripted:{script}", "--concurrency", str(concurrency)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._log = (folder / "workers.log").open("wb")

    def start(self, count: int) -> None:
        """So many more; all of them are ready on return."""
        command = [sys.executable, "-m", "outlast", "worker", "--json", *self._words]
        environment = whole_environment() | {"OUTLAST_HOME": str(self._folder / "home")}
        new = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, env=environment, cwd=self._folder)
            for _ in range(count)
        ]
        self._processes += new
        for process in new:
            assert process.stdout is not None
            if not process.stdout.readline():
                told = (self._folder / "workers.log").read_text()
                raise Unavailable(f"`outlast worker` did not start: {told.strip()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._log.close()
