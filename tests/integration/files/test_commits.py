"""A commit over several files happens or does not, whatever stops it."""

import asyncio
import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast.core import events as e
from outlast.core.errors import ConflictError, OutcomeUnknown, OutlastError, SessionDeleted, StoreUnavailable
from outlast.store.files import FilesStore, disk
from outlast.store.group_commit import PendingCommit
from outlast.store.port import Append, Claim, Lease, NewEvent, PutChunk, PutRoute, Query, Renew
from tests.conftest import ROOT
from tests.integration.files.builders import append, begin, said, texts
from tests.integration.files.steps import COMMITS, OPERATIONS, A, Report, prepare


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_commit_killed_at_any_operation_is_whole_or_absent_and_can_be_repeated(memory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.files.steps", str(memory)],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=280,
    )
    report = msgspec.json.decode(done.stdout, type=Report)
    assert report.problems == []
    assert set(report.operations) == set(COMMITS)
    assert min(report.operations.values()) >= 5


class Faults:
    """A disk that fails at the `at`th operation, and at all later ones if it is `for_good`."""

    def __init__(self, error: int, at: int, *, for_good: bool) -> None:
        self.count, self.failed = 0, 0
        self._error, self._at, self._for_good = error, at, for_good

    def operation(self, honest: Callable[..., Any], name: str) -> Callable[..., Any]:
        def operate(*arguments: Any) -> Any:
            self.count += 1
            if self.count == self._at or (self._for_good and self.count > self._at):
                self.failed += 1
                if name == "write":
                    honest(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise OSError(self._error, os.strerror(self._error))
            return honest(*arguments)

        return operate


@contextmanager
def failing(error: int, at: int, *, for_good: bool) -> Generator[Faults]:
    faults = Faults(error, at, for_good=for_good)
    honest = {name: getattr(disk, name) for name in OPERATIONS}
    for name, function in honest.items():
        setattr(disk, name, faults.operation(function, name))
    try:
        yield faults
    finally:
        for name, function in honest.items():
            setattr(disk, name, function)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize("rotate", [100, 10**9])
def test_an_append_on_a_failing_disk_is_refused_or_unknown_and_works_again_afterwards(
    folder: Path, error: int, for_good: bool, rotate: int
) -> None:
    with FilesStore(folder, rotate_after_bytes=rotate) as store:
        session_id = begin(store, "first")
        expected = ["first"]
        for at in range(1, 12):
            text, key = f"text {at}", f"key {at}"
            with failing(error, at, for_good=for_good) as faults:
                outcome = _outcome(lambda text=text, key=key: append(store, session_id, text, key=key))
            assert outcome in ("done", "refused", "unknown")
            if outcome == "done" and not faults.failed:
                expected.append(text)
                break
            there = texts(store, session_id)
            if outcome == "refused":
                assert there == expected
            if outcome == "done":
                assert there == [*expected, text]
            append(store, session_id, text, key=key)
            expected.append(text)
            assert texts(store, session_id) == expected
        else:
            pytest.fail("never got through")
    with FilesStore(folder) as store:
        assert texts(store, session_id) == expected


def _outcome(action: Callable[[], object]) -> str:
    try:
        action()
    except StoreUnavailable as error:
        return "refused" if "\n" not in str(error) else f"refused in more than one line: {error}"
    except OutcomeUnknown:
        return "unknown"
    return "done"


@pytest.mark.parametrize("name", sorted(COMMITS))
@pytest.mark.parametrize("for_good", [False, True])
def test_a_commit_over_several_files_on_a_failing_disk_happens_once(folder: Path, name: str, for_good: bool) -> None:
    prepare(folder / "0")
    for at in range(1, 60):
        here = folder / str(at)
        shutil.copytree(folder / "0", here)
        with FilesStore(here, rotate_after_bytes=900) as store:
            writes = COMMITS[name](store)
            before = [row.seq for row in store.read(A)]
            with failing(errno.EIO, at, for_good=for_good) as faults:
                outcome = _outcome(lambda store=store, writes=writes: store.commit(*writes))
            if outcome == "refused":
                assert [row.seq for row in store.read(A)] == before
                store.commit(*writes)
            elif outcome == "unknown":
                with suppress(SessionDeleted, ConflictError):  # it had happened, and cannot happen twice
                    store.commit(*writes)
            assert store.find(Query()).damaged == []
        if not faults.failed:
            return
    pytest.fail("never got through")


def test_a_full_disk_is_one_clear_sentence_and_loses_nothing(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "x" * 7_000)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = store.storage_path(session_id).stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 700, limits[1]))
        try:
            append(store, session_id, "short")
            with pytest.raises(StoreUnavailable, match=r"full; free some space") as caught:
                append(store, session_id, "x" * 700)
            assert "\n" not in str(caught.value)
            count = len(texts(store, session_id))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        append(store, session_id, "again")
        assert len(texts(store, session_id)) == count + 1


