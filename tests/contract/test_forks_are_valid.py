"""A fork at any event, in the middle of a turn or of a group of calls too, shows a window that every provider takes."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.core import events as e
from outlast.core.errors import InvalidInput
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import Message
from outlast.core.window import window
from outlast.session import ConversationSession
from outlast.store import open_store
from outlast.store.log_store import LogStore
from outlast.store.port import Create, NewEvent
from outlast.store.read.decode import decode_events, load_state
from outlast.testing.validity import rejections
from tests.support.histories import Log, admitted, asked, call, finished, replied, whole_turn
from tests.support.random_histories import TURNS, WILD, WildPlayer

MOVES = (*(move for move in WILD if move not in {"fork", "redact"}), *TURNS * 3)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        yield store


def stored(store: LogStore, log: Log, name: int = 0) -> ConversationSession:
    """The log as a session in the store."""
    session_id = id_from(name.to_bytes(16, "big"))
    events = tuple(
        NewEvent(event=event, actor="system", turn=row.turn) for row, event in log.rows if isinstance(event, e.Event)
    )
    store.commit(Create(header=Header(session_id=session_id), events=events))
    session = ConversationSession.load(session_id=session_id, store=store)
    assert session is not None
    return session


def asking(session: ConversationSession) -> list[Message]:
    """What would be sent from this session now."""
    state = load_state(session.store, session.session_id)
    rows = decode_events(session.store, session.store.read(session.session_id, after=state.read_from - 1))
    return window(rows, state, provider="anthropic", asking=True).messages


def test_a_fork_at_any_event_of_any_session_shows_a_good_window(store: LogStore) -> None:
    forks = 0
    for seed in range(12):
        player = WildPlayer(random.Random(seed))
        parent = stored(store, player.play(player.chance.choices(MOVES, k=40)), seed)
        for at in range(1, parent.header.last_seq + 1, 3):
            child = parent.fork(at=at)
            assert rejections(asking(child), "anthropic") == [], f"wild {seed} at {at}"
            assert rejections(asking(child.fork()), "anthropic") == [], f"wild {seed} at {at}, forked again"
            forks += 1
    assert forks > 60


def contents(session: ConversationSession) -> list[str]:
    return [message.content for message in session.messages]


def test_a_fork_between_calls_and_results_answers_the_calls(store: LogStore) -> None:
    log = Log()
    asked(log, "look")
    reply = log.add(replied(call("c1"), call("c2")))
    log.add(e.ToolCallStarted(call_id="c1", name="bash"), finished("c1", "one"), finished("c2", "two"))
    parent = stored(store, log)
    results = [message.content for message in parent.fork(at=reply).messages if message.tool_results]
    assert all(result.startswith("Not executed") for result in results)
    results = [message.content for message in parent.fork(at=reply + 1).messages if message.tool_results]
    assert results[0].startswith("Interrupted")
    assert contents(parent.fork(at=reply + 2))[2] == "one"


def test_an_input_that_nobody_has_read_is_said_in_the_fork_and_waits_for_nobody(store: LogStore) -> None:
    log = Log()
    whole_turn(log, "first", "1")
    log.add(admitted("second"))
    for at in (None, log.state.last_seq):
        child = stored(store, log, 7 if at else 8).fork(at=at)
        assert contents(child) == ["first", "1", "second"]
        assert load_state(store, child.session_id).unanswered == []
        assert child.header.pending_text is None


def test_a_fork_where_there_is_no_event_is_refused(store: LogStore) -> None:
    log = Log()
    whole_turn(log, "first", "1")
    parent = stored(store, log)
    for at in (0, -1, 99):
        with pytest.raises(InvalidInput, match=f"no event {at}"):
            parent.fork(at=at)
