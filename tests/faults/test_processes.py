"""Many processes on one store, forks, files that are pulled away: nothing is lost, nothing goes wrong quietly."""

import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from outlast.core import events as e
from outlast.core.errors import StoreUnavailable
from outlast.store import open_store, process_identity
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, NewEvent, PutChunk, PutRoute, PutSnapshot, Query, Release
from outlast.store.sqlite import SqliteStore, setup
from tests.conftest import ROOT
from tests.faults.actor import Other
from tests.faults.forking import Facts
from tests.faults.kernel import TABLE, locks_of
from tests.faults.stores import ALL, LOCAL, url_in
from tests.faults.witness import Try, new_id, writes_of

PROCESSES = 4
APPENDS = 60


@pytest.mark.parametrize("kind", ALL)
def test_four_processes_write_to_one_store_without_an_error_a_gap_or_a_loss(
    kind: str, place: str, memory: Path
) -> None:
    url, shared = url_in(kind, place, memory), new_id()
    others = [Other(url) for _ in range(PROCESSES)]
    try:
        for other in others:  # all at once on a store that does not exist yet
            other.begin("open")
        assert [other.said().error for other in others] == [None] * PROCESSES
        others[0].get("create", session_id=shared)
        for number, other in enumerate(others):
            other.begin("append_many", session_id=shared, mark=f"p{number}", count=APPENDS)
        told = [other.said() for other in others]
        assert [said.error for said in told] == [None] * PROCESSES
        given = sorted(seq for said in told for seq in said.value)
        assert given == list(range(3, 3 + PROCESSES * APPENDS))
        assert others[-1].get("seqs", session_id=shared) == list(range(1, 3 + PROCESSES * APPENDS))
    finally:
        for other in others:
            other.__exit__(None, None, None)


