"""Starting the processes of a workload and talking to them."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from bench import CHECKOUT
from bench.figures.worker import Task

PROGRAM = "from bench.figures.worker import main; main()"


class Worker:
    def __init__(self, task: Task) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=CHECKOUT
        )
        self.tell(msgspec.json.encode(task).decode())

    def await_ready(self) -> None:
        if self.hear() != "ready":
            raise RuntimeError("a process of the benchmark did not start")

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a process of the benchmark ended before its time")
        return line.rstrip("\n")

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(timeout=60)
