"""The index is only a cache: without it, or with a wrong one, everything is as before."""

import os
from pathlib import Path

import pytest

from outlast.core import events as e
from outlast.core.events import Event
from outlast.core.header import Header
from outlast.core.messages import TextPart
from outlast.store import lineage
from outlast.store.files import FilesStore, disk
from outlast.store.port import Append, Claim, Create, Delete, Lease, NewEvent, Query, Redact, Release, Renew
from tests.integration.files.builders import append, begin, live, new_id, said, texts, without_cache

ALL = Query(limit=1000)


def lists(store: FilesStore) -> list[Header]:
    return store.find(ALL).headers


def busy(store: FilesStore) -> list[str]:
    """Sessions to which most things have happened that change a header."""
    sessions = [begin(store, "plain"), begin(store, "to be redacted", "x" * 70_000), begin(store, "parent", "two")]
    plain, redacted, parent = sessions
    store.commit(Append(session_id=plain, events=(said("quiet"),), touch=False))
    lease = store.commit(Claim(session_id=plain, token="t", holder="somebody"))[0].lease
    assert lease is not None
    _drive(store, plain, lease)
    store.commit(Redact(session_id=redacted, seq=2, actor="user"))
    store.commit(Redact(session_id=redacted, seq=3, actor="user"))
    child = new_id()
    store.commit(lineage.fork(store.head(parent), child))
    append(store, child, "in the child")
    store.commit(Redact(session_id=parent, seq=2, actor="user"))
    tip = new_id()
    waiting = store.commit(_event(parent, e.InputAdmitted(parts=(TextPart("waiting"),))))[0].seq
    store.commit(*lineage.rotate(store.head(parent), tip, token="t", holder="h", carried=[waiting]))
    gone = begin(store, "gone")
    store.commit(Delete(session_id=gone, actor="user"))
    return [*sessions, child, tip]


def _event(session_id: str, *events: Event, lease: Lease | None = None) -> Append:
    return Append(session_id=session_id, events=tuple(NewEvent(event=one, turn="t1") for one in events), lease=lease)


def _drive(store: FilesStore, session_id: str, lease: Lease) -> None:
    parts = (TextPart("please"),)
    store.commit(_event(session_id, e.InputAdmitted(parts=parts), e.InputAdmitted(parts=parts)))
    store.commit(_event(session_id, e.TurnStarted(inputs=[4]), e.ModelRequested(model="m"), lease=lease))
    store.commit(Renew(lease=lease, ttl_ms=60_000))
    store.commit(
        _event(session_id, e.AssistantReplied(attempt_seq=7, parts=parts, model="m2"), lease=lease),
        Release(lease=lease),
    )
    store.commit(_event(session_id, e.SessionRenamed(title="named"), e.SessionArchived()))
    store.commit(Claim(session_id=session_id, token="u", holder="another"))


@pytest.mark.parametrize("rotate", [200, 10**9])
def test_headers_added_up_again_are_those_that_the_commits_left(folder: Path, rotate: int) -> None:
    with FilesStore(folder, rotate_after_bytes=rotate) as store:
        sessions = busy(store)
        heads = [store.head(session_id) for session_id in sessions]
        holders = [store.holder(session_id) for session_id in sessions]
        listed = lists(store)
        assert {head.session_id for head in listed} == set(sessions)
    for cached in (True, False):
        if not cached:
            without_cache(folder)
        with FilesStore(folder) as store:
            assert [store.head(session_id) for session_id in sessions] == heads
            assert [store.holder(session_id) for session_id in sessions] == holders
            assert lists(store) == listed


@pytest.mark.parametrize("how", ["deleted", "empty", "garbled", "old", "of other sessions"])
def test_a_list_without_its_index_is_the_same(folder: Path, how: str) -> None:
    path = folder / "index" / "headers.jsonl"
    with FilesStore(folder) as store:
        sessions = [begin(store, f"session {n}") for n in range(12)]
    old = path.read_bytes()
    with FilesStore(folder) as store:
        for session_id in sessions[::2]:
            append(store, session_id, "more")
        expected = lists(store)
        full = store.find(Query(limit=5))
    lines = path.read_bytes().splitlines(keepends=True)
    match how:
        case "deleted":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "garbled":
            path.write_bytes(bytes(byte ^ 1 if at % 97 == 0 else byte for at, byte in enumerate(path.read_bytes())))
        case "old":
            path.write_bytes(old)
        case _:
            names = [line[12:38] for line in lines]
            path.write_bytes(b"".join(line.replace(line[12:38], names[-1 - at]) for at, line in enumerate(lines)))
    with FilesStore(folder) as store:
        assert lists(store) == expected
        assert store.find(Query(limit=5)) == full
        assert [texts(store, head.session_id)[0] for head in expected] == [head.title for head in expected]


