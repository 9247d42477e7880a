"""One line an event; segments that are sealed at a size; a live one that may be missing."""

import json
import os
import re
from pathlib import Path

import pytest

from outlast.core.event_row import GENESIS
from outlast.core.messages import Message, Role
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.files import FilesStore
from outlast.store.lineage import fork
from outlast.store.port import Query
from tests.integration.files.builders import append, begin, live, new_id, texts, without_cache


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def sealed(folder: Path, session_id: str) -> list[Path]:
    found = [path for path in folder.iterdir() if re.fullmatch(rf"{session_id}\.\d+\.jsonl", path.name)]
    return sorted(found, key=lambda path: int(path.name.split(".")[1]))


def test_a_session_is_one_file_with_one_line_an_event_that_grep_finds(tmp_path: Path) -> None:
    with FilesStore(tmp_path / "s") as store:
        session_id = begin(store, "a needle in the log", "größer")
        head, *events = lines(store.storage_path(session_id))
        stored = store.read(session_id)
    assert (head["session"], head["base_seq"], head["prev"]) == (session_id, 0, GENESIS.hex())
    assert [line["seq"] for line in events] == [1, 2, 3]
    assert b"a needle in the log" in live(tmp_path / "s", session_id).read_bytes()
    assert "größer".encode() in live(tmp_path / "s", session_id).read_bytes()
    for line, row in zip(events, stored, strict=True):
        named = ("session", "seq", "kind", "v", "at", "actor", "turn", "key", "epoch", "enc")
        assert tuple(line[name] for name in named) == tuple(row[:10])
        assert line["hash"] == row.hash.hex()
        assert line["body"] == json.loads(row.body)


def test_everything_is_private_to_its_owner(tmp_path: Path) -> None:
    with FilesStore(tmp_path / "s") as store:
        begin(store, "secret", "x" * 100_000)
    for path in [tmp_path / "s", *(tmp_path / "s").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_live_segment_past_its_size_is_sealed_and_the_log_reads_on(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with FilesStore(folder, rotate_after_bytes=2_000) as store:
        session_id = begin(store, *(f"{n} " * 40 for n in range(60)))
        rows = store.read(session_id)
        parts = [*sealed(folder, session_id), live(folder, session_id)]
        assert len(parts) > 10
        assert [row.seq for row in rows] == list(range(1, 62))
        previous, seq = GENESIS.hex(), 0
        for number, path in enumerate(parts, 1):
            head, *events = lines(path)
            assert (head["segment"], head["base_seq"], head["prev"]) == (number, seq, previous)
            seq, previous = events[-1]["seq"], events[-1]["hash"]
        assert [row.seq for row in store.read(session_id, newest_first=True, limit=5)] == [61, 60, 59, 58, 57]
        for after in range(0, 61, 7):
            assert [row.seq for row in store.read(session_id, after=after, limit=3)] == [
                seq for seq in range(after + 1, after + 4) if seq <= 61
            ]
    without_cache(folder)
    with FilesStore(folder) as store:
        assert store.read(session_id) == rows
        assert store.head(session_id).message_count == 60


def test_sealed_without_live_is_a_state_like_any_other(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with FilesStore(folder, rotate_after_bytes=1) as store:
        session_id = begin(store, "one", "two")
        before = store.head(session_id)
    count = len(sealed(folder, session_id))
    live(folder, session_id).rename(folder / f"{session_id}.{count + 1}.jsonl")  # a crash between seal and create
    for keep_cache in (True, False):
        if not keep_cache:
            without_cache(folder)
        with FilesStore(folder) as store:
            assert store.head(session_id) == before
            assert texts(store, session_id) == ["one", "two"]
            assert store.find(Query()).headers == [before]
    with FilesStore(folder) as store:
        assert append(store, session_id, "three") == 4
        assert live(folder, session_id).exists()
        assert texts(store, session_id) == ["one", "two", "three"]


def test_a_url_may_say_when_to_seal(tmp_path: Path) -> None:
    with open_store(f"files:///{tmp_path}/s?rotate_after_bytes=300") as store:
        assert isinstance(store, FilesStore)
        session_id = begin(store, "a" * 300, "b")
        assert store.path == tmp_path / "s"
    assert sealed(tmp_path / "s", session_id)


def test_seed_000_a_small_cap_rotates_the_file(tmp_path: Path) -> None:
    with FilesStore(tmp_path / "s") as store:
        session = ConversationSession(project_root=tmp_path, store=store, rotate_after_bytes=250)
        for index in range(6):
            session.append(Message(role=Role.USER, content=f"Message {index}: " + "x" * 120))
        path = store.storage_path(session.session_id)
        assert path.exists()
        assert path.with_suffix(".1.jsonl").exists()


def test_a_fork_of_a_session_with_many_segments_reads_all_of_it(tmp_path: Path) -> None:
    with FilesStore(tmp_path / "s", rotate_after_bytes=500) as store:
        parent = begin(store, *map(str, range(20)))
        child = new_id()
        store.commit(fork(store.head(parent), child, at=10, messages=9))
        append(store, child, "more")
        assert texts(store, child) == [*map(str, range(9)), "more"]


def test_events_are_found_in_a_large_segment_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    with FilesStore(folder) as store:
        session_id = begin(store)
        for n in range(40):
            append(store, session_id, *(f"{n}:{k} " + "x" * 500 for k in range(100)))
    size = live(folder, session_id).stat().st_size
    with FilesStore(folder) as store:
        read, pread = 0, os.pread

        def counted(fd: int, count: int, at: int) -> bytes:
            nonlocal read
            data = pread(fd, count, at)
            read += len(data)
            return data

        monkeypatch.setattr(os, "pread", counted)
        for after in (3990, 2000, 17):
            read = 0
            assert [row.seq for row in store.read(session_id, after=after, limit=10)] == list(
                range(after + 1, after + 11)
            )
            assert read < size / 4
        read = 0
        assert len(store.read(session_id, newest_first=True, limit=50)) == 50
        assert read < size / 8
