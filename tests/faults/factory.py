"""The factory: a process that imports everything, opens nothing, and forks writers to be killed and checkers to look.

    python -m tests.faults.factory STORE PLACE ROUNDS SEED

It prints one JSON object: rounds, what was acknowledged, what was tried, and every problem found. A process that has
opened a store must not fork, so neither the writer nor the checker is this one.
"""

import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from outlast.core.errors import OutlastError
from outlast.store import open_store
from tests.faults.stores import another_place, in_memory, load, url_in
from tests.faults.witness import Ack, Notebook, Try, known_sessions, notes_in, problems, write_until_killed

ERA = 10  # rounds on one store; then a new one, so that creating and migrating are killed too
LONGEST = 0.01
WRITER_SECONDS = 5
CHECKER_SECONDS = 60


class Report(msgspec.Struct, kw_only=True):
    rounds: int = 0
    tried: int = 0
    acknowledged: int = 0
    unanswered: int = 0
    problems: list[str] = []


def in_child(work: Callable[[], None]) -> int:
    """The pid of a child that does this and ends."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - a child reports and ends; nothing may run on in it
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


class Era:
    """Some rounds on one store: what is acknowledged in one must still be there after all the others."""

    def __init__(self, kind: str, place: str, folder: Path, seed: int) -> None:
        self.url = url_in(kind, place, folder)
        self.notes = folder / "notes"
        self._folder, self._random = folder, random.Random(seed)
        self.tried = self.acknowledged = 0

    def kill_once(self) -> None:
        seed = self._random.getrandbits(32)
        so_far = notes_in(self.notes)
        sessions, before = known_sessions(so_far), len(so_far)
        writer = in_child(lambda: self._write(sessions, seed))
        if self._random.random() < 0.8:
            self._until_written(self._random.randrange(1, 4_000))
        time.sleep(self._random.random() * LONGEST)
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        notes = notes_in(self.notes)[before:]
        self.tried += sum(isinstance(note, Try) for note in notes)
        self.acknowledged += sum(isinstance(note, Ack) for note in notes)

    def _until_written(self, more: int) -> None:
        """Wait for so many bytes of notes, so that a busy machine kills at the same points as an idle one."""
        enough, deadline = self._size() + more, time.monotonic() + WRITER_SECONDS
        while self._size() < enough and time.monotonic() < deadline:
            time.sleep(0.0005)

    def _size(self) -> int:
        return self.notes.stat().st_size if self.notes.exists() else 0

    def _write(self, sessions: list[str], seed: int) -> None:
        write_until_killed(open_store(self.url), self.notes, sessions, seed)

    def problems(self) -> list[str]:
        out = self._folder / "problems"
        checker = in_child(lambda: self._check(out))
        if _ended_well(checker):
            return msgspec.json.decode(out.read_bytes(), type=list[str])
        return ["the checker did not end well"]

    def _check(self, out: Path) -> None:
        try:
            store = open_store(self.url)
            found = problems(store, notes_in(self.notes), Notebook.at(self.notes))
            if self._random.random() < 0.5:  # else it ends as if killed, and the next one recovers again
                store.close()
        except OutlastError as error:
            found = [f"cannot be opened or read: {type(error).__name__}: {error}"]
        out.write_bytes(msgspec.json.encode(found))


def _ended_well(pid: int) -> bool:
    deadline = time.monotonic() + CHECKER_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


def _where(era: int) -> str | None:
    """A kill takes nothing from the page cache, so memory will do and is fast; now and then the real disk."""
    return None if era % 5 == 4 else in_memory()


def run(kind: str, place: str, rounds: int, seed: int) -> Report:
    load(kind)
    report = Report()
    for number in itertools.takewhile(lambda _: report.rounds < rounds and not report.problems, itertools.count()):
        folder = Path(tempfile.mkdtemp(prefix="outlast-kill-", dir=_where(number)))
        era = Era(kind, another_place(kind, place, number), folder, seed + report.rounds)
        for _ in range(min(ERA, rounds - report.rounds)):
            era.kill_once()
            report.rounds += 1
            report.problems += [f"seed {seed}, round {report.rounds}: {text}" for text in era.problems()]
        report.tried += era.tried
        report.acknowledged += era.acknowledged
        report.unanswered += era.tried - era.acknowledged
        if not report.problems:
            shutil.rmtree(folder)
    return report


if __name__ == "__main__":
    os.write(1, msgspec.json.encode(run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