@pytest.mark.parametrize("kind", ALL)
def test_after_a_fork_the_child_opens_its_own_and_the_parent_goes_on(kind: str, place: str, memory: Path) -> None:
    words = [sys.executable, "-m", "tests.faults.forking", kind, place, str(memory)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    facts = msgspec.json.decode(done.stdout, type=Facts)
    assert facts.read_in_child.startswith("StoreUnavailable: this store was opened before a fork")
    assert facts.commit_in_child.startswith("StoreUnavailable: this store was opened before a fork")
    assert facts.child_ended == 0
    assert facts.opened_again_in_child == "done"
    assert facts.parent_seq == 4  # after the child's
    assert facts.locks_kept
    assert facts.gate_is_free


def public_operations(store: SqliteStore, session_id: str, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    lease = store.commit(Claim(session_id=session_id, token="t", holder=process_identity.holder()))[0].lease
    assert lease is not None
    event = NewEvent(event=e.SessionRenamed(title="t"))
    yield "append", lambda: store.commit(Append(session_id=session_id, events=(event,), key="k"))
    yield "append again", lambda: store.commit(Append(session_id=session_id, events=(event,), key="k"))
    [asked] = store.commit(Append(session_id=session_id, events=(NewEvent(event=e.ModelRequested(model="m")),)))
    yield "chunk", lambda: store.commit(PutChunk(lease=lease, attempt_seq=asked.seq, n=1, part="text", data=b"x"))
    yield "release", lambda: store.commit(Release(lease=lease))
    yield "route", lambda: store.commit(PutRoute(route="r", session_id=session_id))
    yield "snapshot", lambda: store.commit(PutSnapshot(session_id=session_id, seq=1, fold_version=1, state=b"{}"))
    yield "head", lambda: store.head(session_id)
    yield "holder", lambda: store.holder(session_id)
    yield "read", lambda: store.read(session_id)
    yield "read backwards", lambda: store.read(session_id, newest_first=True, limit=1)
    yield "find", lambda: store.find(Query())
    yield "resolve", lambda: store.resolve(session_id[:8])
    yield "tip", lambda: store.tip(session_id)
    yield "read route", lambda: store.route("r")
    yield "read snapshot", lambda: store.snapshot(session_id)
    yield "follow", lambda: list(store.follow(session_id, timeout=0.05))
    yield "backup", lambda: store.backup(folder / "copy.db")
    yield "a second store", lambda: open_store(store.url).close()
    yield "an error", lambda: refused_folder(folder)


def refused_folder(folder: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is a directory"):
        SqliteStore(folder)


@pytest.mark.skipif(not TABLE.exists(), reason="needs the kernel's table of locks")
def test_no_operation_drops_the_locks_of_the_database(memory: Path) -> None:
    path, session_id = memory / "store" / "log.db", new_id()
    with SqliteStore(path, f"sqlite:///{path}") as store:
        store.commit(*writes_of(Try(mark="a", kind="create", session_id=session_id)))
        inodes = {str(os.stat(f"{path}{end}").st_ino) for end in ("", "-shm")}

        def ours() -> list[tuple[str, ...]]:
            return [lock for lock in locks_of(os.getpid()) if lock[1].split(":")[-1] in inodes]

        before = ours()
        assert len(before) == 2
        for name, operation in public_operations(store, session_id, memory):
            operation()
            assert ours() == before, name
        os.close(os.open(path, os.O_RDONLY))  # what a careless probe would do, to show that this test can see it
        assert ours() != before


def path_of(store: LogStore) -> Path:
    path = getattr(store, "path", None)
    assert isinstance(path, Path)
    return path


@pytest.mark.parametrize("replaced", [False, True], ids=["moved", "replaced"])
@pytest.mark.parametrize("kind", LOCAL)
def test_a_store_that_was_moved_or_replaced_is_not_written_to(
    kind: str, place: str, memory: Path, replaced: bool
) -> None:
    session_id = new_id()
    with open_store(url_in(kind, place, memory)) as store:
        store.commit(*writes_of(Try(mark="a", kind="create", session_id=session_id)))
        path = path_of(store)
        aside = path.with_name("aside")
        path.rename(aside)
        if replaced:
            shutil.copytree(aside, path) if aside.is_dir() else shutil.copy(aside, path)
        with pytest.raises(StoreUnavailable, match="moved, deleted or replaced"):
            store.commit(*writes_of(Try(mark="b", kind="append", session_id=session_id)))
        if replaced:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        aside.rename(path)
        assert store.commit(*writes_of(Try(mark="c", kind="append", session_id=session_id)))[0].seq == 3
    with open_store(url_in(kind, place, memory)) as store:
        assert len(store.read(session_id)) == 3


@pytest.mark.parametrize("kind", LOCAL)
def test_a_follower_sees_another_process_commit_within_50_ms(kind: str, place: str, memory: Path) -> None:
    url, session_id = url_in(kind, place, memory), new_id()
    seen: list[float] = []
    with open_store(url) as store, Other(url) as other:
        other.get("create", session_id=session_id)

        def follow() -> None:
            for batch in store.follow(session_id, after=2, timeout=10):
                seen.extend([time.monotonic()] * len(batch.events))
                if len(seen) >= 20:
                    return

        follower = threading.Thread(target=follow)
        follower.start()
        written: list[float] = []
        for number in range(20):
            written.append(other.get("append_and_tell_when", session_id=session_id, mark=f"m{number}"))
            time.sleep(0.005)
        follower.join(20)
    assert len(seen) == 20
    delays = [at - then for at, then in zip(seen, written, strict=True)]
    assert statistics.median(delays) <= 0.05, delays


def test_a_sqlite_that_can_corrupt_is_refused() -> None:
    setup.check_version("3.51.3")
    with pytest.raises(StoreUnavailable, match=r"SQLite 3\.51\.2 can corrupt.*pip install -U apsw"):
        setup.check_version("3.51.2")


@pytest.mark.skipif(sys.platform != "linux", reason="the mount table is Linux's")
@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "fuse.sshfs"])
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    root = "22 1 8:1 / / rw - ext4 /dev/sda1 rw"
    over = f"40 22 0:35 / {tmp_path} rw - {kind} server:/x rw"
    setup.check_file_system(tmp_path / "a" / "log.db", root)
    with pytest.raises(StoreUnavailable, match=f"network file system .{kind}"):
        setup.check_file_system(tmp_path / "a" / "log.db", f"{root}\n{over}")
    setup.check_file_system(tmp_path / "a" / "log.db", f"{root}\n{over}\n41 40 8:2 / {tmp_path}/a rw - ext4 /dev/b rw")


@pytest.mark.parametrize("kind", LOCAL)
def test_everything_is_private_whatever_the_umask(kind: str, place: str, memory: Path) -> None:
    before = os.umask(0)
    try:
        deep = memory / "one" / "two"
        with open_store(url_in(kind, place, deep)) as store:
            session_id = new_id()
            for number in range(30):
                mark, what = f"m{number}", "append" if number else "create"
                store.commit(*writes_of(Try(mark=mark, kind=what, session_id=session_id, size=6_000)))
            store.read(session_id)
            modes = {path: path.stat().st_mode & 0o777 for path in memory.rglob("*")}
    finally:
        os.umask(before)
    assert len(modes) > 4
    open_to_others = {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077}
    assert open_to_others == {}
