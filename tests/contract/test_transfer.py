"""Export and import: between any two stores the same rows with the same hashes, and nothing that is here changes."""

from __future__ import annotations

import tracemalloc
from contextlib import closing
from pathlib import Path

import pytest

from outlast.app.maintenance import Finding, exported, verify_store
from outlast.app.transfer.import_session import import_file
from outlast.core.errors import ConflictError, InvalidInput, OutlastError
from outlast.core.events import HistoryCleared, RuntimeStateChanged
from outlast.core.messages import Message, Role
from outlast.runtime.imported_trust import trusted_state
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.lineage import rotate
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Delete, NewEvent, Redact

LARGE = "a text that lies in a blob, " * 4000


def user(text: str) -> Message:
    return Message(role=Role.USER, content=text)


def lived(store: LogStore) -> tuple[ConversationSession, ConversationSession]:
    """A session with a blob, keys, archived messages, a redacted one and a packed one; and a fork of it."""
    session = ConversationSession(store=store)
    session.append(user("hello"), key="first")
    session.extend([user(LARGE), Message(role=Role.ASSISTANT, content="packed " * 2000)], key="two")
    store.commit(Append(session_id=session.session_id, events=(NewEvent(event=HistoryCleared()),)))
    hidden = session.append(user("hunter2"))
    store.commit(Redact(session_id=session.session_id, seq=hidden, actor="user"))
    fork = session.fork(at=4)
    fork.append(user("in the fork"))
    session.append(user("after the fork"))
    return session, fork


def lines_of(url: str, session_id: str) -> list[bytes]:
    found = list(exported(url, session_id))
    assert not [one for one in found if isinstance(one, Finding)]
    return [one for one in found if isinstance(one, bytes)]


def written(folder: Path, url: str, session_id: str) -> Path:
    path = folder / f"{session_id}.jsonl"
    path.write_bytes(b"\n".join(lines_of(url, session_id)) + b"\n")
    return path


