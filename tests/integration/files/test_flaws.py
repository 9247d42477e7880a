"""Verify, load and export say the same of a directory that somebody has been at; what is only odd is a note."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.core.errors import DamagedSession, OutlastError, StoreUnavailable
from outlast.store import open_store, open_to_read
from outlast.store.files import FilesStore
from outlast.store.files.directory import MOST_OPEN, sessions_open
from outlast.store.port import Claim, Query
from outlast.store.verify import Finding, VerifyReport, salvage, verify
from tests.integration.files.builders import append, begin, live, new_id, texts, without_cache
from tests.unit.store.populated import populate

NOBODY = 65534


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


def exported(store: FilesStore, session_id: str) -> tuple[list[int], list[Finding]]:
    found = list(salvage(store, session_id))
    return [one.seq for one in found if not isinstance(one, Finding)], [
        one for one in found if isinstance(one, Finding)
    ]


def told(report: VerifyReport, *, damage: bool) -> str:
    return "\n".join(finding.line() for finding in report.findings if finding.damage is damage)


# --- lines


@pytest.mark.parametrize("cached", [True, False])
def test_a_last_line_that_stands_twice_takes_nothing_away(folder: Path, cached: bool) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one", "two")
    lines = live(folder, session_id).read_bytes().splitlines(keepends=True)
    live(folder, session_id).write_bytes(b"".join([*lines, lines[-1]]))
    if not cached:
        without_cache(folder)
    with FilesStore(folder) as store:
        assert store.head(session_id).message_count == 2
        assert texts(store, session_id) == ["one", "two"]
        assert exported(store, session_id) == ([1, 2, 3], [])
        assert store.find(Query()).damaged == []
        report = verify(store)
        assert report.ok
        assert "event 3 stands in" in told(report, damage=False)
        assert append(store, session_id, "three") == 4
        assert texts(store, session_id) == ["one", "two", "three"]
        assert verify(store).ok


@pytest.mark.parametrize("cached", [True, False])
def test_an_old_line_at_the_end_is_never_taken_for_the_end(folder: Path, cached: bool) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one", "two", "three")
    lines = live(folder, session_id).read_bytes().splitlines(keepends=True)
    live(folder, session_id).write_bytes(b"".join([*lines, lines[2]]))
    if not cached:
        without_cache(folder)
    with FilesStore(folder) as store:
        with pytest.raises(DamagedSession) as caught:
            store.read(session_id)
        assert caught.value.seq == 5
        with pytest.raises(DamagedSession):
            append(store, session_id, "four")
        assert [row.seq for row in store.read(session_id, before=5)] == [1, 2, 3, 4]
        assert verify(store).damaged_events == {(session_id, 5)}
        seqs, findings = exported(store, session_id)
        assert (seqs, {finding.seq for finding in findings}) == ([1, 2, 3, 4], {5})


@pytest.mark.parametrize("cached", [True, False])
def test_something_between_two_events_is_named_and_takes_none_away(folder: Path, cached: bool) -> None:
    with FilesStore(folder) as store:
        session_id, other = begin(store, "one", "two"), begin(store, "else")
    foreign = live(folder, other).read_bytes().splitlines(keepends=True)[2]
    lines = live(folder, session_id).read_bytes().splitlines(keepends=True)
    for junk in (b"a note to myself\n", b"\n", lines[1], foreign):
        live(folder, session_id).write_bytes(b"".join([*lines[:3], junk, *lines[3:]]))
        if not cached:
            without_cache(folder)
        with FilesStore(folder) as store:
            assert texts(store, session_id) == ["one", "two"]
            assert store.head(session_id).last_seq == 3
            assert exported(store, session_id) == ([1, 2, 3], [])
            report = verify(store)
            assert report.damaged_events == set()
            assert report.damaged_sessions == [session_id]


@pytest.mark.parametrize("cached", [True, False])
def test_a_damaged_first_line_is_the_same_with_and_without_an_index(folder: Path, cached: bool) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one", "two")
    data = live(folder, session_id).read_bytes()
    live(folder, session_id).write_bytes(b"#" + data[1:])
    if not cached:
        without_cache(folder)
    with FilesStore(folder) as store:
        for action in (
            lambda: store.read(session_id),
            lambda: store.head(session_id),
            lambda: append(store, session_id),
        ):
            with pytest.raises(OutlastError):
                action()
        assert store.find(Query()).damaged == [session_id]
        assert store.resolve(session_id[:8]) == session_id
        report = verify(store)
        assert (report.damaged_sessions, report.damaged_events) == ([session_id], set())
        seqs, findings = exported(store, session_id)
        assert (seqs, [finding.seq for finding in findings]) == ([1, 2, 3], [None])


@pytest.mark.parametrize("cached", [True, False])
def test_the_first_line_of_a_later_segment_takes_no_event_away(folder: Path, cached: bool) -> None:
    with FilesStore(folder, rotate_after_bytes=1) as store:
        session_id = begin(store, "one", "two")
    data = live(folder, session_id).read_bytes()
    live(folder, session_id).write_bytes(b"#" + data[1:])
    if not cached:
        without_cache(folder)
    with FilesStore(folder) as store:
        assert texts(store, session_id) == ["one", "two"]
        assert store.head(session_id).last_seq == 3
        assert exported(store, session_id) == ([1, 2, 3], [])
        assert verify(store).damaged_events == set()
        assert "first line" in told(verify(store), damage=True)


def test_two_lines_that_run_together_are_both_saved(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one", "two", "three")
    lines = live(folder, session_id).read_bytes().splitlines(keepends=True)
    live(folder, session_id).write_bytes(b"".join([*lines[:2], lines[2][:-1], b"J", *lines[3:]]))
    with FilesStore(folder) as store:
        with pytest.raises(DamagedSession) as caught:
            store.read(session_id)
        assert caught.value.seq == 2
        assert verify(store).damaged_events == {(session_id, 2), (session_id, 3)}
        seqs, findings = exported(store, session_id)
        assert (seqs, {finding.seq for finding in findings}) == ([1, 2, 3, 4], {2, 3})


# --- whole files


def test_a_log_that_ends_before_its_index_is_damage(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id, gone = begin(store, "one", "two"), begin(store, "gone")
        store.commit(Claim(session_id=gone, token="t", holder="h"))
    lines = live(folder, session_id).read_bytes().splitlines(keepends=True)
    live(folder, session_id).write_bytes(b"".join(lines[:-1]))
    live(folder, gone).unlink()
    with FilesStore(folder) as store:
        report = verify(store)
        assert "ends at event 2, but the index knows event 3" in told(report, damage=True)
        assert f"the index knows session {gone}, and its files are gone" in told(report, damage=True)
    without_cache(folder)
    with FilesStore(folder) as store:
        report = verify(store)
        assert report.ok
        assert f"{gone}.lease is here, and no event of that session" in told(report, damage=False)


def test_foreign_files_are_a_note(folder: Path) -> None:
    with FilesStore(folder) as store:
        begin(store, "one")
        (folder / "notes.txt").write_text("mine")
        report = verify(store)
    assert report.ok
    assert told(report, damage=False) == "the store: notes.txt is not a file of this store"


def no_permission(path: Path) -> None:
    path.chmod(0o000)


def a_folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_link_instead(path: Path) -> None:
    path.rename(path.with_suffix(".aside"))
    path.symlink_to(path.with_suffix(".aside"))


@pytest.mark.parametrize("harm", [no_permission, a_folder_instead, a_link_instead])
@pytest.mark.parametrize("suffix", ["jsonl", "1.jsonl", "lease"])
def test_one_file_that_cannot_be_read_stops_nobody_else(
    folder: Path, harm: Callable[[Path], None], suffix: str
) -> None:
    with FilesStore(folder, rotate_after_bytes=1) as store:
        session_id, other = begin(store, "one", "two"), begin(store, "fine")
    path = folder / f"{session_id}.{suffix}"
    path.touch()
    for file in (*folder.rglob("*"), folder, folder.parent):
        os.chown(file, NOBODY if os.geteuid() == 0 else -1, -1)
    harm(path)
    with as_somebody_else(), FilesStore(folder) as store:
        report = verify(store)
        assert report.damaged_sessions == [session_id]
        with pytest.raises(OutlastError):
            store.read(session_id)
        page = store.find(Query())
        assert {*page.damaged, *(head.session_id for head in page.headers)} == {session_id, other}
        assert texts(store, other) == ["fine"]
        append(store, other, "still")
        assert exported(store, session_id)[1]


# --- who may not write


@pytest.mark.parametrize("locks", [True, False])
def test_a_store_that_may_not_be_written_can_be_verified_and_exported(folder: Path, locks: bool) -> None:
    with FilesStore(folder, rotate_after_bytes=1) as store:
        session_id = begin(store, "one", "two")
    if not locks:
        for lock in folder.rglob("*.lock"):
            lock.unlink()
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.parent.chmod(0o755)
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*"))
    try:
        with as_somebody_else(), open_to_read(f"files:///{folder}") as store:
            assert isinstance(store, FilesStore)
            assert verify(store).findings == []
            assert texts(store, session_id) == ["one", "two"]
            assert exported(store, session_id) == ([1, 2, 3], [])
            with pytest.raises(StoreUnavailable, match="reading only"):
                append(store, session_id, "three")
        with as_somebody_else(), pytest.raises(StoreUnavailable, match="permission"):
            open_store(f"files:///{folder}")
        assert sorted((path, path.stat().st_mtime_ns) for path in folder.rglob("*")) == before
    finally:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o700)


# --- limits of the system


def test_few_files_are_kept_open_where_few_may_be() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for limit, most in ((256, 32), (64, 8), (hard, min(MOST_OPEN, max(8, hard // 8)))):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            assert sessions_open() == most
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


MANY = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from outlast.store.files import FilesStore
from outlast.store.verify import verify
from pathlib import Path
from tests.integration.files.builders import append, begin
with FilesStore(Path(sys.argv[1]), rotate_after_bytes=1) as store:
    names = [begin(store, *"abcdef") for _ in range(60)]
    for name in names:
        append(store, name, "more")
    assert verify(store).findings == [], verify(store).findings
    print(verify(store).events)
"""


def test_256_open_files_are_enough_for_many_sessions_of_many_segments(folder: Path) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(folder)], cwd=root, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (f"{60 * 8}\n", "")


def test_a_store_without_its_name_is_told_how_to_get_it_back(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
    name = folder / "outlast-store.json"
    name.unlink()
    with pytest.raises(StoreUnavailable, match=r"holds sessions, but its outlast-store\.json is missing") as caught:
        FilesStore(folder)
    name.write_text(str(caught.value).split("or write ")[1].split(" into it")[0])
    with FilesStore(folder) as store:
        assert texts(store, session_id) == ["one"]
        assert new_id() not in store.find(Query()).damaged


@pytest.mark.parametrize("name", ["routes.json", "lease", "gone.json", "lineage.json"])
def test_a_small_file_that_lost_its_newline_is_damage_like_any_other(folder: Path, name: str) -> None:
    with FilesStore(folder) as store:
        names = populate(store)
    [path] = sorted(folder.glob(f"*{name}"))[:1]
    path.write_bytes(path.read_bytes()[:-1] + b"J")
    with FilesStore(folder) as store:
        assert not verify(store).ok
        assert len(store.find(Query()).headers) >= len(names) - 3
