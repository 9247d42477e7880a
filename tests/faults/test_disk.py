"""A disk that is full, fails to sync or is read-only: loud, nothing acknowledged lost, and it goes on afterwards."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from outlast.core.errors import OutcomeUnknown, Refused
from outlast.store.log_store import LogStore
from outlast.store.port import Append
from outlast.store.sqlite import SqliteStore, connections
from tests.conftest import ROOT, _missing, needs
from tests.faults.disk import Faulty, disk
from tests.faults.stores import LOCAL
from tests.faults.witness import Ack, Note, Try, new_id, problems, writes_of

FAULTS: dict[str, tuple[str, Callable[[], Exception]]] = {
    "full": ("write", apsw.FullError),
    "write": ("write", apsw.IOError),
    "sync": ("sync", apsw.IOError),
    "truncate": ("truncate", apsw.IOError),
}


@pytest.fixture(autouse=True)
def _small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CHECKPOINT_PAGES", 12)
    monkeypatch.setattr(connections, "FORCED_PAGES", 40)


@pytest.fixture
def faulty() -> Iterator[Faulty]:
    vfs = Faulty("faulty")
    with disk(vfs, "faulty"):
        yield vfs


class Life:
    """Appends to one session, of which some fail, and what came of them."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.notes: list[Note] = []
        self.failed: list[tuple[Try, str | None]] = []
        self._number = 0
        self.session_id = new_id()
        self._try(Try(mark="first", kind="create", session_id=self.session_id))

    def append(self, *, keyed: bool = True) -> None:
        """Acknowledged, or refused, or unknown; anything else is not an outcome."""
        self._number += 1
        mark, key = f"m{self._number}", f"k{self._number}" if keyed else None
        tried = Try(mark=mark, kind="append", session_id=self.session_id, key=key, count=2 if keyed else 1, size=600)
        try:
            self._try(tried)
        except OutcomeUnknown as error:
            self.failed.append((tried, error.key))
        except Refused:
            self.failed.append((tried, key))

    def repeat_failed(self) -> None:
        for tried, key in self.failed:
            assert tried.key in (None, key)
            [write] = writes_of(tried)
            assert isinstance(write, Append)
            again = Append(session_id=write.session_id, events=write.events, key=key)
            receipt = self.store.commit(again)[0]
            self._acknowledged(tried, receipt.seq)
        self.failed.clear()

    def acknowledged_are_readable(self) -> None:
        there = {row.seq for row in self.store.read(self.session_id)}
        assert {note.seq for note in self.notes if isinstance(note, Ack)} <= there

    def _try(self, tried: Try) -> None:
        [receipt] = self.store.commit(*writes_of(tried))
        self._acknowledged(tried, receipt.seq)

    def _acknowledged(self, tried: Try, seq: int) -> None:
        first = seq - tried.count + 1
        self.notes.append(Ack(mark=tried.mark, session_id=self.session_id, first_seq=first, seq=seq))


def one_life(path: Path, faulty: Faulty, fault: str, at: int, *, for_good: bool, reading: bool) -> bool:
    """Whether the fault was reached."""
    with SqliteStore(path) as store:
        life = Life(store)
        life.append()
        if reading:
            life.acknowledged_are_readable()  # leaves a connection open, so that no recovery happens
        operation, error = FAULTS[fault]
        faulty.fail(operation, error, at=at, for_good=for_good)
        for number in range(6):
            life.append(keyed=number % 2 == 0)
        reached = faulty.failures > 0
        if reached:
            life.acknowledged_are_readable()
        faulty.mend()
        life.append()
        life.repeat_failed()
        assert problems(store, life.notes) == []
    with SqliteStore(path) as store:
        assert problems(store, life.notes) == []
    return reached


@pytest.mark.parametrize("reading", [False, True], ids=["alone", "beside a reader"])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_every_operation_is_loud_and_passes(
    memory: Path, faulty: Faulty, fault: str, for_good: bool, reading: bool
) -> None:
    at = 1
    while one_life(memory / "store" / "log.db", faulty, fault, at, for_good=for_good, reading=reading):
        shutil.rmtree(memory / "store")
        at += 1
    assert at > 2, "the fault was never reached"


def own_mounts() -> list[str]:
    """How to run something with a mount table of its own; as root, or as root of a namespace."""
    words = [needs("unshare"), "--mount"] if os.geteuid() == 0 else [needs("unshare"), "--mount", "--map-root-user"]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        _missing("needs a mount namespace, which is forbidden here")
    return words


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.usefixtures("place")
def test_a_really_full_and_a_really_read_only_disk_are_loud_and_pass(kind: str, tmp_path: Path) -> None:
    words = [*own_mounts(), sys.executable, "-m", "tests.faults.small_disk", kind, str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"[]"


@pytest.mark.parametrize("what", ["folder", "everything"])
@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.usefixtures("place")
def test_no_permission_is_one_sentence_that_says_so(kind: str, memory: Path, what: str) -> None:
    words = [sys.executable, "-m", "tests.faults.no_permission", kind, str(memory), what]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=60, check=False)
    for path in (path for path in sorted(memory.rglob("*")) if path.is_dir()):
        path.chmod(0o700)  # so that it can be removed
    assert done.returncode == 0, done.stderr.decode()
    said = done.stdout.decode()
    assert said.startswith("StoreUnavailable: ")
    assert "ermission" in said
    assert "\n" not in said


@pytest.mark.parametrize("url", ["sqlite:///{}/store/x.db", "files:///{}/store/x"])
def test_a_read_only_file_system_is_named_with_its_mount(tmp_path: Path, url: str) -> None:
    mount = tmp_path / "store"
    mount.mkdir()
    store = url.format(tmp_path)
    opens = f"OUTLAST_HOME={tmp_path}/home {sys.executable} -m outlast -p hello --model none --store {store} </dev/null"
    script = f"mount -t tmpfs none {mount} && {opens} && mount -o remount,ro {mount} && {opens}"
    done = subprocess.run([*own_mounts(), "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert f"is on a file system that is mounted read-only at {mount}; mount it writable" in done.stderr, done.stderr
