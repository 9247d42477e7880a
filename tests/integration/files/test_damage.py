"""Changed bytes are reported as damage, exactly, and never read as if nothing had happened."""

import os
import random
from pathlib import Path

import pytest

from outlast.core.errors import DamagedSession, OutlastError, SchemaTooNew, StoreUnavailable
from outlast.core.event_row import StoredEvent
from outlast.store.files import FilesStore
from outlast.store.port import Claim, Query
from tests.integration.files.builders import append, begin, live, texts, without_cache


def readable(store: FilesStore, session_id: str, last: int) -> tuple[list[StoredEvent], set[int]]:
    """Each event asked for by itself: those that came, and the seqs of those that were refused."""
    found: list[StoredEvent] = []
    damaged: set[int] = set()
    for seq in range(1, last + 1):
        try:
            found += store.read(session_id, after=seq - 1, before=seq + 1)
        except DamagedSession:
            damaged.add(seq)
    return found, damaged


@pytest.mark.parametrize("cached", [True, False])
def test_every_flipped_bit_in_a_segment_is_found(folder: Path, cached: bool) -> None:
    chance = random.Random(7)
    with FilesStore(folder, rotate_after_bytes=4_000) as store:
        session_id = begin(store, *(f"message {n} " * 5 for n in range(30)))
        truth = store.read(session_id)
        other = begin(store, "untouched")
    paths = sorted(folder.glob(f"{session_id}*.jsonl"))
    for _ in range(75):
        path = chance.choice(paths)
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        if not cached:
            without_cache(folder)
        with FilesStore(folder) as store:
            with pytest.raises(DamagedSession):
                _all_of_it(store, session_id)
            try:
                found, damaged = readable(store, session_id, len(truth))
            except OutlastError as error:
                pytest.fail(str(error))
            assert all(event == truth[event.seq - 1] for event in found)
            assert len(found) + len(damaged) == len(truth)
            assert texts(store, other) == ["untouched"]
            append(store, other, "untouched")
            scanned = {event.seq for event in _scanned(store, session_id) if event == truth[event.seq - 1]}
            assert len(scanned) >= len(truth) - 2  # a newline is the end of one line and the beginning of another
        path.write_bytes(whole)
        live(folder, other).unlink()
        with FilesStore(folder) as store:
            other = begin(store, "untouched")


def _all_of_it(store: FilesStore, session_id: str) -> None:
    """A reader of the whole session, and a verifier of the small files, must not be content."""
    store.read(session_id)
    store.head(session_id)
    with store.inspect() as view:
        for trouble in (*view.checks(deep=True), *view.flaws(session_id)):
            raise DamagedSession(session_id, None, trouble.text)


def _scanned(store: FilesStore, session_id: str) -> list[StoredEvent]:
    with store.inspect() as view:
        return list(view.scan(session_id))


def test_garbage_in_the_middle_is_reported_and_other_sessions_stay_usable(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id, other = begin(store, "one", "two", "three"), begin(store, "fine")
    lines = live(folder, session_id).read_bytes().splitlines(keepends=True)
    for garbage in (b"not json\n", b"\xff\xfe\n", b"\n", b'{"seq":3}\n', lines[1]):
        live(folder, session_id).write_bytes(b"".join(lines[:3]) + garbage + b"".join(lines[4:]))
        without_cache(folder)
        with FilesStore(folder) as store:
            with pytest.raises(DamagedSession) as caught:
                store.read(session_id)
            assert caught.value.seq == 3
            with pytest.raises(DamagedSession):
                store.head(session_id)
            assert [row.seq for row in store.read(session_id, before=3)] == [1, 2]
            page = store.find(Query())
            assert page.damaged == [session_id]
            assert [head.session_id for head in page.headers] == [other]
            append(store, other, "still fine")
            assert len(_scanned(store, session_id)) >= 3


def test_a_missing_segment_is_damage(folder: Path) -> None:
    with FilesStore(folder, rotate_after_bytes=1) as store:
        session_id = begin(store, "one", "two", "three")
    (folder / f"{session_id}.2.jsonl").unlink()
    without_cache(folder)
    with FilesStore(folder) as store, pytest.raises(DamagedSession):
        store.read(session_id)


def test_a_damaged_lease_is_not_an_absent_one(folder: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
        store.commit(Claim(session_id=session_id, token="t", holder="h"))
    path = folder / f"{session_id}.lease"
    path.write_bytes(path.read_bytes().replace(b'"t"', b'"u"'))
    with FilesStore(folder) as store, pytest.raises(DamagedSession, match="lease"):
        store.holder(session_id)


def test_a_link_in_the_place_of_a_session_is_not_followed(folder: Path, memory: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
    elsewhere = memory / "elsewhere"
    live(folder, session_id).rename(elsewhere)
    live(folder, session_id).symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    with FilesStore(folder) as store:
        for action in (lambda: store.read(session_id), lambda: append(store, session_id, "two")):
            with pytest.raises(StoreUnavailable, match="link"):
                action()
    assert elsewhere.read_bytes() == before


def test_a_foreign_directory_is_refused_in_one_sentence(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.doc").write_text("mine")
    with pytest.raises(StoreUnavailable, match=r"not an Outlast store.*thesis\.doc.*choose another") as caught:
        FilesStore(folder)
    assert "\n" not in str(caught.value)
    assert os.listdir(folder) == ["thesis.doc"]


def test_a_directory_under_version_control_may_become_a_store(folder: Path) -> None:
    folder.mkdir()
    (folder / ".git").mkdir()
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
        assert store.head(session_id).last_seq == len(store.read(session_id)) > 0
    assert (folder / ".git").is_dir()


def test_a_file_where_a_directory_should_be_is_refused(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(StoreUnavailable, match="is a file"):
        FilesStore(folder)


def test_a_newer_format_is_refused_and_an_unreadable_one_too(folder: Path) -> None:
    FilesStore(folder).close()
    name = folder / "outlast-store.json"
    for text, error in (
        ('{"outlast":"files","format":9,"min_reader":9}', SchemaTooNew),
        ('{"outlast":"cellar","format":1,"min_reader":1}', StoreUnavailable),
        ("{", StoreUnavailable),
    ):
        name.write_text(text)
        with pytest.raises(error):
            FilesStore(folder)
    name.write_text('{"outlast":"files","format":9,"min_reader":1,"more":true}')
    FilesStore(folder).close()


def test_a_directory_that_was_taken_away_is_not_written_to(folder: Path, memory: Path) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store, "one")
        folder.rename(memory / "moved")
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="moved"):
                append(store, session_id, "two")
        (memory / "moved").rename(folder)
        append(store, session_id, "two")
        assert texts(store, session_id) == ["one", "two"]
