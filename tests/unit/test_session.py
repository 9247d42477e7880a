"""`ConversationSession` as a library object, over the default adapter. The other adapters: tests/contract."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import (
    AmbiguousSession,
    ConflictError,
    ConversationSession,
    DamagedSession,
    Message,
    Role,
    SessionEnded,
    SessionNotFound,
    ToolCall,
    open_store,
)
from outlast.core.errors import InvalidInput
from outlast.core.events import Compacted, HistoryCleared, Rewound
from outlast.store.log_store import LogStore
from outlast.store.port import Append, NewEvent


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


def user(text: str) -> Message:
    return Message(role=Role.USER, content=text)


def assistant(text: str) -> Message:
    return Message(role=Role.ASSISTANT, content=text)


def contents(messages: list[Message]) -> list[str]:
    return [message.content for message in messages]


def test_append_returns_the_seq_and_history_gives_it_back(store: LogStore, tmp_path: Path) -> None:
    session = ConversationSession(project_root=tmp_path, store=store)
    first = session.append(user("hi"))
    second = session.append(assistant("hello"))
    assert second == first + 1
    assert contents(session.history()) == ["hi", "hello"]
    assert [message.seq for message in session.history()] == [first, second]
    assert session.storage_path == tmp_path / "x.db"


def test_a_new_session_is_in_the_store_only_with_its_first_write(store: LogStore) -> None:
    session = ConversationSession(store=store, messages=[user("given")])
    assert ConversationSession.load(session_id=session.session_id, store=store) is None
    assert contents(session.history()) == ["given"]
    session.persist()
    loaded = ConversationSession.load(session_id=session.session_id, store=store)
    assert loaded is not None
    assert contents(loaded.history()) == ["given"]


def test_constructor_messages_are_durable_with_the_first_append(store: LogStore) -> None:
    session = ConversationSession(store=store, messages=[user("a"), assistant("b")])
    session.append(user("c"))
    assert contents(session.history()) == ["a", "b", "c"]
    assert session.header.title == "a"


def test_the_same_key_twice_stores_one_message(store: LogStore) -> None:
    session = ConversationSession(store=store)
    first = session.append(user("once"), key="k")
    assert session.append(user("once"), key="k") == first
    with pytest.raises(ConflictError):
        session.append(user("other"), key="k")
    assert contents(session.history()) == ["once"]


def test_expect_refuses_when_the_head_moved(store: LogStore) -> None:
    session = ConversationSession(store=store)
    seq = session.append(user("a"))
    session.append(user("b"), expect=seq)
    with pytest.raises(ConflictError):
        session.append(user("c"), expect=seq)


def test_load_of_an_absent_session_is_none_and_resume_says_why(store: LogStore) -> None:
    assert ConversationSession.load(session_id="a" * 26, store=store) is None
    assert ConversationSession.load(session_id="../../etc/passwd", store=store) is None
    with pytest.raises(SessionNotFound):
        ConversationSession.resume("aaaaaa", store=store)
    with pytest.raises(SessionNotFound, match="at least 6"):
        ConversationSession.resume("aaa", store=store)


def test_resume_takes_a_prefix_and_an_ambiguous_one_lists_its_matches(store: LogStore) -> None:
    ids = ["abcdef" + "a" * 20, "abcdef" + "b" * 20]
    for name in ids:
        ConversationSession(store=store, session_id=name).append(user(name))
    assert ConversationSession.resume("abcdefa", store=store).session_id == ids[0]
    with pytest.raises(AmbiguousSession) as caught:
        ConversationSession.resume("abcdef", store=store)
    assert caught.value.matches == ids


def test_a_second_session_under_the_same_id_is_refused(store: LogStore) -> None:
    name = "abcdef" + "a" * 20
    ConversationSession(store=store, session_id=name, title="one").persist()
    with pytest.raises(ConflictError, match=r"already exists; ConversationSession\.load"):
        ConversationSession(store=store, session_id=name, title="two").append(user("x"))


def test_list_is_by_activity_and_by_project(store: LogStore, tmp_path: Path) -> None:
    one = ConversationSession(project_root=tmp_path / "one", store=store)
    two = ConversationSession(project_root=tmp_path / "two", store=store)
    one.append(user("1"))
    two.append(user("2"))
    one.append(user("3"))
    assert [header.session_id for header in ConversationSession.list(store=store)] == [one.session_id, two.session_id]
    [only] = ConversationSession.list(store=store, project_root=tmp_path / "two")
    assert only.session_id == two.session_id


def test_history_pages_backwards(store: LogStore) -> None:
    session = ConversationSession(store=store)
    session.extend([user(str(n)) for n in range(300)])
    newest = session.history(limit=50)
    assert contents(newest) == [str(n) for n in range(250, 300)]
    older = session.history(limit=200, before=newest[0].seq)
    assert contents(older) == [str(n) for n in range(50, 250)]
    assert contents(session.history(limit=None)) == [str(n) for n in range(300)]


def test_history_after_load_shows_what_came_since(store: LogStore) -> None:
    session = ConversationSession(store=store)
    texts = [f"m{number}" for number in range(150)]
    session.extend([user(text) for text in texts])
    loaded = [ConversationSession.load(session_id=session.session_id, store=store) for _ in range(3)]
    unchanged, late, large = (one for one in loaded if one is not None)
    assert contents(unchanged.history(limit=50)) == texts[-50:]
    session.append(user("later"))
    assert contents(late.history(limit=50)) == [*texts[-49:], "later"]
    assert contents(unchanged.history(limit=50)) == [*texts[-49:], "later"]
    assert contents(large.history(limit=120)) == [*texts[-119:], "later"]


def test_cleared_and_rewound_messages_are_archived_not_lost(store: LogStore) -> None:
    session = ConversationSession(store=store)
    session.append(user("old"))
    write(store, session, HistoryCleared())
    kept = session.append(user("kept"))
    session.append(user("rewound"))
    write(store, session, Rewound(to_seq=kept))
    assert contents(session.history()) == ["kept"]
    assert contents(session.history(include_archived=True)) == ["old", "kept", "rewound"]


def test_originals_behind_a_compaction_stay_in_the_history(store: LogStore) -> None:
    session = ConversationSession(store=store)
    session.append(user("a"))
    session.append(assistant("b"))
    kept = session.append(user("c"))
    write(store, session, Compacted(summary="a and b", first_kept_seq=kept, tokens_before=9, tokens_after=3))
    assert contents(session.history()) == ["a", "b", "c"]
    assert session.messages[0].content.startswith("[COMPACTED CONTEXT]")
    assert session.messages[-1].content == "c"


def write(store: LogStore, session: ConversationSession, event: HistoryCleared | Rewound | Compacted) -> None:
    store.commit(Append(session_id=session.session_id, events=(NewEvent(event=event),)))


def test_tool_calls_and_any_text_come_back_as_they_were(store: LogStore) -> None:
    session = ConversationSession(store=store)
    texts = ["\ud800 lone", "nul \0", "x" * 200_000, "\udfff" * 70_000, "שלום", "👩‍👩‍👧", '{"$b64": 1}']
    for text in texts:
        call = ToolCall(id="1", name="write", arguments={"$b64": text, text[:20]: [1.5, None, True]})
        message = Message(role=Role.ASSISTANT, content=text, tool_calls=[call])
        session.append(message)
        assert session.history(limit=1) == [message]


@pytest.mark.parametrize(
    "wrong",
    [
        {"tool_calls": [ToolCall(id="a", name="n", arguments='{"x": 1}')]},  # pyright: ignore[reportArgumentType]
        {"tool_calls": [ToolCall(id=5, name="n")]},  # pyright: ignore[reportArgumentType]
        {"tool_calls": [{"id": "a", "name": "n"}]},
        {"parts": ("hello",)},
    ],
)
def test_what_could_not_be_read_back_is_refused_and_named(store: LogStore, wrong: dict[str, Any]) -> None:
    session = ConversationSession(store=store)
    with pytest.raises(InvalidInput, match=r"parts\[|parts"):
        session.append(Message(role=Role.ASSISTANT, content="" if "parts" in wrong else "IMPORTANT", **wrong))
    assert session.history() == []


def test_a_text_where_a_message_belongs_is_refused_in_words(store: LogStore) -> None:
    session = ConversationSession(store=store)
    with pytest.raises(InvalidInput, match="takes Message objects, not str"):
        session.append("hi")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="content is text, not bytes"):
        session.append(Message(role=Role.USER, content=b"hi"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="a key is a text"):
        session.append(user("hi"), key=5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match="limit must not be negative"):
        session.history(limit=-1)


def test_a_session_with_a_damaged_header_is_listed_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with open_store(f"sqlite:///{path}") as store:
        session = ConversationSession(store=store)
        session.append(user("precious"))
        ConversationSession(store=store).append(user("fine"))
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"title":"precious"', b'"title":"worthles"'))
    with open_store(f"sqlite:///{path}") as store:
        listed = ConversationSession.list(store=store)
    assert [header.title for header in listed] == ["fine", None]
    assert (listed[1].session_id, listed[1].state) == (session.session_id, "damaged")


def test_an_ended_session_refuses_and_a_reopened_one_takes_messages(store: LogStore) -> None:
    session = ConversationSession(store=store)
    session.append(user("a"))
    session.end()
    with pytest.raises(SessionEnded, match="reopen it or fork it"):
        session.append(user("b"))
    session.reopen()
    session.append(user("b"))
    assert contents(session.history()) == ["a", "b"]


def test_a_fork_goes_on_alone(store: LogStore) -> None:
    session = ConversationSession(store=store)
    session.append(user("a"))
    at = session.append(user("b"))
    session.append(user("c"))
    forked = session.fork(at=at)
    forked.append(user("d"))
    assert contents(forked.history()) == ["a", "b", "d"]
    assert contents(session.history()) == ["a", "b", "c"]


async def test_async_appends_from_many_tasks_are_gapless(store: LogStore) -> None:
    session = ConversationSession(store=store)
    seqs = await asyncio.gather(*(session.append_async(user(str(n))) for n in range(50)))
    assert sorted(seqs) == list(range(2, 52))
    assert session.append(user("sync inside a running loop")) == 52


def test_threads_and_several_event_loops_share_one_store(store: LogStore) -> None:
    session = ConversationSession(store=store)

    def many() -> None:
        async def some() -> None:
            for n in range(10):
                await session.append_async(user(str(n)))

        asyncio.run(some())
        session.append(user("sync"))

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [message.seq for message in session.history(limit=None)] == list(range(2, 46))


def test_a_damaged_session_raises_and_is_never_none_or_empty(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with open_store(f"sqlite:///{path}") as store:
        session = ConversationSession(store=store)
        session.append(user("precious"))
        healthy = ConversationSession(store=store)
        healthy.append(user("fine"))
    data = path.read_bytes()
    assert data.count(b'"text":"precious"') == 1
    path.write_bytes(data.replace(b'"text":"precious"', b'"text":"worthles"'))
    with open_store(f"sqlite:///{path}") as store:
        with pytest.raises(DamagedSession, match="at event 2"):
            ConversationSession.load(session_id=session.session_id, store=store)
        loaded = ConversationSession.load(session_id=healthy.session_id, store=store)
        assert loaded is not None
        assert contents(loaded.history()) == ["fine"]


def test_without_a_store_the_default_one_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OUTLAST_STORE", raising=False)
    session = ConversationSession(project_root=tmp_path)
    session.append(user("hi"))
    assert session.storage_path == tmp_path / "home" / "outlast.db"
    assert ConversationSession.load(session_id=session.session_id) is not None
    session.store.close()
