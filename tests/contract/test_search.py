"""Search on every store: it finds exactly what a plain scan finds, at once, and nothing that was taken away."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from outlast.app.sessions.search import Searcher, forget, rebuild, search
from outlast.core.errors import InvalidInput
from outlast.core.messages import Message, Role, ToolCall
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.lineage import rotate
from outlast.store.log_store import LogStore
from outlast.store.port import Delete, Query, Redact
from outlast.store.search.documents import folded
from outlast.store.sqlite.search_index import shelf_path

WORDS = [
    *("def", "foo(x):", "return", "東京タワー", "北京", "カタカナ", "straße", "ΑΣΑ", "Привет", "emoji🙂"),
    *("a_b%c\\d", "'q'", '"z"', "naïve", "İstanbul", "\t", "İ"),
]


@pytest.fixture(params=["sqlite", "files", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    urls = {"sqlite": f"sqlite:///{tmp_path}/s.db", "files": f"files:///{tmp_path}/files"}
    url = urls.get(request.param) or request.getfixturevalue("pg_url")
    with closing(open_store(url)) as opened:
        yield opened


def said(store: LogStore, *texts: str, owner_id: str = "local") -> ConversationSession:
    session = ConversationSession(store=store, owner_id=owner_id)
    for text in texts:
        session.append(Message(role=Role.USER, content=text))
    return session


def plain_scan(store: LogStore, query: str) -> set[tuple[str, int]]:
    """What search must find, said once more and as plainly as can be."""
    found: set[tuple[str, int]] = set()
    for header in store.find(Query(limit=1000)).headers:
        session = ConversationSession.load(session_id=header.session_id, store=store)
        assert session is not None
        for message in session.history(limit=None, include_archived=True):
            if query.casefold() in message.content.casefold():
                found.add((header.session_id, message.seq or 0))
    return found


def test_a_thousand_random_queries_find_what_a_plain_scan_finds(store: LogStore) -> None:
    dice = random.Random(7)
    texts = [" ".join(dice.choices(WORDS, k=dice.randint(1, 9))) for _ in range(60)]
    for at in range(0, len(texts), 12):
        said(store, *texts[at : at + 12])
    whole = "\n".join(texts)
    queries = [whole[at : at + dice.randint(1, 6)] for at in (dice.randrange(len(whole)) for _ in range(500))]
    queries += ["".join(dice.choices("abcxyzé東京カ%_\"'\\🙂 ", k=dice.randint(1, 6))) for _ in range(500)]
    everything = {query: plain_scan(store, query) for query in dict.fromkeys(queries[:40])}
    sessions = {
        (name, message.seq): folded(message.content)
        for name in (header.session_id for header in store.find(Query(limit=1000)).headers)
        for message in ConversationSession.load(session_id=name, store=store).history(limit=None)  # pyright: ignore
    }
    with closing(Searcher(store)) as searcher:
        found = {query: set(searcher.matches(query)) for query in queries}
    for query in queries:
        wanted = {place for place, text in sessions.items() if folded(query) in text}
        assert everything.get(query, wanted) == wanted
        assert found[query] == wanted, repr(query)


def test_what_was_just_said_is_found_and_leads_to_its_event(store: LogStore) -> None:
    session = said(store, "nothing here")
    assert search(store, "needle").hits == []
    seq = session.append(Message(role=Role.USER, content=f"{'hay ' * 40}The NeeDle is here"))
    [hit] = search(store, "nEEdle").hits
    assert (hit.session_id, hit.seq, hit.role, hit.snippet.match) == (session.session_id, seq, "user", "NeeDle")
    assert hit.snippet.before.startswith("…")
    assert hit.title == "nothing here"


def test_calls_and_titles_are_found(store: LogStore) -> None:
    session = said(store, "first")
    call = ToolCall(id="c1", name="bash", arguments={"command": "grep -rn TODO_LATER src"})
    session.append(Message(role=Role.ASSISTANT, tool_calls=[call]))
    session.rename("Zeppelin repairs")
    assert [hit.role for hit in search(store, "todo_later").hits] == ["assistant"]
    assert [hit.role for hit in search(store, "zeppelin").hits] == ["title"]


def test_redacted_and_deleted_words_are_never_found(store: LogStore) -> None:
    session, other = said(store, "keep", "password hunter2"), said(store, "hunter2 elsewhere")
    assert len(search(store, "hunter2").hits) == 2
    store.commit(Redact(session_id=session.session_id, seq=3, actor="user"))
    store.commit(Delete(session_id=other.session_id, actor="user"))
    assert search(store, "hunter2").hits == []
    assert [hit.session_id for hit in search(store, "keep").hits] == [session.session_id]


def test_a_fork_keeps_what_its_deleted_parent_said(store: LogStore) -> None:
    parent = said(store, "shared words", "later words")
    fork = parent.fork(at=2)
    assert [hit.session_id for hit in search(store, "shared").hits] == [parent.session_id]
    store.commit(Delete(session_id=parent.session_id, actor="user"))
    assert [hit.session_id for hit in search(store, "shared").hits] == [fork.session_id]
    assert search(store, "later").hits == []


def test_a_rotated_lineage_is_one_hit_that_goes_on_at_its_tip(store: LogStore) -> None:
    parent = said(store, "an old word about whales")
    child = ConversationSession(store=store).session_id
    store.commit(*rotate(store.head(parent.session_id), child, token="t", holder="h"))
    tip = ConversationSession.load(session_id=child, store=store)
    assert tip is not None
    assert [(hit.session_id, hit.resume_id) for hit in search(store, "whales").hits] == [(parent.session_id, child)]
    tip.append(Message(role=Role.USER, content="more whales"))
    assert len(search(store, "whales").hits) == 1


def test_nobody_finds_the_sessions_of_another_owner(store: LogStore) -> None:
    said(store, "mine and secret", owner_id="ann")
    assert search(store, "secret").hits == []
    assert len(search(store, "secret", owner_id="ann").hits) == 1


def test_an_empty_query_is_refused_in_one_sentence(store: LogStore) -> None:
    with pytest.raises(InvalidInput, match="the search text is empty"):
        search(store, "")


@pytest.mark.parametrize("damage", [b"", b"not a database at all, but long enough to look at" * 100])
def test_a_damaged_index_is_made_again_and_blocks_nobody(tmp_path: Path, damage: bytes) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/s.db")) as store:
        session = said(store, "alpha")
        assert len(search(store, "alpha").hits) == 1
        search_index = shelf_path(tmp_path / "s.db")
        for ending in ("-wal", "-shm"):
            search_index.with_name(search_index.name + ending).unlink(missing_ok=True)
        search_index.write_bytes(damage)
        session.append(Message(role=Role.USER, content="beta"))
        assert len(search(store, "alpha").hits) == len(search(store, "beta").hits) == 1


def test_the_index_can_be_dropped_and_rebuilt(store: LogStore) -> None:
    said(store, "alpha", "beta")
    rebuild(store)
    with closing(Searcher(store)) as searcher:
        assert len(set(searcher.matches("a"))) == 2


def test_deleted_words_leave_the_index_file(tmp_path: Path) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/s.db")) as store:
        session = said(store, "the xylophone secret")
        said(store, "something else")
        search(store, "xylophone")
        assert b"xylophone" in b"".join(path.read_bytes() for path in tmp_path.glob("s.db.search*"))
        store.commit(Delete(session_id=session.session_id, actor="user"))
        forget(store)
    left = b"".join(path.read_bytes() for path in tmp_path.glob("s.db.search*"))
    assert b"xylophone" not in left
    assert b"something else" in left


def test_an_index_that_another_holds_is_left_alone_and_the_answer_still_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.store.sqlite.search_index.BUSY_MS", 50)
    with closing(open_store(f"sqlite:///{tmp_path}/s.db")) as store:
        said(store, "alpha")
        search(store, "alpha")
        said(store, "alpha again")
        with closing(apsw.Connection(str(shelf_path(tmp_path / "s.db")))) as other:
            other.execute("BEGIN IMMEDIATE")
            assert len(search(store, "alpha").hits) == 2
            other.execute("ROLLBACK")
        assert shelf_path(tmp_path / "s.db").stat().st_size > 0
