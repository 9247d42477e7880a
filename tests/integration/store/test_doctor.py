"""The doctor looks, changes nothing, and knows a remedy."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from outlast.store import open_store
from outlast.store.doctor import Check, CheckStatus, examine
from outlast.store.doctor.machine import disk, private, process_is_stopped
from outlast.store.maintenance.migrations import newest
from tests.unit.store.populated import talk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "s").mkdir(mode=0o700)
    found = tmp_path / "s" / "a.db"
    with open_store(f"sqlite:///{found}") as store:
        talk(store)
    return found


def checks(path: Path) -> dict[str, Check]:
    return {check.name: check for check in examine(f"sqlite:///{path}", path.parent)}


def test_everything_is_well_with_a_new_store(path: Path) -> None:
    found = checks(path)
    assert {check.status for name, check in found.items() if name != "disk"} == {CheckStatus.OK}
    assert {"python", "apsw", "sqlite", "home", "store file", "disk", "file system", "wal", "sync"} <= found.keys()
    assert found["sync"].text == "journal_mode wal, synchronous FULL"
    assert found["schema"].text == f"version {newest('sqlite')}"


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    found = checks(tmp_path / "none.db")
    assert found["store"].status is CheckStatus.OK
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "status"),
    [(0o600, CheckStatus.OK), (0o640, CheckStatus.WARN), (0o604, CheckStatus.WARN), (0o620, CheckStatus.FAIL)],
)
def test_others_may_neither_read_nor_write(path: Path, mode: int, status: CheckStatus) -> None:
    path.chmod(mode)
    check = private("store file", path)
    assert check.status is status
    assert (check.remedy is None) == (status is CheckStatus.OK)


def test_a_file_that_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    assert private("home", tmp_path / "none").status is CheckStatus.FAIL


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, status in ((10, CheckStatus.FAIL), (500 * 2**20, CheckStatus.WARN), (2**40, CheckStatus.OK)):
        monkeypatch.setattr("shutil.disk_usage", Usage(free).of)
        assert disk(tmp_path).status is status


class Usage:
    def __init__(self, free: int) -> None:
        self.free = free

    def of(self, folder: Path) -> Usage:
        return self


def test_commits_beyond_a_damaged_frame_are_told_before_they_are_dropped(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store:
        talk(store, 30)
        log = path.with_name("a.db-wal").read_bytes()
        data = path.read_bytes()
    damaged = bytearray(log)
    damaged[32 + 5 * 4120 + 50] ^= 4
    path.write_bytes(data)
    path.with_name("a.db-wal").write_bytes(damaged)
    path.with_name("a.db-shm").unlink(missing_ok=True)
    check = checks(path)["wal"]
    assert check.status is CheckStatus.FAIL
    assert "after a damaged frame" in check.text
    assert "copy" in (check.remedy or "")


@contextmanager
def stopped_with(lock: str) -> Generator[int]:
    """A process that was stopped while it held a lock."""
    program = (
        "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600); "
        "fcntl.flock(fd, fcntl.LOCK_EX); os.pwrite(fd, b'%-10d' % os.getpid(), 0); print('in', flush=True); input()"
    )
    words = [sys.executable, "-c", program, lock]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"in\n"
        child.send_signal(signal.SIGSTOP)
        while not process_is_stopped(child.pid):
            os.sched_yield()
        yield child.pid
        child.kill()


@pytest.mark.skipif(sys.platform == "darwin", reason="reads /proc")
def test_a_stopped_writer_is_named(path: Path) -> None:
    with stopped_with(f"{path}.gate") as pid:
        check = checks(path)["gate"]
    assert check.status is CheckStatus.FAIL
    assert str(pid) in check.text
    assert check.remedy == f"kill -CONT {pid}, or end it"


@pytest.mark.skipif(sys.platform == "darwin", reason="reads /proc")
def test_a_stopped_holder_of_the_directorys_lock_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    with open_store(f"files:///{folder}") as store:
        talk(store)
    with stopped_with(f"{folder}/store.lock") as pid:
        [check] = [check for check in examine(f"files:///{folder}", tmp_path) if check.name == "lock"]
    assert (check.status, check.remedy) == (CheckStatus.FAIL, f"kill -CONT {pid}, or end it")
    assert check.text == f"process {pid} is stopped in the middle of a write and holds store.lock"


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_a_newer_store_asks_for_a_newer_outlast(path: Path, tmp_path: Path, kind: str) -> None:
    url = f"sqlite:///{path}"
    if kind == "sqlite":
        connection = apsw.Connection(str(path))
        connection.execute("INSERT INTO migrations VALUES (99, 'future', 'x', 99, 0)")
        connection.close()
    else:
        url = f"files:///{tmp_path / 'f'}"
        open_store(url).close()
        (tmp_path / "f" / "outlast-store.json").write_text('{"outlast":"files","format":9,"min_reader":9}')
    [check] = [check for check in examine(url, tmp_path) if check.name == "store"]
    assert (check.status, check.remedy) == (CheckStatus.FAIL, "pip install -U outlast")


def test_a_writer_at_work_is_no_fault(path: Path) -> None:
    descriptor = os.open(str(path) + ".gate", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.pwrite(descriptor, b"%-10d" % os.getpid(), 0)
    check = checks(path)["gate"]
    os.close(descriptor)
    assert (check.status, check.text) == (CheckStatus.OK, f"process {os.getpid()} is writing")


def test_a_foreign_file_is_a_failed_check_and_not_an_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at as one " * 20)
    path.chmod(0o600)
    assert checks(path)["store"].status is CheckStatus.FAIL
    assert path.with_name("notes.txt.gate").exists() is False
