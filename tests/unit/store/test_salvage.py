"""What can be got out of a SQLite file that cannot be used: truncated, without a schema, or not ours to write."""

from __future__ import annotations

import os
import random
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from outlast.core.errors import DamagedSession, OutlastError, StoreUnavailable
from outlast.core.event_row import StoredEvent
from outlast.store import open_store, open_to_read
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Query
from outlast.store.sqlite.page_salvage import PageSalvage
from outlast.store.sqlite.read_only import SqliteReader
from outlast.store.sqlite.setup import PAGE_SIZE
from outlast.store.verify import Finding, salvage, verify
from outlast.store.verify.wal import log_findings
from tests.unit.store.populated import Populated, said, talk

NOBODY = 65534


@pytest.fixture
def there(tmp_path: Path) -> Populated:
    (tmp_path / "s").mkdir(mode=0o700)
    return Populated(tmp_path / "s" / "a.db")


def saved(store: LogStore, name: str) -> list[StoredEvent]:
    try:
        return [found for found in salvage(store, name) if not isinstance(found, Finding)]
    except OutlastError:
        return []


@contextmanager
def as_somebody_else() -> Generator[None]:
    """Root may do everything, so it must be somebody else who may not."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


# --- pages


def test_every_row_is_found_in_the_pages_alone(there: Populated) -> None:
    pages = PageSalvage(there.path)
    for name, truth in there.truth.items():
        [sid] = [sid for sid, names in pages.sessions.items() if name in names]
        rows = {row.rowid & 0xFFFFFFFF: row.values for row in pages.events(sid)}
        own = [event for event in truth if event.session_id == name]
        assert [rows[event.seq][1:11] for event in own] == [event[2:12] for event in own]
    pages.close()


def test_what_is_still_in_the_log_is_found_too(there: Populated) -> None:
    with open_store(there.url) as store:
        store.commit(Append(session_id=there.names["talk"], events=(said("only in the log " * 400),)))
        assert there.path.with_name("a.db-wal").stat().st_size
        pages = PageSalvage(there.path)
        [sid] = [sid for sid, names in pages.sessions.items() if there.names["talk"] in names]
        assert store.head(there.names["talk"]).last_seq in {row.rowid & 0xFFFFFFFF for row in pages.events(sid)}
        pages.close()


def test_garbage_has_no_rows_and_does_no_harm(tmp_path: Path) -> None:
    chance = random.Random(5)
    for _ in range(40):
        data = bytearray(chance.randbytes(PAGE_SIZE * 4))
        for page in range(4):
            data[page * PAGE_SIZE] = 0x0D
        (tmp_path / "x").write_bytes(data)
        pages = PageSalvage(tmp_path / "x")
        for number in pages.numbers():
            list(pages.events(number))
        pages.close()


# --- damage


def test_of_a_truncated_file_all_that_is_there_is_saved(there: Populated) -> None:
    data = there.path.read_bytes()
    for part in (0.97, 0.9, 0.75, 0.6):
        kept = data[: int(len(data) * part)]
        there.path.write_bytes(kept)
        with pytest.raises(StoreUnavailable):
            open_store(there.url)
        with open_to_read(there.url) as store:
            report = verify(store)
            assert not report.ok
            assert any("can only be read" in finding.text for finding in report.findings)
            for name, truth in there.truth.items():
                found = saved(store, name)
                # Behind a lost event nothing can be proven: that is exported and named, whatever it is.
                strange = {(event.session_id, event.seq) for event in found if event not in truth}
                assert strange <= report.damaged_events
                reachable = [event for event in truth if event.hash in kept and event.body in kept]
                lost = {event.seq for event in reachable} - {event.seq for event in found}
                assert not lost or name not in _known(store), (part, name, lost)
                with pytest.raises(OutlastError):
                    store.commit(Append(session_id=name, events=(said("no"),)))


def test_a_file_without_any_session_left_is_not_sent_round_in_circles(there: Populated) -> None:
    there.path.write_bytes(there.path.read_bytes()[:PAGE_SIZE])
    with pytest.raises(StoreUnavailable, match="no session in it can be read; restore a backup"):
        open_to_read(there.url)


def _known(store: LogStore) -> list[str]:
    with store.inspect() as view:
        return view.everything()[0]


@pytest.mark.parametrize("table", ["events", "sessions", "keys", "migrations", "blobs"])
def test_a_lost_root_page_loses_no_event(there: Populated, table: str) -> None:
    [(root,)] = there.sql("SELECT rootpage FROM sqlite_schema WHERE name = ?", table)
    data = there.path.read_bytes()
    there.path.write_bytes(data[: (root - 1) * PAGE_SIZE] + bytes(PAGE_SIZE) + data[root * PAGE_SIZE :])
    with open_to_read(there.url) as store:
        assert not verify(store).ok
        if table != "sessions" or root in _interior(data):
            assert all(saved(store, name) == truth for name, truth in there.truth.items())


def _interior(data: bytes) -> set[int]:
    return {page + 1 for page in range(len(data) // PAGE_SIZE) if data[page * PAGE_SIZE] == 5}


def test_a_damaged_schema_loses_no_event(there: Populated) -> None:
    data = there.path.read_bytes()
    for word in (
        b"SQLite format 3",
        b"CREATE TABLE sessions",
        b"CREATE TABLE events",
        b"sid INTEGER PRIMARY KEY",
        b"Hold",
    ):
        at = data.index(word)
        for place in (at, at + len(word) - 1, at + len(word) // 2):
            for bit in (0, 3, 6):
                changed = bytearray(data)
                changed[place] ^= 1 << bit
                there.path.write_bytes(changed)
                for suffix in ("-wal", "-shm"):
                    there.path.with_name("a.db" + suffix).unlink(missing_ok=True)
                with open_to_read(there.url) as store:
                    verify(store)
                    assert all(saved(store, name) == truth for name, truth in there.truth.items()), (word, place, bit)


def test_foreign_files_are_still_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a letter " * 1000)
    connection = apsw.Connection(str(tmp_path / "b.db"))
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    for name, told in (("a.txt", "not a SQLite database"), ("b.db", "another program")):
        with pytest.raises(StoreUnavailable, match=told):
            open_to_read(f"sqlite:///{tmp_path / name}")


def test_a_list_names_what_cannot_be_read_and_shows_the_rest(there: Populated) -> None:
    name = there.names["talk"]
    data = there.path.read_bytes()
    listed = 0
    for at in [at for at in range(len(data)) if data.startswith(name.encode(), at)]:
        changed = bytearray(data)
        changed[at + 3] = 0xFF  # no UTF-8 any more
        there.path.write_bytes(changed)
        for suffix in ("-wal", "-shm"):
            there.path.with_name("a.db" + suffix).unlink(missing_ok=True)
        with open_store(there.url) as store:
            page = store.find(Query(limit=100))
            shown = {head.session_id for head in page.headers}
            assert set(there.truth) - shown <= set(page.damaged) or "?" in page.damaged
            assert store.resolve(there.names["other"][:10]) == there.names["other"]
            listed += bool(page.damaged)
    assert listed


def test_a_schema_that_gives_no_numbers_is_damage(there: Populated) -> None:
    data = there.path.read_bytes()
    there.path.write_bytes(data.replace(b"sid INTEGER PRIMARY KEY", b"sid INTEGES PRIMARY KEY"))
    with open_to_read(there.url) as store, pytest.raises(DamagedSession):
        store.read(there.names["talk"])


# --- a damaged log


def test_commits_behind_a_damaged_frame_are_a_finding(there: Populated) -> None:
    with open_store(there.url) as store:
        talk(store, 30)
        log, data = there.path.with_name("a.db-wal").read_bytes(), there.path.read_bytes()
    damaged = bytearray(log)
    damaged[32 + 5 * (PAGE_SIZE + 24) + 50] ^= 4
    there.path.write_bytes(data)
    there.path.with_name("a.db-shm").unlink(missing_ok=True)
    there.path.with_name("a.db-wal").write_bytes(log)
    assert log_findings(there.url) == []
    there.path.with_name("a.db-wal").write_bytes(damaged)
    [finding] = log_findings(there.url)
    assert finding.damage
    assert "commits lie after a damaged frame of a.db-wal" in finding.text
    assert log_findings("files:///nowhere") == []


# --- who may not write


@pytest.mark.parametrize("log", ["none", "left behind", "in use"])
def test_a_store_that_may_not_be_written_can_be_verified_and_exported(there: Populated, log: str) -> None:
    owner = open_store(there.url)
    if log != "none":
        owner.commit(Append(session_id=there.names["talk"], events=(said("in the log"),)))
        there.truth[there.names["talk"]] = owner.read(there.names["talk"])
        there.truth.pop(there.names["fork"])  # it stands on another event now only in this list
    wal = there.path.with_name("a.db-wal")
    kept = wal.read_bytes() if wal.exists() else b""
    if log != "in use":
        data = there.path.read_bytes()
        owner.close()
        there.path.write_bytes(data)
        for suffix in ("-wal", "-shm"):
            there.path.with_name("a.db" + suffix).unlink(missing_ok=True)
        if log == "left behind":
            wal.write_bytes(kept)
    folder = there.path.parent
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    for path in list(folder.parents)[:4]:
        path.chmod(path.stat().st_mode | 0o055)
    before = sorted((path.name, path.stat().st_size) for path in folder.iterdir())
    try:
        with as_somebody_else(), open_to_read(there.url) as store:
            assert isinstance(store, SqliteReader)
            assert verify(store).findings == []
            assert all(store.read(name) == truth for name, truth in there.truth.items())
            with pytest.raises(StoreUnavailable, match="reading only"):
                store.commit(Append(session_id=there.names["talk"], events=(said("no"),)))
        assert sorted((path.name, path.stat().st_size) for path in folder.iterdir()) == before
    finally:
        folder.chmod(0o700)
        owner.close()


def test_a_store_that_may_not_even_be_read_is_one_clear_sentence(there: Populated) -> None:
    there.path.chmod(0o000)
    for path in list(there.path.parents)[:5]:
        path.chmod(path.stat().st_mode | 0o055)
    with as_somebody_else(), pytest.raises(StoreUnavailable, match=r"no permission to read .*a\.db; check its owner"):
        open_to_read(there.url)
