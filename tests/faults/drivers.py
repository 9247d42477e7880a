"""Two drivers and one that stops them: forked from a process that opened nothing, told what to do by signals and pipes.

    python -m tests.faults.drivers STORE PLACE TAKEOVERS

Prints a JSON object. In each round the first driver holds the leases of some sessions and writes; it is stopped past
its leases, the second one takes them all over and writes, the first one goes on: now every write of it must be refused.
"""

import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from outlast.core import events as e
from outlast.core.errors import SessionBusy, StaleLease
from outlast.core.messages import TextPart
from outlast.store import open_store, process_identity
from outlast.store.engine.encode import event_of
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, Lease, NewEvent
from tests.faults.factory import in_child
from tests.faults.stores import in_memory, load, url_in
from tests.faults.witness import Ack, Failed, Notebook, Try, mark_of, new_id, notes_in, writes_of

LEASE_MS = 300
SESSIONS = 25
PATIENCE = 20.0


class Outcome(msgspec.Struct, kw_only=True):
    takeovers: int = 0
    refused: int = 0
    blocked: int = 0  # rounds in which the first driver was stopped inside a commit, and the second had to wait for it
    problems: list[str] = []


def claim(store: LogStore, session_id: str, ttl_ms: int = LEASE_MS) -> Lease:
    taken = Claim(session_id=session_id, token=secrets.token_hex(8), holder=process_identity.holder(), ttl_ms=ttl_ms)
    lease = store.commit(taken)[0].lease
    assert lease is not None
    return lease


def drive(store: LogStore, notebook: Notebook, lease: Lease, mark: str) -> None:
    note = e.AssistantReplied(attempt_seq=1, parts=(TextPart(f"{mark}/0 "),))
    notebook.write(Try(mark=mark, kind="drive", session_id=lease.session_id))
    [receipt] = store.commit(Append(session_id=lease.session_id, events=(NewEvent(event=note),), lease=lease))
    notebook.write(Ack(mark=mark, session_id=lease.session_id, first_seq=receipt.seq, seq=receipt.seq))


class Round:
    def __init__(self, kind: str, place: str, folder: Path) -> None:
        self.url = url_in(kind, place, folder)
        self.sessions = [new_id() for _ in range(SESSIONS)]
        self.first, self.second = folder / "first", folder / "second"
        self._ready, self._go = folder / "ready", folder / "go"

    def run(self, outcome: Outcome) -> None:
        os.waitpid(in_child(self._make), 0)
        other = in_child(self._second_driver)
        driver = in_child(self._first_driver)
        self._until(lambda: len(notes_in(self.first)) > 2 * SESSIONS and self._ready.exists())
        os.kill(driver, signal.SIGSTOP)
        time.sleep(LEASE_MS / 1000)
        self._go.touch()
        done = self._ended(other, 1.0)
        os.kill(driver, signal.SIGCONT)
        if not done:
            outcome.blocked += 1
            done = self._ended(other, PATIENCE)
        if not (done and self._ended(driver, PATIENCE)):
            outcome.problems.append("a driver did not end")
        os.waitpid(in_child(lambda: self._check(outcome)), 0)
        checked = msgspec.json.decode(self._go.read_bytes(), type=Outcome)
        outcome.takeovers, outcome.refused = checked.takeovers, checked.refused
        outcome.problems = checked.problems

    def _make(self) -> None:
        with open_store(self.url) as store:
            for number, session_id in enumerate(self.sessions):
                store.commit(*writes_of(Try(mark=f"made{number}", kind="create", session_id=session_id)))

    def _first_driver(self) -> None:
        store, notebook = open_store(self.url), Notebook.at(self.first)
        leases = [claim(store, session_id) for session_id in self.sessions]
        number = 0
        while leases:
            for lease in list(leases):
                number += 1
                try:
                    drive(store, notebook, lease, f"a{number}")
                except StaleLease:
                    leases.remove(lease)
                    notebook.write(Failed(error=f"a{number}"))
                time.sleep(0.003)  # so that it is mostly stopped between two commits

    def _second_driver(self) -> None:
        store, notebook = open_store(self.url), Notebook.at(self.second)
        store.head(self.sessions[0])
        self._ready.touch()
        self._until(self._go.exists)
        for number, session_id in enumerate(self.sessions):
            while True:
                try:
                    lease = claim(store, session_id, 60_000)
                    break
                except SessionBusy:
                    time.sleep(0.002)
            drive(store, notebook, lease, f"b{number}")

    def _check(self, outcome: Outcome) -> None:
        acks = [note for path in (self.first, self.second) for note in notes_in(path) if isinstance(note, Ack)]
        refused = {note.error for note in notes_in(self.first) if isinstance(note, Failed)}
        outcome.takeovers += sum(note.mark.startswith("b") for note in acks)
        outcome.refused += len(refused)
        there: dict[str, int] = {}
        with open_store(self.url) as store:
            for session_id in self.sessions:
                rows = [row for row in store.read(session_id) if row.epoch is not None]
                epochs = [row.epoch or 0 for row in rows]
                if epochs != sorted(epochs):
                    outcome.problems.append(f"a stale write in {session_id}: {epochs}")
                there |= {(mark_of(event_of(row)) or "").split("/")[0]: row.seq for row in rows}
        outcome.problems += [f"lost: {ack}" for ack in acks if there.get(ack.mark) != ack.seq]
        outcome.problems += [f"refused but written: {mark}" for mark in refused & there.keys()]
        self._go.write_bytes(msgspec.json.encode(outcome))

    @staticmethod
    def _until(fact: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not fact() and time.monotonic() < deadline:
            time.sleep(0.002)

    @staticmethod
    def _ended(pid: int, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    return True
            except ChildProcessError:
                return True
            time.sleep(0.002)
        return False


def main(kind: str, place: str, takeovers: int) -> Outcome:
    load(kind)
    outcome = Outcome()
    while outcome.takeovers < takeovers and not outcome.problems:
        folder = Path(tempfile.mkdtemp(prefix="outlast-lease-", dir=in_memory()))
        Round(kind, place, folder).run(outcome)  # each with sessions of its own, so they may share a database
        if not outcome.problems:
            shutil.rmtree(folder)
    return outcome


if __name__ == "__main__":
    os.write(1, msgspec.json.encode(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
