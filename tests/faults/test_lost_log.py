"""A database file or its write-ahead log that is removed, replaced or put back under a running process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from outlast.core.errors import DamagedSession, OutcomeUnknown, StoreUnavailable
from outlast.core.messages import Message, Role
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.sqlite import SqliteStore
from outlast.store.sqlite.file_guard import FileGuard

READ = """
import sys
from outlast.core.errors import OutlastError
from outlast.session import ConversationSession
from outlast.store import open_store
try:
    with open_store(sys.argv[1]) as store:
        session = ConversationSession.load(session_id=sys.argv[2], store=store)
        print(*(message.content for message in session.history(limit=None)) if session else ["no session"])
        if len(sys.argv) > 3:
            from outlast.core.messages import Message, Role
            print(session.append(Message(role=Role.USER, content=sys.argv[3])))
except OutlastError as error:
    print(error)
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
def store(url: str) -> Iterator[LogStore]:
    with closing(open_store(url)) as opened:
        yield opened


def say(session: ConversationSession, text: str) -> int:
    return session.append(Message(role=Role.USER, content=text))


def elsewhere(url: str, session: ConversationSession, *more: str) -> str:
    """What another process reads, or the error that it gets."""
    words = [sys.executable, "-c", READ, url, session.session_id, *more]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def test_a_removed_log_ends_writing_and_what_it_held_is_saved(store: LogStore, url: str, tmp_path: Path) -> None:
    session = ConversationSession(store=store)
    for text in "abc":
        say(session, text)
    (tmp_path / "s.db-wal").unlink()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"s\.db-wal was removed.* saved into s\.db: end this process"):
            say(session, "refused")
    assert elsewhere(url, session) == "a b c"
    assert elsewhere(url, session, "d") == "a b c\n5"
    with pytest.raises(StoreUnavailable, match="removed, replaced or cut short"):
        say(session, "refused")


def test_a_log_that_goes_while_a_commit_runs_is_noticed_before_the_acknowledgement(
    store: LogStore, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ConversationSession(store=store)
    say(session, "a")
    check = FileGuard.check_log

    def check_then_remove(self: FileGuard, writer: object) -> None:
        check(self, writer)  # pyright: ignore[reportArgumentType]
        (tmp_path / "s.db-wal").unlink()

    monkeypatch.setattr(FileGuard, "check_log", check_then_remove)
    assert say(session, "b") == 3
    monkeypatch.undo()
    with pytest.raises(StoreUnavailable, match="removed, replaced or cut short"):
        say(session, "refused")
    assert elsewhere(url, session) == "a b"


def test_another_process_is_told_of_the_removed_log_and_not_of_the_disk(
    store: LogStore, url: str, tmp_path: Path
) -> None:
    session = ConversationSession(store=store)
    say(session, "a")
    (tmp_path / "s.db-wal").unlink()
    told = elsewhere(url, session)
    assert "s.db-wal was removed or emptied while another process has s.db open" in told
    assert "check the disk" not in told
    with pytest.raises(StoreUnavailable, match="saved into"):
        say(session, "refused")
    assert elsewhere(url, session) == "a"


def test_a_log_replaced_by_an_older_one_ends_writing(store: LogStore, url: str, tmp_path: Path) -> None:
    session = ConversationSession(store=store)
    log = tmp_path / "s.db-wal"
    say(session, "a")
    shutil.copy(log, tmp_path / "older")
    say(session, "b")
    (tmp_path / "older").replace(log)
    with pytest.raises(StoreUnavailable, match="may be missing: end every process"):
        say(session, "refused")


def test_an_older_log_copied_over_the_open_one_ends_writing(store: LogStore, url: str, tmp_path: Path) -> None:
    session = ConversationSession(store=store)
    log = tmp_path / "s.db-wal"
    say(session, "a")
    older = log.read_bytes()
    for text in "bcdefgh":
        say(session, text)
    log.write_bytes(older)
    with pytest.raises(StoreUnavailable, match="cut short"):
        say(session, "refused")


def test_a_log_that_another_process_emptied_after_a_checkpoint_is_no_damage(
    store: LogStore, url: str, tmp_path: Path
) -> None:
    session = ConversationSession(store=store)
    for text in "abc":
        say(session, text)
    code = (
        "import sys, apsw; c = apsw.Connection(sys.argv[1]); c.execute('select count(*) from sessions').fetchall(); "
        "print(c.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "s.db")], check=True, timeout=60)
    assert (tmp_path / "s.db-wal").stat().st_size == 0
    assert [say(session, text) for text in "de"] == [5, 6]


def test_no_seq_is_given_twice_by_a_process_that_knows_better(store: LogStore, url: str, tmp_path: Path) -> None:
    """The pages of the open database are put back to an older state, behind the back of everything."""
    session, other = ConversationSession(store=store), ConversationSession(store=store)
    say(session, "a")
    say(other, "x")
    assert isinstance(store, SqliteStore)
    database = store._database
    database.writer.execute("CREATE TEMP TABLE older AS SELECT sid, header, crc FROM sessions")
    say(session, "b")
    code = (
        "import sys, apsw; c = apsw.Connection(sys.argv[1]); c.set_busy_timeout(5000); "
        "c.execute('UPDATE sessions SET header = ?, crc = ? WHERE sid = ?', "
        "(bytes.fromhex(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))"
    )
    row = database.writer.execute(
        "SELECT older.header, older.crc, older.sid FROM older JOIN sessions USING (sid) WHERE session_id = ?",
        (session.session_id,),
    ).fetchone()
    assert row is not None
    header, crc, sid = row
    assert isinstance(header, bytes)
    words = [sys.executable, "-c", code, str(tmp_path / "s.db"), header.hex(), str(crc), str(sid)]
    subprocess.run(words, check=True, timeout=60)
    with pytest.raises(DamagedSession, match="had acknowledged this event"):
        say(session, "refused")
    assert say(other, "y") == 3


def test_an_unsaved_log_leaves_the_outcome_unknown(
    store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ConversationSession(store=store)
    say(session, "a")
    check = FileGuard.check_log

    def check_then_replace(self: FileGuard, writer: object) -> None:
        check(self, writer)  # pyright: ignore[reportArgumentType]
        shutil.copy(tmp_path / "s.db-wal", tmp_path / "older")
        (tmp_path / "older").replace(tmp_path / "s.db-wal")

    monkeypatch.setattr(FileGuard, "check_log", check_then_replace)
    with pytest.raises(OutcomeUnknown, match="not known whether this was stored"):
        say(session, "b")
