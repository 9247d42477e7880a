"""Another process that uses a store: does what it is told, line by line, and says how it went.

    python -m tests.faults.actor URL

`Actor` is what runs there; `Other` is the handle on this side.
"""

import importlib
import os
import secrets
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Self

import msgspec

from outlast.core.errors import OutlastError
from outlast.store import open_store, process_identity
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, Lease, NewEvent, Query
from tests.conftest import ROOT
from tests.faults.stores import patient_for
from tests.faults.witness import Try, message, writes_of


class Said(msgspec.Struct, frozen=True, kw_only=True):
    value: Any = None
    error: str | None = None
    text: str = ""


class Actor:
    def __init__(self, url: str) -> None:
        self._url = url
        self._store: LogStore | None = None
        self._leases: dict[str, Lease] = {}

    @property
    def store(self) -> LogStore:
        if self._store is None:
            self._store = open_store(self._url)
        return self._store

    def do(self, verb: str, words: dict[str, Any]) -> Said:
        try:
            return Said(value=getattr(self, verb)(**words))
        except OutlastError as error:
            return Said(error=type(error).__name__, text=str(error))

    def open(self) -> int:
        return len(self.store.find(Query()).headers)

    def close(self) -> None:
        self.store.close()
        self._store = None

    def patience(self, seconds: float) -> None:
        patient_for(seconds)

    def create(self, session_id: str) -> int:
        return self.store.commit(*writes_of(Try(mark=session_id, kind="create", session_id=session_id)))[0].seq

    def append(self, session_id: str, mark: str, key: str | None = None) -> int:
        tried = Try(mark=mark, kind="append", session_id=session_id, key=key)
        return self.store.commit(*writes_of(tried))[0].seq

    def append_many(self, session_id: str, mark: str, count: int) -> list[int]:
        return [self.append(session_id, f"{mark}.{number}") for number in range(count)]

    def append_and_tell_when(self, session_id: str, mark: str) -> float:
        """The moment at which it was acknowledged, on the clock that all processes share."""
        self.append(session_id, mark)
        return time.monotonic()

    def seqs(self, session_id: str) -> list[int]:
        return [row.seq for row in self.store.read(session_id)]

    def claim(self, session_id: str, ttl_ms: int) -> int:
        taken = Claim(
            session_id=session_id, token=secrets.token_hex(8), holder=process_identity.holder(), ttl_ms=ttl_ms
        )
        lease = self.store.commit(taken)[0].lease
        assert lease is not None
        self._leases[session_id] = lease
        return lease.epoch

    def drive(self, session_id: str, mark: str) -> int:
        new: tuple[NewEvent, ...] = (message(mark, 0, 20),)
        return self.store.commit(Append(session_id=session_id, events=new, lease=self._leases[session_id]))[0].seq

    def stop_inside_the_next_commit(self) -> None:
        """SIGSTOP to ourselves where the commit is written, with every lock held."""
        files = importlib.import_module("outlast.store.files.disk")
        database = getattr(self.store, "_database", None)
        if database is not None:
            database.ready().set_commit_hook(_stopped)
            return
        honest = files.write_at

        def write_at(fd: int, data: bytes, at: int) -> None:
            setattr(files, "write_at", honest)  # noqa: B010 - a module that the type checker does not see
            _stopped()
            honest(fd, data, at)

        setattr(files, "write_at", write_at)  # noqa: B010


def _stopped() -> bool:
    os.kill(os.getpid(), signal.SIGSTOP)
    return False


class Other:
    """A process of its own with a store open."""

    def __init__(self, url: str) -> None:
        words = [sys.executable, "-m", "tests.faults.actor", url]
        self._process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self._process.pid

    def begin(self, verb: str, **words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode([verb, words]) + b"\n")
        self._process.stdin.flush()

    def said(self) -> Said:
        """The answer to what was begun."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the other process ended"
        return msgspec.json.decode(line, type=Said)

    def ask(self, verb: str, **words: Any) -> Said:
        self.begin(verb, **words)
        return self.said()

    def get(self, verb: str, **words: Any) -> Any:
        said = self.ask(verb, **words)
        assert said.error is None, said
        return said.value

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def until_stopped(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def kill(self, *, reap: bool = True) -> None:
        self._process.kill()
        if reap:
            self._process.wait()
        else:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def main(url: str) -> None:
    actor = Actor(url)
    for line in sys.stdin.buffer:
        verb, words = msgspec.json.decode(line, type=tuple[str, dict[str, Any]])
        os.write(1, msgspec.json.encode(actor.do(verb, words)) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
