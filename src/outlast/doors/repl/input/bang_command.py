"""`!command`: runs directly in the user's shell and environment, not as a tool call; the model sees the result."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import msgspec

from outlast.doors.repl.render.status import OutputTail

KEPT = 30_000


class BangResult(msgspec.Struct, frozen=True):
    command: str
    output: str
    code: int

    def message(self) -> str:
        """The message that tells the model about the command."""
        end = "" if self.code == 0 else f"\n[exit code {self.code}]"
        return f"I ran this command myself:\n$ {self.command}\n{self.output.rstrip()}{end}"


class BangCommand:
    """One command. `stop` kills it and everything it started; `tail` holds the end of its output so far."""

    def __init__(self, command: str, project: Path) -> None:
        self.command = command
        self.since = time.monotonic()
        self.tail = OutputTail()
        self._project = project
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> BangResult:
        self._process = process = await asyncio.create_subprocess_shell(
            self.command,
            cwd=self._project,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        head, tail, total = b"", b"", 0
        while piece := await process.stdout.read(65_536):
            total += len(piece)
            self.tail.add(piece.decode("utf-8", "replace"))
            free = KEPT - len(head)
            head += piece[:free] if free > 0 else b""
            tail = (tail + (piece[free:] if free > 0 else piece))[-KEPT:]
        code = await process.wait()
        left_out = total - len(head) - len(tail)
        between = f"\n[... {left_out} bytes left out here ...]\n".encode() if left_out > 0 else b""
        return BangResult(self.command, (head + between + tail).decode("utf-8", "replace"), code)

    def stop(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return  # it has just exited by itself
