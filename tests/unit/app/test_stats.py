"""Statistics come from the logs, and a cost that nobody knows stays unknown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from outlast.app.sessions.statistics import cache_file, forget, stats, stats_of
from outlast.core.events import AssistantReplied, Event, TurnEnded, TurnStarted
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


def test_no_store_has_no_statistics() -> None:
    assert stats(None).total.sessions == 0


def test_sessions_that_there_is_no_time_for_are_counted_by_the_next_call(
    store: LogStore, url: str, tmp_path: Path
) -> None:
    for _ in range(3):
        turn(ConversationSession(store=store), "a:b", 10, 1)
    place = tmp_path / "cache"
    hasty = stats_of(store, place, seconds=-1.0)
    assert (hasty.uncounted, hasty.total.sessions) == (3, 0)
    whole = stats_of(store, place, seconds=60.0)
    assert (whole.uncounted, whole.total.input_tokens) == (0, 30)
    again = stats_of(store, place, seconds=-1.0)  # what the cache holds takes no time
    assert (again.uncounted, again.total.input_tokens) == (0, 30)
    turn(ConversationSession(store=store), "a:b", 5, 1)
    later = stats_of(store, place, seconds=-1.0)
    assert (later.uncounted, later.total.input_tokens) == (1, 30)
