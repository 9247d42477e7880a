"""Where the sessions are: a PostgreSQL that can be crashed, or a SQLite file on a disk that can be full.

The disk of the SQLite stage is a file system in memory, in a mount namespace that the laboratory was started in; where
that is not permitted the disk is never full, and the report says why.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Protocol

from tests.crash.evidence import Settled, Stored, read_postgres, read_sqlite, settled_postgres, settled_sqlite
from tests.crash.proxy import Dial, Proxy, to_socket
from tests.support.pg import PgServer

CONNECTIONS = 200


class Stage(Protocol):
    """`no_full_disk` says why the disk cannot be full here; empty when it can."""

    no_full_disk: str

    async def start(self) -> None: ...

    async def url(self, proxies: dict[str, Proxy]) -> str:
        """How one process reaches the store, by a proxy of its own (put among `proxies`) where there is a network."""
        ...

    async def crash(self) -> None: ...

    async def fill_disk(self, seconds: float) -> None: ...

    def settled(self) -> Settled:
        """What is still to be done in the store, by a look from outside."""
        ...

    def read(self) -> Stored:
        """All of it, for the checker."""
        ...

    async def close(self) -> None: ...


class PostgresStage:
    no_full_disk = "the full disk is part of the SQLite run"

    def __init__(self) -> None:
        self._server: PgServer | None = None
        self._database = ""

    async def start(self) -> None:
        self._server = await asyncio.to_thread(PgServer, max_connections=str(CONNECTIONS))
        self._database = await asyncio.to_thread(self._server.create_database)

    @property
    def server(self) -> PgServer:
        assert self._server is not None
        return self._server

    def _dial(self) -> Dial:
        return to_socket(self.server.folder / ".s.PGSQL.5432")

    async def url(self, proxies: dict[str, Proxy]) -> str:
        proxy = proxies["postgres"] = Proxy(self._dial())
        port = await proxy.start()
        name = self._database.split("/")[3].split("?")[0]
        return f"postgresql://postgres@127.0.0.1:{port}/{name}?sslmode=disable&gssencmode=disable"

    async def crash(self) -> None:
        await asyncio.to_thread(self.server.crash_and_restart)

    async def fill_disk(self, seconds: float) -> None:
        raise NotImplementedError(self.no_full_disk)

    def settled(self) -> Settled:
        return settled_postgres(self._database)

    def read(self) -> Stored:
        return read_postgres(self._database)

    async def close(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.close)


class SqliteStage:
    """`disk_mb` is how much there is room for before anybody fills it."""

    def __init__(self, folder: Path, *, disk_mb: int, may_mount: bool) -> None:
        self._disk_mb = disk_mb
        self.folder = folder / "disk"
        self.path = self.folder / "outlast.db"
        self.no_full_disk = self._mounted(may_mount)

    def _mounted(self, may_mount: bool) -> str:
        self.folder.mkdir(mode=0o700)
        if not may_mount:
            return "this process has no mount namespace of its own (it takes root and `unshare`)"
        words = ["mount", "-t", "tmpfs", "-o", f"size={self._disk_mb}m,mode=0700", "tmpfs", str(self.folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else f"a file system in memory may not be mounted ({done.stderr.strip()})"

    async def start(self) -> None:
        """The first process that opens the file makes it."""

    async def url(self, proxies: dict[str, Proxy]) -> str:
        return f"sqlite:///{self.path}"

    async def crash(self) -> None:
        raise NotImplementedError("a file has no server to crash")

    async def fill_disk(self, seconds: float) -> None:
        ballast = self.folder / "ballast"
        await asyncio.to_thread(_fill, ballast)
        await asyncio.sleep(seconds)
        ballast.unlink()

    def settled(self) -> Settled:
        return settled_sqlite(self.path)

    def read(self) -> Stored:
        return read_sqlite(self.path)

    async def close(self) -> None:
        """The mount goes with the namespace."""


def _fill(path: Path) -> None:
    """Take all the space there is."""
    with path.open("wb") as file:
        step = 1 << 30
        while step >= 4096:
            try:
                os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), step)
            except OSError:
                step //= 2


def can_mount() -> bool:
    """Whether a mount namespace of one's own may be had here."""
    try:
        return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False
