"""A session's file that is removed, replaced or put back under a running process is noticed before the next receipt."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.core.errors import DamagedSession, SessionDeleted, SessionNotFound
from outlast.core.header import Header
from outlast.store.files import FilesStore
from outlast.store.port import Claim, Create, Delete, Query
from outlast.store.verify import verify
from tests.conftest import ROOT
from tests.integration.files.builders import append, begin, live, said, texts, without_cache


def by_rename(path: Path, data: bytes) -> None:
    """As a checkout or a sync does it: another file takes the name."""
    other = path.with_suffix(".new")
    other.write_bytes(data)
    other.replace(path)


def in_place(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def older_state(store: FilesStore, session_id: str) -> bytes:
    """The file after a2; a3 and a4 are acknowledged after that."""
    path = store.storage_path(session_id)
    for number in range(3):
        append(store, session_id, f"a{number}")
    data = path.read_bytes()
    for number in (3, 4):
        append(store, session_id, f"a{number}")
    return data


@pytest.mark.parametrize("put", [by_rename, in_place])
def test_no_seq_is_given_twice_when_an_older_file_takes_the_place(
    folder: Path, put: Callable[[Path, bytes], None]
) -> None:
    with FilesStore(folder) as store:
        session_id, other = begin(store), begin(store)
        path = live(folder, session_id)
        old = older_state(store, session_id)
        newest = path.read_bytes()
        put(path, old)
        for action in (
            lambda: append(store, session_id, "b"),
            lambda: store.commit(Claim(session_id=session_id, token="t", holder="h")),
        ):
            with pytest.raises(DamagedSession, match=r"had acknowledged this event .*; .*restart to go on") as caught:
                action()
            assert caught.value.seq == 6
        assert path.read_bytes() == old
        assert texts(store, session_id) == ["a0", "a1", "a2"]  # what is there stays readable
        assert append(store, other, "not concerned") == 2
        put(path, newest)
        assert append(store, session_id, "b") == 7
        assert texts(store, session_id) == ["a0", "a1", "a2", "a3", "a4", "b"]
        assert verify(store).findings == []


@pytest.mark.parametrize("put", [by_rename, in_place])
def test_an_older_file_that_another_process_has_written_on_is_noticed(
    folder: Path, put: Callable[[Path, bytes], None]
) -> None:
    program = (
        "import sys; from pathlib import Path; from outlast.store.files import FilesStore\n"
        "from tests.integration.files.builders import append\n"
        "with FilesStore(Path(sys.argv[1])) as store:\n"
        "    append(store, sys.argv[2], 'of another process ' * 40)\n"
    )
    with FilesStore(folder) as store:
        session_id = begin(store)
        put(live(folder, session_id), older_state(store, session_id))
        subprocess.run([sys.executable, "-c", program, str(folder), session_id], cwd=ROOT, check=True)
        with pytest.raises(DamagedSession) as caught:
            append(store, session_id, "b")
        assert caught.value.seq == 6
    with FilesStore(folder) as store:  # a process that was started later goes on from what is there
        assert append(store, session_id, "b") == 6


def test_a_session_that_was_closed_to_make_room_is_still_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.store.files.directory.sessions_open", lambda: 8)
    with FilesStore(folder) as store:
        session_id = begin(store)
        old = older_state(store, session_id)
        for _ in range(12):
            begin(store, "one more")
        by_rename(live(folder, session_id), old)
        with pytest.raises(DamagedSession, match="acknowledged"):
            append(store, session_id, "b")


def test_an_equal_copy_in_its_place_is_written_on(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
        by_rename(live(folder, session_id), live(folder, session_id).read_bytes())
        assert append(store, session_id, "two") == 3
        assert texts(store, session_id) == ["one", "two"]


def test_a_file_without_its_newest_segment_is_noticed(folder: Path) -> None:
    with FilesStore(folder, rotate_after_bytes=600) as store:
        session_id = begin(store, *"abcdef")
        assert len(list(folder.glob(f"{session_id}.*.jsonl"))) > 1
        live(folder, session_id).unlink()
        with pytest.raises(DamagedSession, match="acknowledged"):
            append(store, session_id, "b")


@pytest.mark.parametrize("shown", [False, True], ids=["written", "read"])
def test_a_removed_file_is_damage_and_not_a_missing_session(folder: Path, shown: bool) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
    if not shown:
        without_cache(folder)
    with FilesStore(folder) as store:
        assert texts(store, session_id) == ["one"]
        if not shown:
            append(store, session_id, "two")
        create = Create(header=Header(session_id=session_id), events=(said("x"),))
        aside = folder.parent / "aside"
        live(folder, session_id).rename(aside)
        for action in (
            lambda: append(store, session_id, "three"),
            lambda: store.read(session_id),
            lambda: store.head(session_id),
            lambda: store.commit(create),
        ):
            with pytest.raises(DamagedSession, match=r"the session's file is gone, .*; put it back from a backup"):
                action()
        assert store.find(Query()).damaged == [session_id]
        assert begin(store, "others go on")
        aside.rename(live(folder, session_id))
        append(store, session_id, "three")
        assert texts(store, session_id)[-1] == "three"


def test_after_a_restart_the_index_still_tells_that_a_file_is_gone(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
    os.unlink(live(folder, session_id))
    with FilesStore(folder) as store:
        with pytest.raises(DamagedSession, match="file is gone"):
            store.read(session_id)
        assert store.find(Query()).damaged == [session_id]
    without_cache(folder)
    with FilesStore(folder) as store, pytest.raises(SessionNotFound):
        store.read(session_id)


def test_a_deleted_session_is_not_missed(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
        store.commit(Delete(session_id=session_id, actor="user"))
        with pytest.raises(SessionDeleted):
            store.head(session_id)
        assert store.find(Query()).damaged == []