@pytest.fixture
def origin(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/origin.db"


@pytest.mark.parametrize("fork_first", [True, False])
def test_import_gives_the_same_rows_and_hashes(store_url: str, origin: str, tmp_path: Path, fork_first: bool) -> None:
    with closing(open_store(origin)) as store:
        session, fork = lived(store)
        heads = {one.session_id: one.header.head_hash for one in (session, fork)}
    names = [fork.session_id, session.session_id]
    for name in names if fork_first else reversed(names):
        import_file(store_url, written(tmp_path, origin, name))
    for name in names:
        assert lines_of(store_url, name) == lines_of(origin, name)
    with closing(open_store(store_url)) as store:
        assert {name: store.head(name).head_hash for name in heads} == heads
        again = ConversationSession.load(session_id=session.session_id, store=store)
        assert again is not None
        assert [message.content for message in again.history()] == ["[redacted]", "after the fork"]
        assert len(again.history(include_archived=True)) == 5
        assert again.append(user("hello"), key="first") == 2
        assert again.header.imported_seq == again.header.last_seq
    report = verify_store(store_url, None)
    assert report.ok, report.findings


def test_an_export_of_every_store_can_be_imported(store_url: str, tmp_path: Path) -> None:
    with closing(open_store(store_url)) as store:
        _, fork = lived(store)
    target = f"sqlite:///{tmp_path}/target.db"
    import_file(target, written(tmp_path, store_url, fork.session_id))
    assert lines_of(target, fork.session_id) == lines_of(store_url, fork.session_id)


def test_importing_twice_is_importing_once_and_a_newer_export_goes_on(
    store_url: str, origin: str, tmp_path: Path
) -> None:
    with closing(open_store(origin)) as store:
        session, _ = lived(store)
        path = written(tmp_path, origin, session.session_id)
        assert [one.what for one in import_file(store_url, path)] == ["new"]
        assert [one.what for one in import_file(store_url, path)] == ["here"]
        session.append(user("said later"))
        newer = written(tmp_path, origin, session.session_id)
        assert [one.what for one in import_file(store_url, newer)] == ["continued"]
    with closing(open_store(store_url)) as store:
        header = store.head(session.session_id)
        assert header.imported_seq == header.last_seq
    assert verify_store(store_url, None).ok


def test_a_session_that_went_its_own_way_is_not_touched(store_url: str, origin: str, tmp_path: Path) -> None:
    with closing(open_store(origin)) as store:
        session, _ = lived(store)
        import_file(store_url, written(tmp_path, origin, session.session_id))
        session.append(user("there"))
        path = written(tmp_path, origin, session.session_id)
    with closing(open_store(store_url)) as store:
        here = ConversationSession.load(session_id=session.session_id, store=store)
        assert here is not None
        here.append(user("here"))
        before = here.header
    with pytest.raises(ConflictError, match="already exists here with different events"):
        import_file(store_url, path)
    with closing(open_store(store_url)) as store:
        assert store.head(session.session_id) == before


def test_a_deleted_session_is_not_brought_back(store_url: str, origin: str, tmp_path: Path) -> None:
    with closing(open_store(origin)) as store:
        session, _ = lived(store)
    path = written(tmp_path, origin, session.session_id)
    import_file(store_url, path)
    with closing(open_store(store_url)) as store:
        store.commit(Delete(session_id=session.session_id, actor="user"))
    with pytest.raises(ConflictError, match="was deleted from this store"):
        import_file(store_url, path)


def test_a_rotated_lineage_is_one_again(store_url: str, origin: str, tmp_path: Path) -> None:
    with closing(open_store(origin)) as store:
        parent = ConversationSession(store=store)
        parent.append(user("first"))
        child = ConversationSession(store=store).session_id
        store.commit(*rotate(parent.header, child, token="t", holder="h"))
    for name in (child, parent.session_id):
        import_file(store_url, written(tmp_path, origin, name))
    with closing(open_store(store_url)) as store:
        assert store.tip(parent.session_id) == child
    assert verify_store(store_url, None).ok


@pytest.mark.parametrize("where", [0, 5, -2])
def test_a_changed_file_is_refused_before_anything_is_written(tmp_path: Path, origin: str, where: int) -> None:
    with closing(open_store(origin)) as store:
        session, _ = lived(store)
    lines = lines_of(origin, session.session_id)
    target = f"sqlite:///{tmp_path}/target.db"
    path = tmp_path / "changed.jsonl"
    lines[where] = lines[where].replace(b'"at":', b'"at":1', 1)
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(InvalidInput, match="damaged or incomplete"):
        import_file(target, path)
    with closing(open_store(target)) as store, pytest.raises(OutlastError):
        store.head(session.session_id)


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a": 1}', b"\xff\xfe", b'{"blob": 1, "session_id": "x"}'])
def test_what_is_no_export_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="sessions export"):
        import_file(f"sqlite:///{tmp_path}/target.db", path)


def test_a_large_session_comes_in_pieces_that_add_up(
    store_url: str, origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.app.transfer.import_session.PIECE_EVENTS", 1)
    with closing(open_store(origin)) as store:
        session, fork = lived(store)
    for name in (fork.session_id, session.session_id):
        import_file(store_url, written(tmp_path, origin, name))
        assert lines_of(store_url, name) == lines_of(origin, name)
    assert verify_store(store_url, None).ok


def test_rights_in_a_file_are_none_here_nor_in_a_fork(store_url: str, origin: str, tmp_path: Path) -> None:
    with closing(open_store(origin)) as store:
        session = ConversationSession(store=store)
        session.append(user("hello"))
        session.record(RuntimeStateChanged(changes={"grants": [{"tool": "bash", "digest": "d"}], "current_task": "x"}))
    import_file(store_url, written(tmp_path, origin, session.session_id))
    with closing(open_store(store_url)) as store:
        here = ConversationSession.load(session_id=session.session_id, store=store)
        assert here is not None
        for name in (here.session_id, here.fork().session_id):
            assert trusted_state(store, name).runtime == {"current_task": "x"}
        here.record(RuntimeStateChanged(changes={"grants": ["given here"]}))
        assert trusted_state(store, here.session_id).runtime["grants"] == ["given here"]


def test_l7_a_line_longer_than_any_of_ours_is_refused_before_it_is_read_whole(tmp_path: Path, origin: str) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.truncate(400_000_000)  # a hole costs no disk
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="line 1 is longer than 96 MiB"):
            import_file(origin, path)
        assert tracemalloc.get_traced_memory()[1] < 250_000_000
    finally:
        tracemalloc.stop()
