"""What a dying writer leaves is cut off and kept aside; what was there is never cut."""

from pathlib import Path

import pytest

from outlast.core.errors import DamagedSession
from outlast.store.files import FilesStore
from outlast.store.port import Query
from outlast.store.verify import verify
from tests.integration.files.builders import append, begin, live, texts, without_cache


def torn(folder: Path, session_id: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob(f"{session_id}.torn.*"))]


def test_a_last_line_cut_at_any_byte_is_set_aside_and_the_session_goes_on(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "kept", "lost")
    whole = live(folder, session_id).read_bytes()
    before = whole[: whole[:-1].rindex(b"\n") + 1]
    for end in range(len(before) + 1, len(whole) - 1):
        live(folder, session_id).write_bytes(whole[:end])
        for path in folder.glob(f"{session_id}.torn.*"):
            path.unlink()
        with FilesStore(folder) as store:
            assert texts(store, session_id) == ["kept"], end
            assert store.head(session_id).last_seq == 2
            assert torn(folder, session_id) == []  # a reader cuts nothing
            assert append(store, session_id, "next") == 3
            assert texts(store, session_id) == ["kept", "next"]
            assert store.find(Query()).damaged == []
        assert torn(folder, session_id) == [whole[len(before) : end]]


def test_a_last_line_that_lacks_only_its_newline_is_kept_and_completed(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
        append(store, session_id, "two", "three", key="k")
    whole = live(folder, session_id).read_bytes()
    for cached in (True, False):
        live(folder, session_id).write_bytes(whole[:-1])
        if not cached:
            without_cache(folder)
        with FilesStore(folder) as store:
            assert texts(store, session_id) == ["one", "two", "three"]
            assert store.head(session_id).last_seq == 4
            assert [found.damage for found in verify(store).findings] == [False]
            assert live(folder, session_id).read_bytes() == whole[:-1]  # a reader writes nothing
            assert append(store, session_id, "two", "three", key="k") == 4
            assert live(folder, session_id).read_bytes() == whole
            assert append(store, session_id, "four") == 5
            assert texts(store, session_id) == ["one", "two", "three", "four"]
            assert verify(store).findings == []
        assert torn(folder, session_id) == []


def test_a_newline_that_another_process_added_is_no_line(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
        whole = live(folder, session_id).read_bytes()
        live(folder, session_id).write_bytes(whole[:-1])
        assert texts(store, session_id) == ["one"]
        live(folder, session_id).write_bytes(whole)
        assert append(store, session_id, "two") == 3
        assert texts(store, session_id) == ["one", "two"]
        assert verify(store).findings == []


def test_verify_notes_what_dead_writers_left(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "kept")
    with live(folder, session_id).open("ab") as file:
        file.write(b'{"seq":3,"sess')
    with FilesStore(folder) as store:
        [note] = verify(store).findings
        assert (note.damage, note.session_id, note.text[:8]) == (False, session_id, "14 bytes")
        append(store, session_id, "next")
        [note] = verify(store).findings
        assert (note.damage, f"{session_id}.torn.1 keeps 14 bytes" in note.text) == (False, True)


def test_a_commit_of_several_events_is_torn_as_a_whole(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "kept")
        size = live(folder, session_id).stat().st_size
        append(store, session_id, "one", "two", "three")
    whole = live(folder, session_id).read_bytes()
    ends = [at + 1 for at in range(size, len(whole)) if whole[at : at + 1] == b"\n"]
    assert len(ends) == 3
    for end in (*ends[:2], ends[0] - 5, ends[1] - 1, ends[1] + 7, ends[2] - 2):
        live(folder, session_id).write_bytes(whole[:end])
        with FilesStore(folder) as store:
            assert texts(store, session_id) == ["kept"]
            append(store, session_id, "next")
            assert texts(store, session_id) == ["kept", "next"]
    live(folder, session_id).write_bytes(whole)
    with FilesStore(folder) as store:
        assert texts(store, session_id) == ["kept", "one", "two", "three"]


def test_blocks_that_never_reached_the_disk_are_torn(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "kept")
        size = live(folder, session_id).stat().st_size
        append(store, session_id, "lost " * 100)
    whole = bytearray(live(folder, session_id).read_bytes())
    for start, end in ((size, len(whole)), (size, len(whole) - 40), (size + 100, size + 200)):
        data = bytearray(whole)
        data[start:end] = bytes(end - start)
        live(folder, session_id).write_bytes(data)
        with FilesStore(folder) as store:
            assert texts(store, session_id) == ["kept"]
            append(store, session_id, "next")
            assert texts(store, session_id) == ["kept", "next"]


def test_a_repeat_of_what_was_torn_is_written_once(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "kept")
        append(store, session_id, "torn", key="k")
    whole = live(folder, session_id).read_bytes()
    live(folder, session_id).write_bytes(whole[:-3])
    with FilesStore(folder) as store:
        assert append(store, session_id, "torn", key="k") == 3
        assert append(store, session_id, "torn", key="k") == 3
        assert texts(store, session_id) == ["kept", "torn"]


def test_a_changed_last_line_is_damage_and_is_not_cut(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "kept", "changed")
    whole = live(folder, session_id).read_bytes()
    for at in (len(whole) - 1, len(whole) - 2, len(whole) - 100, whole[:-1].rindex(b"\n") + 3):
        for cached in (True, False):
            data = bytearray(whole)
            data[at] ^= 0x04
            live(folder, session_id).write_bytes(data)
            if not cached:
                without_cache(folder)
            with FilesStore(folder) as store:
                with pytest.raises(DamagedSession):
                    store.read(session_id)
                with pytest.raises(DamagedSession):
                    append(store, session_id, "next")
                assert [row.seq for row in store.read(session_id, before=3)] == [1, 2]
            assert live(folder, session_id).read_bytes() == data
            assert torn(folder, session_id) == []


def test_a_torn_line_with_an_intact_one_behind_it_is_damage(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one", "two", "three")
    lines = live(folder, session_id).read_bytes().splitlines(keepends=True)
    live(folder, session_id).write_bytes(b"".join(lines[:2]) + lines[2][:60] + b"\n" + b"".join(lines[3:]))
    without_cache(folder)
    with FilesStore(folder) as store:
        with pytest.raises(DamagedSession) as caught:
            store.read(session_id)
        assert caught.value.seq == 2
        assert [row.seq for row in store.read(session_id, after=3)] == [4]
    assert torn(folder, session_id) == []


def test_a_session_without_its_first_event_is_damaged_and_not_absent(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store)
    first = live(folder, session_id).read_bytes().splitlines(keepends=True)[0]
    live(folder, session_id).write_bytes(first)
    with FilesStore(folder) as store:
        with pytest.raises(DamagedSession):
            store.head(session_id)
        assert store.find(Query()).damaged == [session_id]
