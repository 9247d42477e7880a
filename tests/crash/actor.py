"""The processes of the laboratory: real `outlast serve` and `outlast worker`, each with its own network and clock.

An actor is started, and started again whenever it is gone, as a service manager would. The nemesis may kill it, stop
it, ask it to leave, or set its clock. What it says on stderr is kept: a traceback in there is a finding.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.crash.client_log import Diary
from tests.crash.proxy import Proxy

JUMPING = Path(__file__).with_name("clock_skew.py")
LEAVE_SECONDS = 60.0
"""Turns have 5 s to end, then each part of a process has its 10: with the store away, all of them may need theirs."""
AGAIN_SECONDS = 0.3
READY_SECONDS = 30.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class Actor:
    """One process. `store` and `model` are its ways to both; `busy` while the nemesis has it in its hands."""

    def __init__(
        self, name: str, words: list[str], folder: Path, cwd: Path, environment: Mapping[str, str], diary: Diary
    ) -> None:
        self.name = name
        self.words = words
        self.proxies: dict[str, Proxy] = {}
        self.busy = False
        self.ready = asyncio.Event()
        self.starts = 0
        self.gone_at = 0.0
        self.log = folder / f"{name}.log"
        self._cwd, self._environment, self._diary = cwd, environment, diary
        self._clock = _clock_in(folder / f"{name}.clock")
        self._clock_file = folder / f"{name}.clock"
        self._process: asyncio.subprocess.Process | None = None
        self._search_provider: asyncio.Task[None] | None = None
        self._leaving = False
        self._expected = False

    # --- its life

    def start(self) -> None:
        self._search_provider = asyncio.create_task(self._kept())

    @property
    def pid(self) -> int:
        """Of the running process; 0 when there is none."""
        return self._process.pid if self._process is not None and self._process.returncode is None else 0

    async def _kept(self) -> None:
        """Start it again and again, until it is to leave for good."""
        while not self._leaving:
            code = await self._lived()
            self.ready.clear()
            self.gone_at = self._diary.now
            said = "as was to be" if self._expected or self._leaving else "by itself"
            self._diary.note("gone", self.name, code=code, how=said)
            self._expected = False
            if not self._leaving:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _lived(self) -> int:
        with self.log.open("ab") as log:
            command = [sys.executable, "-P", str(JUMPING), str(self._clock_file), *self.words]
            self._process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self._cwd,
                env=dict(self._environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        self.starts += 1
        stdout = self._process.stdout
        assert stdout is not None
        if await stdout.readline():
            self.ready.set()
            self._diary.note("ready", self.name)
        while await stdout.readline():  # what it prints later is nobody's business, but must not fill the pipe
            pass
        return await self._process.wait()

    async def leave(self) -> int | None:
        """Ask it to leave for good; its exit code, None when it had to be killed."""
        self._leaving = True
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        if self._search_provider is None:
            return None
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._search_provider), LEAVE_SECONDS)
        if not self._search_provider.done():
            self._signal(signal.SIGKILL)
            await self._search_provider
            return None
        return self._process.returncode if self._process is not None else None

    # --- what the nemesis does

    async def kill(self) -> None:
        self._expected = True
        self._signal(signal.SIGKILL)
        await self._back()

    async def ask_to_leave(self) -> bool:
        """SIGTERM, and wait until it is back; whether it left by itself."""
        self._expected = True
        before = self._process
        self._signal(signal.SIGTERM)
        if before is None:
            return True
        try:
            await asyncio.wait_for(before.wait(), LEAVE_SECONDS)
        except TimeoutError:
            self._signal(signal.SIGKILL)
            return False
        finally:
            await self._back()
        return True

    async def pause(self, seconds: float) -> None:
        self._signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self._signal(signal.SIGCONT)

    def set_clock(self, seconds: int) -> None:
        """Its wall clock is off by so much from now on."""
        self._clock[:8] = struct.pack("<q", seconds)

    def _signal(self, number: int) -> None:
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def _back(self) -> None:
        """Until it is up again."""
        starts, until = self.starts, time.monotonic() + READY_SECONDS
        while time.monotonic() < until and (self.starts == starts or not self.ready.is_set()):
            await asyncio.sleep(0.05)


def _clock_in(path: Path) -> mmap.mmap:
    path.write_bytes(bytes(8))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 8)