def test_one_session_that_cannot_be_written_does_not_stop_the_others_of_its_batch(folder: Path) -> None:
    with FilesStore(folder) as store:
        good, bad = begin(store), begin(store)
        path = store.storage_path(bad)
        path.write_bytes(path.read_bytes()[:100])

        async def together() -> list[object]:
            commits = [Append(session_id=one, events=(said(str(n)),)) for n in range(5) for one in (good, bad)]
            return await asyncio.gather(*(store.commit_async(one) for one in commits), return_exceptions=True)

        outcomes = asyncio.run(together())
        assert sum(isinstance(outcome, OutlastError) for outcome in outcomes) == 5
        assert texts(store, good) == list("01234")


def test_a_writer_that_waits_for_the_lock_names_its_holder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.store.files.directory.LOCK_SECONDS", 0.2)
    program = (
        "import sys, time\n"
        "from outlast.store.files.lock import DirectoryLock, LockOwner\n"
        "from pathlib import Path\n"
        "lock = DirectoryLock(Path(sys.argv[1]), 5.0); lock.open(); lock.enter()\n"
        "lock.sign(LockOwner.mark(99, 0))\n"
        "print('held', flush=True); time.sleep(60)\n"
    )
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(folder / "store.lock")], stdout=subprocess.PIPE, cwd=ROOT
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with FilesStore(folder) as store:
            for action in (lambda: append(store, session_id, "two"), lambda: store.read(session_id)):
                with pytest.raises(StoreUnavailable, match=f"process {holder.pid} "):
                    action()
    finally:
        holder.kill()
        holder.communicate()
    with FilesStore(folder) as store:
        assert append(store, session_id, "two") == 3


def test_a_claim_and_an_append_of_one_commit_need_one_sync(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store)
        syncs: list[int] = []
        honest = disk.sync

        def sync(fd: int) -> None:
            syncs.append(fd)
            honest(fd)

        monkeypatch.setattr(disk, "sync", sync)
        store.commit(
            Claim(session_id=session_id, token="t", holder="h"),
            Append(session_id=session_id, events=(said("driven"),), lease=Lease(session_id, 0, "t")),
        )
        assert len(syncs) == 1
        holder = store.holder(session_id)
        assert holder is not None
        assert (holder.epoch, list((folder / "txn").iterdir())) == (1, [])
    with FilesStore(folder) as store:
        assert store.head(session_id).epoch == 1


def test_a_chunk_a_renewal_and_a_message_of_one_batch_are_all_kept(folder: Path) -> None:
    """A driver streams a reply, renews its lease, and a door appends, all at the same moment."""
    with FilesStore(folder) as store:
        session_id = begin(store)
        lease = store.commit(Claim(session_id=session_id, token="t", holder="h", ttl_ms=1))[0].lease
        assert lease is not None
        asked = NewEvent(event=e.ModelRequested(model="m"))
        [receipt] = store.commit(Append(session_id=session_id, events=(asked,), lease=lease))
        writes = (
            PutChunk(lease=lease, attempt_seq=receipt.seq, n=1, part="text", data=b"half"),
            Renew(lease=lease, ttl_ms=600_000),
            Append(session_id=session_id, events=(said("meanwhile"),)),
            PutChunk(lease=lease, attempt_seq=receipt.seq, n=2, part="text", data=b" a word"),
        )
        batch = [PendingCommit(store._seal((write,))) for write in writes]
        store._run(batch)
        assert [entry.error for entry in batch] == [None] * 4
    with FilesStore(folder) as store:
        assert texts(store, session_id) == ["meanwhile"]
        holder = store.holder(session_id)
        assert holder is not None
        assert not holder.expired
        [found] = list(store.follow(session_id, timeout=0))
        assert [chunk.data for chunk in found.chunks] == [b"half", b" a word"]


def test_routes_and_sessions_survive_a_record_that_was_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process lives on after its disk failed in the middle; another one finishes what it wrote down."""
    with FilesStore(folder) as store:
        session_id, other = begin(store), begin(store)
        monkeypatch.setattr("outlast.store.files.redo_record.carry_out", _fails)
        with pytest.raises(OutcomeUnknown):
            store.commit(
                PutRoute(route="r", session_id=session_id), PutRoute(route="q", session_id=other), *_two(store)
            )
        monkeypatch.undo()
        store.close()
    with FilesStore(folder) as store:
        assert store.route("r") == session_id
        assert texts(store, session_id) == ["both"]
        assert texts(store, other) == ["both"]


def _two(store: FilesStore) -> tuple[Any, ...]:
    sessions = [head.session_id for head in store.find(Query()).headers]
    return tuple(Append(session_id=one, events=(said("both"),)) for one in sessions)


def _fails(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")
