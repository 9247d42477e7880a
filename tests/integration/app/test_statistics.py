"""Statistics come from the logs, and a cost that nobody knows stays unknown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from outlast.app.sessions import usage_count
from outlast.app.sessions.statistics import CountedSessions, UsageTally, cache_file, forget, stats
from outlast.app.sessions.usage_count import stats_soon
from outlast.core.events import AssistantReplied, Event, TurnEnded, TurnStarted
from outlast.core.header import Header
from outlast.core.messages import TextPart, Usage
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.port import Append, NewEvent

DAY = 86_400_000_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db"


@pytest.fixture
def store(url: str) -> Iterator[LogStore]:
    with closing(open_store(url)) as opened:
        yield opened


def turn(session: ConversationSession, model: str, tokens: int, cost: int | None, at: int = 0) -> None:
    session.persist()
    usage = Usage(input_tokens=tokens, output_tokens=1, cost_micros=cost)
    events: list[Event] = [
        TurnStarted(model=model),
        AssistantReplied(attempt_seq=1, parts=(TextPart("x"),), usage=usage, model=model),
        TurnEnded(outcome="completed"),
    ]
    news = tuple(NewEvent(event=event, turn="t", at=at) for event in events)
    session.store.commit(Append(session_id=session.session_id, events=news))


def test_sums_are_per_model_project_and_day(store: LogStore, url: str, tmp_path: Path) -> None:
    session = ConversationSession(store=store, project_root=tmp_path)
    turn(session, "a:b", 10, 2_000_000, at=DAY)
    turn(session, "a:b", 5, 1_000_000, at=3 * DAY)
    turn(ConversationSession(store=store, project_root=tmp_path), "c:d", 1, None, at=3 * DAY)
    found = stats(url)
    assert (found.total.sessions, found.total.turns, found.total.input_tokens) == (2, 3, 16)
    assert found.models["a:b"].cost == 3.0
    assert found.models["c:d"].cost is None
    assert (found.total.cost, found.total.unpriced) == (3.0, 1)
    assert list(found.days) == ["1970-01-02", "1970-01-04"]
    assert found.days["1970-01-04"].sessions == 2
    assert found.projects[str(tmp_path)].turns == 3


def test_a_fork_has_spent_only_what_it_spent_itself(store: LogStore, url: str) -> None:
    session = ConversationSession(store=store)
    turn(session, "a:b", 10, 1)
    turn(session.fork(), "a:b", 5, 1)
    assert stats(url).total.input_tokens == 15


def test_the_cache_is_used_brought_forward_and_may_be_lost(store: LogStore, url: str) -> None:
    session = ConversationSession(store=store)
    turn(session, "a:b", 10, 1)
    first = stats(url)
    assert cache_file(url).exists()
    assert stats(url) == first
    turn(session, "a:b", 7, 1)
    assert stats(url).total.input_tokens == 17
    cache_file(url).write_bytes(b"garbage")
    assert stats(url).total.input_tokens == 17
    forget(url, session.session_id)
    assert session.session_id.encode() not in cache_file(url).read_bytes()


def test_a_server_answers_with_what_is_counted_and_goes_on_counting(
    store: LogStore, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tokens in (1, 2, 4):
        turn(ConversationSession(store=store), "a:b", tokens, 1)
    held, read = threading.Event(), usage_count.tally_of

    def slow_after_the_first(opened: LogStore, header: Header, known: UsageTally | None) -> UsageTally:
        if asked:
            held.wait(60)
        asked.append(header.session_id)
        return read(opened, header, known)

    asked: list[str] = []
    monkeypatch.setattr(usage_count, "tally_of", slow_after_the_first)
    place = tmp_path / "cache" / "stats"
    first = stats_soon(store, place, seconds=0.2)
    assert (first.counted, first.total.sessions) == (CountedSessions(1, 3), 1)
    held.set()
    whole = stats_soon(store, place, seconds=60)
    assert (whole.counted, whole.total.input_tokens) == (CountedSessions(3, 3), 7)
    assert whole == stats(url)
    assert len(asked) == 3
    turn(ConversationSession(store=store), "a:b", 8, 1)
    assert stats_soon(store, place, seconds=60).total.input_tokens == 15
    assert len(asked) == 4


def test_no_store_has_no_statistics() -> None:
    assert stats(None).total.sessions == 0
