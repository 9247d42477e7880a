"""Format 2 has one lock for the directory: stores of format 1 become so, and an older Outlast refuses them then."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from outlast.core.errors import SchemaTooNew, StoreUnavailable
from outlast.store.doctor.schema_status import schema_of
from outlast.store.files import FilesStore, setup
from outlast.store.files.line import encode
from outlast.store.files.lock import DirectoryLock
from outlast.store.verify import verify
from tests.integration.files.builders import append, begin, live, texts


class OlderRecord(msgspec.Struct):
    """A commit over several files as format 1 wrote it down."""

    redo: str
    locks: list[str]
    ops: list[dict[str, object]]


def made_older(folder: Path) -> tuple[str, str]:
    """A store as format 1 left it: two sessions with their locks."""
    with FilesStore(folder) as store:
        sessions = begin(store, "one"), begin(store, "other")
    (folder / setup.NAME).write_bytes(b'{"outlast":"files","format":1,"min_reader":1}\n')
    mark = b"%-10d %s %s\n" % (1, b"0" * 16, b"-" * 32)
    for name in (*(f"{session_id}.lock" for session_id in sessions), f"keys/{'a' * 64}.lock", "store.lock"):
        (folder / name).write_bytes(mark)
    (folder / "pulse").write_bytes(bytes(4096))
    return sessions


def test_a_store_of_format_one_is_upgraded_when_it_is_opened_for_writing(folder: Path) -> None:
    session_id, _ = made_older(folder)
    before = live(folder, session_id).read_bytes()
    assert (schema_of(f"files:///{folder}").version, schema_of(f"files:///{folder}").outstanding) == (1, ["format 2"])
    with FilesStore(folder) as store:
        assert live(folder, session_id).read_bytes() == before
        assert append(store, session_id, "two") == 3
        assert verify(store).findings == []
    assert live(folder, session_id).read_bytes().startswith(before)
    assert [path.name for path in folder.rglob("*.lock")] == ["store.lock"]
    assert not (folder / "pulse").exists()
    assert schema_of(f"files:///{folder}").outstanding == []


def test_an_older_outlast_refuses_a_store_of_format_two(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It compares `min_reader` with the only format it knows."""
    FilesStore(folder).close()
    assert msgspec.json.decode((folder / setup.NAME).read_bytes()) == {"outlast": "files", "format": 2, "min_reader": 2}
    monkeypatch.setattr(setup, "FORMAT", 1)
    for read_only in (False, True):
        with pytest.raises(SchemaTooNew, match=r"has format 2, this Outlast knows 1: upgrade Outlast"):
            FilesStore(folder, read_only=read_only)


def test_reading_a_store_of_format_one_changes_nothing(folder: Path) -> None:
    session_id, _ = made_older(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with FilesStore(folder, read_only=True) as store:
        assert texts(store, session_id) == ["one"]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_commit_that_format_one_left_unfinished_is_finished(folder: Path) -> None:
    session_id, other = made_older(folder)
    path = live(folder, other)
    text = path.read_bytes().splitlines(keepends=True)[-1]
    path.write_bytes(path.read_bytes()[: -len(text)])
    op: dict[str, object] = {"op": "add", "file": path.name, "at": path.stat().st_size, "text": text.decode()}
    redo = "b" * 32
    (folder / "txn" / f"{redo}.json").write_bytes(encode(OlderRecord(redo, ["", session_id, other], [op])))
    with FilesStore(folder) as store:
        assert texts(store, other) == ["other"]
    assert list((folder / "txn").iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="leases on files are Linux's")
def test_a_store_that_an_older_process_has_open_is_not_upgraded(folder: Path) -> None:
    session_id, _ = made_older(folder)
    program = "import sys; file = open(sys.argv[1], 'r+b'); print('open', flush=True); input()"
    words = [sys.executable, "-c", program, str(folder / "pulse")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as older:
        assert older.stdout is not None
        assert older.stdout.readline() == b"open\n"
        with pytest.raises(StoreUnavailable, match=r"open in a process of an older outlast.*end that process") as told:
            FilesStore(folder)
        assert "\n" not in str(told.value)
        assert schema_of(f"files:///{folder}").version == 1
        older.communicate(b"\n")
    with FilesStore(folder) as store:
        assert append(store, session_id, "two") == 3


def test_an_upgrade_waits_for_the_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_older(folder)
    monkeypatch.setattr(setup, "LOCK_SECONDS", 0.1)
    held = DirectoryLock(folder / "store.lock", 1.0)
    held.open()
    held.enter()
    try:
        with pytest.raises(StoreUnavailable, match="is held by process"):
            FilesStore(folder)
    finally:
        held.close()
    FilesStore(folder).close()
