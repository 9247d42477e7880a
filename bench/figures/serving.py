"""A real `outlast serve` for the run, and followers of its streams."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.figures.server import Unavailable
from outlast.app.settings import whole_environment

START_SECONDS = 30.0
_ID = re.compile(rb"^id: ([0-9]+)$", re.MULTILINE)


class Serving:
    """A server of its own process on a store, without a model; stopped when it is left."""

    def __init__(self, store_url: str, folder: Path) -> None:
        self.token = secrets.token_urlsafe(32)
        environment = whole_environment() | {"OUTLAST_TOKEN": self.token, "OUTLAST_HOME": str(folder / "home")}
        command = [sys.executable, "-m", "outlast", "serve", "--port", "0", "--json", "--model", "none"]
        self._log = (folder / "serve.log").open("wb")
        self.process = subprocess.Popen(
            [*command, "--store", store_url], stdout=subprocess.PIPE, stderr=self._log, env=environment, cwd=folder
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Unavailable(f"`outlast serve` did not start: {(folder / 'serve.log').read_text().strip()}")
        self.port = int(json.loads(line)["url"].rpartition(":")[2])

    @property
    def memory(self) -> int:
        """Bytes of the process that are in memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024

    def request(self, path: str, *, last_id: str = "") -> bytes:
        cursor = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
        return (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n{cursor}\r\n"
        ).encode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()


class Follower:
    """One connection to a stream; `arrived` tells when each event was there, on the monotonic clock."""

    def __init__(self, server: Serving, session_id: str, last_seq: int) -> None:
        self._server = server
        self._path = f"/api/sessions/{session_id}/stream"
        self._after = last_seq
        self.arrived: dict[int, float] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        self._writer.write(self._server.request(self._path, last_id=str(self._after)))
        status = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[0]
        if " 200 " not in status:
            raise Unavailable(f"the stream answered {status}")
        self._task = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        rest = b""
        while data := await reader.read(65536):
            now = time.monotonic()
            text = rest + data
            for found in _ID.findall(text):
                self.arrived.setdefault(int(found), now)
            rest = text[-40:]
            self._news.set()

    @property
    def is_over(self) -> bool:
        """Whether the server has ended it."""
        return self._task is None or self._task.done()

    async def until(self, seq: int) -> None:
        while seq not in self.arrived:
            self._news.clear()
            await self._news.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
