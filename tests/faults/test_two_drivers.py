"""Two drivers of one session: one at a time, and one that was taken over does nothing more."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.core.errors import SessionBusy
from outlast.store import open_store
from outlast.store.port import LEASE_MS
from outlast.store.read.decode import decode_events
from tests.conftest import ROOT
from tests.faults.ledger import turn_problems
from tests.faults.stopping_driver import driver_in
from tests.support.agents import kinds_of

SHORT_MS = 300
PATIENCE = 30.0


class Stopped:
    """A driver in a process of its own, stopped at a failpoint. Its session is `session_id`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process, self._said = process, process.stdout
        self.session_id = self._said.readline().decode().strip()
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)

    def go_on(self) -> tuple[int, str]:
        """Let it go on to its end: exit code and what it said."""
        self._process.send_signal(signal.SIGCONT)
        return self._process.wait(PATIENCE), self._said.read().decode()


@contextmanager
def stopped(url: str, folder: Path, failpoint: str, lease_ms: int) -> Generator[Stopped]:
    words = [sys.executable, "-m", "tests.faults.stopping_driver", url, str(folder), failpoint, str(lease_ms)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            yield Stopped(process)
        finally:
            process.kill()


def witnessed(folder: Path) -> list[str]:
    witness = folder / "project" / "witness.txt"
    return witness.read_text().split() if witness.exists() else []


async def test_a_second_driver_is_told_that_the_session_is_busy(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with stopped(url, tmp_path, "model.asked", LEASE_MS) as first, open_store(url) as store:
        second = driver_in(store, tmp_path, LEASE_MS)
        assert second.resume_session(first.session_id)
        with pytest.raises(SessionBusy):
            await second.resume()
        assert first.go_on() == (0, "")
        assert await second.resume() == ""
        assert turn_problems(decode_events(store, store.read(first.session_id))) == []
    assert witnessed(tmp_path) == ["one", "two"]


async def _taken_over(resume: Callable[[], Awaitable[str]]) -> str:
    """Resume as soon as the other one's lease has run out."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            return await resume()
        except SessionBusy:
            await asyncio.sleep(0.05)
    raise AssertionError("the lease never ran out")


@pytest.mark.parametrize(("failpoint", "ran"), [("call.decided", ["one", "two"]), ("call.started", ["two"])])
async def test_a_driver_that_was_taken_over_writes_nothing_and_causes_nothing(
    tmp_path: Path, failpoint: str, ran: list[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    with stopped(url, tmp_path, failpoint, SHORT_MS) as first, open_store(url) as store:
        second = driver_in(store, tmp_path, LEASE_MS)
        assert second.resume_session(first.session_id)
        assert await _taken_over(second.resume) == "Both are done."
        before = kinds_of(second)
        code, said = first.go_on()
        assert kinds_of(second) == before
        assert turn_problems(decode_events(store, store.read(first.session_id))) == []
    assert witnessed(tmp_path) == ran, "a call that the first driver had started is unknown, and never run again"
    assert code == 1
    assert said.startswith("StaleLease: ")
    assert said.count("\n") == 1
