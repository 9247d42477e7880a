"""A write-ahead log, read as it lies there: what SQLite would recover, and what lies beyond."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
import pytest

from outlast.store.sqlite.wal import Wal, examine

FRAME = 24 + 4096


class Log:
    """A database whose log holds commits; `rows` is what a copy of the files recovers to."""

    def __init__(self, folder: Path, commits: int) -> None:
        self.folder = folder
        self.path = folder / "a.db-wal"
        self.connection = apsw.Connection(str(folder / "a.db"))
        self.connection.pragma("journal_mode", "wal")
        self.connection.execute("PRAGMA wal_autocheckpoint=0")
        self.connection.execute("CREATE TABLE t (n)")
        for number in range(commits):
            self.connection.execute("INSERT INTO t VALUES (?)", (number,))

    def copy(self) -> Path:
        """The files as they lie there, for another process to find."""
        target = self.folder / "copy"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for name in ("a.db", "a.db-wal"):
            shutil.copy(self.folder / name, target / name)
        return target / "a.db-wal"

    @staticmethod
    def recovered(log: Path) -> int:
        connection = apsw.Connection(str(log.with_name("a.db")))
        try:
            return connection.execute("SELECT count(*) FROM t").get
        finally:
            connection.close()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path, 20)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_no_log_is_an_empty_one(tmp_path: Path) -> None:
    assert examine(tmp_path / "none-wal") == Wal(size=0)


def test_a_whole_log_is_recovered_to_its_end(log: Log) -> None:
    found = examine(log.copy())
    assert found.frames == found.recovered > 20
    assert (found.open, found.beyond, found.lost_commits) == (0, 0, 0)


def test_commits_beyond_a_damaged_frame_are_counted(log: Log) -> None:
    copy = log.copy()
    frames = examine(copy).frames
    flip(copy, 32 + 10 * FRAME + 100)
    found = examine(copy)
    assert found.recovered == 10
    assert found.beyond == frames - 11
    assert found.lost_commits == found.beyond
    kept = Log.recovered(copy)
    assert kept == 20 - found.lost_commits - 1  # SQLite drops them, and the damaged one, without a word


def test_a_commit_that_was_not_finished_is_no_loss(log: Log) -> None:
    log.connection.execute("PRAGMA cache_size=1")
    log.connection.execute("BEGIN")
    log.connection.execute("INSERT INTO t SELECT randomblob(5000) FROM t")
    found = examine(log.copy())
    assert found.open > 0
    assert (found.beyond, found.lost_commits) == (0, 0)


def test_a_torn_end_is_no_loss(log: Log) -> None:
    copy = log.copy()
    frames = examine(copy).frames
    copy.write_bytes(copy.read_bytes()[:-1000])
    found = examine(copy)
    assert (found.frames, found.recovered, found.lost_commits) == (frames - 1, frames - 1, 0)


def test_frames_of_an_earlier_log_do_not_count(log: Log) -> None:
    log.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    log.connection.execute("INSERT INTO t VALUES (1)")
    found = examine(log.copy())
    assert found.recovered == 1
    assert (found.open, found.beyond) == (0, 0)


def test_a_damaged_beginning_is_an_empty_log(log: Log) -> None:
    copy = log.copy()
    flip(copy, 5)
    assert examine(copy).frames == 0
