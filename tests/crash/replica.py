"""`python -m tests.crash.replica`: how far behind a streaming replica is, seen by somebody who follows a session there.

A standby is made with pg_basebackup and streams from the first server. Messages are appended at a steady pace on the
first; a reader on the standby looks for each as fast as it can. The figures go into `docs/internals/scaling.md`.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import psycopg

from outlast.core import events as e
from outlast.core.header import Header
from outlast.core.messages import Role, TextPart
from outlast.store import open_store
from outlast.store.port import Append, Create, NewEvent
from outlast.testing.contract.exam import new_id
from tests.support.pg import PgServer

APPENDS = 1_000
PAUSE = 0.005
LAST = "SELECT last_seq FROM outlast.sessions WHERE session_id = %s"


class Standby:
    """A hot standby of a server, in a folder of its own."""

    def __init__(self, of: PgServer) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hf-standby-"))
        self._of = of
        data = self.folder / "data"
        if of._user is not None:
            shutil.chown(self.folder, of._user)
        self._run(
            "pg_basebackup", "-h", str(of.folder), "-U", "postgres", "-D", str(data), "-R", "-X", "stream", "-c", "fast"
        )
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder}"
        self._run("pg_ctl", "-D", str(data), "start", "-s", "-w", "-l", str(self.folder / "log"), "-o", options)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def close(self) -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "stop", "-s", "-m", "immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *words: str) -> None:
        with (self._of.folder / "standby.out").open("wb") as out:
            command = [str(self._of._programs / program), *words]
            subprocess.run(command, stdout=out, stderr=out, user=self._of._user, cwd="/", check=True)


def behind(server: PgServer) -> list[float]:
    """Milliseconds from the moment an append is acknowledged until the standby shows it; 0 when it did already."""
    url = server.create_database()
    session_id = new_id()
    with open_store(url) as store:
        store.commit(Create(header=Header(session_id=session_id), events=(NewEvent(event=e.SessionCreated()),)))
        standby = Standby(server)
        seen: dict[int, float] = {}
        reading = threading.Thread(target=_watch, args=(standby.url(url.split("/")[3].split("?")[0]), session_id, seen))
        reading.start()
        acknowledged: dict[int, float] = {}
        for n in range(APPENDS):
            said = e.MessageAppended(role=Role.USER, parts=(TextPart(f"message {n} " + "x" * 600),))
            [receipt] = store.commit(Append(session_id=session_id, events=(NewEvent(event=said, actor="user"),)))
            acknowledged[receipt.seq] = time.perf_counter()
            time.sleep(PAUSE)
        reading.join(30)
        standby.close()
    return sorted(max(0.0, seen[seq] - at) * 1000 for seq, at in acknowledged.items() if seq in seen)


def _watch(url: str, session_id: str, seen: dict[int, float]) -> None:
    last = 0
    with psycopg.connect(url, autocommit=True) as connection:
        while last < APPENDS + 1:
            found = connection.execute(LAST, (session_id,)).fetchone()
            now = time.perf_counter()
            if found is not None and found[0] > last:
                seen.update(dict.fromkeys(range(last + 1, int(found[0]) + 1), now))
                last = int(found[0])


def main() -> None:
    server = PgServer(max_wal_senders="4", wal_level="replica", hot_standby="on")
    try:
        found = behind(server)
    finally:
        server.close()
    at = {name: found[int(len(found) * share)] for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}
    print(f"{len(found)} appends; a standby shows each after " + ", ".join(f"{n} {ms:.2f} ms" for n, ms in at.items()))


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.crash.replica", description="How far behind a standby is."
    ).parse_args()
    main()
