"""Search on every store: it finds exactly what a plain scan finds, at once, and nothing that was taken away."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from outlast.app.sessions.search import IndexedEvents, Searcher, forget, rebuild, search, search_provider
from outlast.core.errors import InvalidInput
from outlast.core.header import Header
from outlast.core.messages import Message, Role, ToolCall
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.lineage import rotate
from outlast.store.log_store import LogStore
from outlast.store.port import Delete, Query, Redact
from outlast.store.search.catch_up import CatchUp, IndexProgress
from outlast.store.search.documents import MOST_QUERY, SLICE, SearchDocument, folded
from outlast.store.search.index import IndexPosition, SearchIndex
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


# --- long texts, and an index that is behind


def test_a_match_at_any_place_of_a_long_text_is_found_with_the_words_around_it(store: LogStore) -> None:
    border = SLICE
    for place in (0, border - 3, border - 1, border, 2 * border - 2, 2 * border + 500, 3 * border - 9):
        session = said(store, "x" * place + f"needle{place} yy" + "z" * (4 * border - place))
        [hit] = search(store, f"NEEDLE{place} ", wait=None).hits
        assert (hit.session_id, hit.snippet.match) == (session.session_id, f"needle{place} ")
        assert hit.snippet.before == ("…" if place > 60 else "") + "x" * min(60, place)
        assert hit.snippet.after == "yy" + "z" * 58 + "…"


def test_the_longest_query_is_found_across_slices_and_a_longer_one_is_refused(store: LogStore) -> None:
    words = "".join(chr(0x4E00 + number) for number in range(MOST_QUERY - 1)) + "ß"
    session = said(store, "ß" * (SLICE - 500) + words + "ß" * SLICE)
    assert [hit.session_id for hit in search(store, words, wait=None).hits] == [session.session_id]
    with pytest.raises(InvalidInput, match="at most 1000"):
        search(store, words + "x")


def test_a_long_argument_and_a_long_output_are_found_as_they_were_said(store: LogStore) -> None:
    session = said(store, "first")
    arguments = {"command": "y" * 70_000 + ' zebra "quoted"', "more": {"deep": "line\n" * 20_000 + "okapi\n"}}
    session.append(Message(role=Role.ASSISTANT, tool_calls=[ToolCall(id="c1", name="bash", arguments=arguments)]))
    assert [hit.snippet.match for hit in search(store, 'zebra "quoted"', wait=None).hits] == ['zebra "quoted"']
    assert [hit.snippet.match for hit in search(store, "line\\nokapi\\n", wait=None).hits] == ["line\\nokapi\\n"]


@pytest.fixture(params=["sqlite", "postgres"])
def indexed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LogStore]:
    url = f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else request.getfixturevalue("pg_url")
    with closing(open_store(url)) as opened:
        yield opened


def test_an_answer_that_did_not_wait_tells_how_far_the_index_is_and_finds_the_newest(
    indexed: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(indexed, *(f"old words {number}" for number in range(5)))
    assert search(indexed, "words", wait=None).indexed == IndexedEvents(6, 6)
    pause = threading.Event()

    def held_up(_: CatchUp) -> None:
        pause.wait(60)

    monkeypatch.setattr(CatchUp, "_told", held_up)
    session = said(indexed, *(f"new tulips {number}" for number in range(1200)))
    session.append(Message(role=Role.USER, content="what was just said"))
    try:
        began = time.monotonic()
        page = search(indexed, "just said")
        assert time.monotonic() - began < 5
        assert [hit.snippet.match for hit in page.hits] == ["just said"]
        assert (page.indexed.events < page.indexed.of, page.is_whole) == (True, False)
        assert len(search(indexed, "old words").hits) == 1
        assert len(search(indexed, "tulips 1199").hits) == 1
        assert search(indexed, "tulips 7\n").hits == []
    finally:
        pause.set()
    assert search(indexed, "tulips 0", wait=None).indexed == IndexedEvents(1208, 1208)


def test_an_index_that_is_behind_gives_out_nothing_redacted_or_deleted(
    indexed: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, other = said(indexed, "keep", "password hunter2"), said(indexed, "hunter2 elsewhere")
    assert len(search(indexed, "hunter2", wait=None).hits) == 2
    pause = threading.Event()

    def held_up(_: CatchUp) -> IndexProgress:
        return IndexProgress(0, 1, not pause.wait(60))

    monkeypatch.setattr(CatchUp, "run", held_up)
    indexed.commit(Redact(session_id=session.session_id, seq=3, actor="user"))
    indexed.commit(Delete(session_id=other.session_id, actor="user"))
    try:
        assert search(indexed, "hunter2").hits == []
        assert len(search(indexed, "keep").hits) == 1
    finally:
        pause.set()
        indexed.close()


def test_a_run_that_stops_within_a_long_text_is_continued_there(indexed: LogStore) -> None:
    session = said(indexed, "a needle in front " + "hay " * 400_000 + "a needle at the end")
    provider = search_provider(indexed)
    assert provider is not None
    seen: list[list[int]] = []
    for stop_after in (2, 3, 1000):
        with closing(provider.open()) as search_index:
            noted = Noted(search_index)
            steps = chain(repeat(True, stop_after), repeat(False))
            state = CatchUp(indexed, cast(SearchIndex, noted), partial(next_step, steps)).run()
            seen.append(noted.parts)
            assert (state.complete, state.of) == (stop_after == 1000, 2)
    parts = list(chain(*seen))
    assert parts == list(range(len(parts)))
    assert len(seen[0]) > 1
    assert [hit.snippet.match for hit in search(indexed, "needle in front").hits] == ["needle in front"]
    assert [hit.session_id for hit in search(indexed, "needle at the end").hits] == [session.session_id]


def test_two_that_index_one_session_leave_no_gap(indexed: LogStore) -> None:
    session = said(indexed, *("hay" * 100_000 for _ in range(4)), "needle")
    provider = search_provider(indexed)
    assert provider is not None
    with closing(provider.open()) as slow, closing(provider.open()) as fast:
        CatchUp(indexed, slow, partial(next_step, iter([True, False]))).run()
        header, known = indexed.head(session.session_id), slow.position(session.session_id)
        assert CatchUp(indexed, fast, lambda events, of: True).run().complete
        done = fast.position(session.session_id)
        assert not slow.put(header, IndexPosition(0, 0, b""), [], expected=known, anew=True, gone=[])
        assert not slow.put(header, IndexPosition(0, 0, b""), [], expected=None, anew=True, gone=[])
        assert fast.position(session.session_id) == done
    assert len(search(indexed, "needle").hits) == 1


def next_step(steps: Iterator[bool], events: int, of: int) -> bool:
    return next(steps)


class Noted:
    """An index that notes which slices of event 2 were put."""

    def __init__(self, inner: SearchIndex) -> None:
        self.inner = inner
        self.parts: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def put(self, header: Header, place: IndexPosition, documents: list[SearchDocument], **rest: Any) -> bool:
        self.parts += [document.part for document in documents if document.seq == 2]
        return self.inner.put(header, place, documents, **rest)