def test_an_append_does_not_rewrite_the_index_and_the_next_list_agrees(folder: Path) -> None:
    path = folder / "index" / "headers.jsonl"
    with FilesStore(folder) as store:
        sessions = [begin(store, "one") for _ in range(5)]
    before = (path.stat().st_ino, path.read_bytes())
    with FilesStore(folder) as store:
        for session_id in sessions:
            append(store, session_id, "two")
            newest, *_ = lists(store)
            assert (newest.session_id, newest.message_count) == (session_id, 2)
        assert (path.stat().st_ino, path.read_bytes()) == before


@pytest.mark.parametrize("leased", [False, True], ids=["line", "lease"])
def test_a_list_in_the_middle_of_a_commit_does_not_hide_it_from_later_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch, leased: bool
) -> None:
    """The file has its bytes before they count."""
    waits, syncing = Query(pending=True), "sync_folder" if leased else "sync"
    synced = getattr(disk, syncing)
    before: list[list[Header]] = []

    def looked(*given: int) -> None:
        before.append([*lists(store), *store.find(waits).headers])
        synced(*given)

    with FilesStore(folder) as store:
        session_id = begin(store, "one")
        head = store.head(session_id)
        monkeypatch.setattr(disk, syncing, looked)
        admitted = _event(session_id, e.InputAdmitted(parts=(TextPart("waiting"),)))
        store.commit(Claim(session_id=session_id, token="t", holder="somebody") if leased else admitted)
        assert before
        assert lists(store) == [store.head(session_id)] != [head]
        assert len(store.find(waits).headers) == (0 if leased else 1)


def test_an_index_that_is_written_often_stays_small(folder: Path) -> None:
    for _ in range(6):
        with FilesStore(folder) as store:
            for _ in range(250):
                begin(store) if not lists(store) else append(store, lists(store)[0].session_id, "x")
            store._folder.note_all()
    assert (folder / "index" / "headers.jsonl").stat().st_size < 2_000_000


def test_opening_a_long_session_with_a_fresh_index_does_not_read_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FilesStore(folder) as store:
        session_id = begin(store)
        for n in range(30):
            append(store, session_id, *(f"{n} {k} " + "x" * 400 for k in range(100)), key=f"key {n}")
    size = live(folder, session_id).stat().st_size
    read, pread = 0, os.pread

    def counted(fd: int, count: int, at: int) -> bytes:
        nonlocal read
        data = pread(fd, count, at)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    with FilesStore(folder) as store:
        assert store.head(session_id).last_seq == 3001
        assert len(store.read(session_id, newest_first=True, limit=50)) == 50
        assert append(store, session_id, "keyed", key="new key") == 3002
        with_repeat = read
        assert append(store, session_id, *(f"3 {k} " + "x" * 400 for k in range(100)), key="key 3") == 401
    assert with_repeat < size / 8


def test_keys_are_found_without_their_cache(folder: Path) -> None:
    with FilesStore(folder, rotate_after_bytes=2_000) as store:
        session_id = begin(store)
        seqs = {f"key {n}": append(store, session_id, f"text {n}", key=f"key {n}") for n in range(50)}
        store.commit(
            Create(header=Header(session_id=new_id()), events=(said("elsewhere"),), key="key 1", scope=session_id + "x")
        )
    for spoil in (None, "drop", "garble", "foreign"):
        path = folder / "index" / f"{session_id}.keys"
        if spoil == "drop":
            path.unlink()
        elif spoil == "garble" and path.exists():
            path.write_bytes(path.read_bytes()[:-9] + b"123456789")
        elif spoil == "foreign":
            path.write_bytes(b"something else entirely")
        with FilesStore(folder) as store:
            for key, seq in seqs.items():
                assert append(store, session_id, f"text {key[4:]}", key=key) == seq
            assert store.head(session_id).last_seq == 51


def test_what_was_redacted_does_not_stay_in_the_index_of_another_process(folder: Path) -> None:
    """Two handles, one of which remembers what the other took away."""
    with FilesStore(folder) as store:
        parent = begin(store, "swordfish")
        child = new_id()
        store.commit(lineage.fork(store.head(parent), child))
        append(store, child, "of its own")
    with FilesStore(folder) as store:
        store.commit(Redact(session_id=parent, seq=2, actor="user"))
        assert "swordfish" not in str(lists(store))
    left = [path.name for path in folder.rglob("*") if path.is_file() and b"swordfish" in path.read_bytes()]
    assert left == []
