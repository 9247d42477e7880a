"""A snapshot is the state or nothing."""

import pytest

from outlast.core import events as e
from outlast.core import state
from outlast.core.messages import ToolCall
from outlast.core.state import SessionState, state_from_bytes, state_to_bytes
from tests.support.histories import Log, asked, replied


def test_a_state_with_any_text_in_it_comes_back_equal() -> None:
    log = Log()
    asked(log, "lone \ud800")
    values = {"$b64": "\udfff", "\ud800": [b"\xff", 1.5, {"$": None}]}
    log.add(replied(ToolCall(id="c", name="n", arguments=values)), e.PromptRecorded(snapshot={"t": "x" * 100_000}))
    assert state_from_bytes(state_to_bytes(log.state)) == log.state


def test_a_new_state_comes_back_equal() -> None:
    assert state_from_bytes(state_to_bytes(SessionState())) == SessionState()


def test_the_same_state_is_the_same_bytes() -> None:
    one, other = Log(), Log()
    one.add(e.RuntimeStateChanged(changes={"a": 1, "b": 2}))
    other.add(e.RuntimeStateChanged(changes={"b": 2, "a": 1}))
    assert state_to_bytes(one.state) == state_to_bytes(other.state)


def test_a_snapshot_of_another_fold_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    data = state_to_bytes(SessionState(last_seq=3))
    monkeypatch.setattr(state, "FOLD_VERSION", state.FOLD_VERSION + 1)
    assert state_from_bytes(data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"fold_version":1}',
        b'{"fold_version":1,"state":[]}',
        b'{"fold_version":1,"state":{"last_seq":"x"}}',
        b'{"fold_version":1,"state":{"title":{"$b64":3}}}',
        b"[" * 5000,
    ],
)
def test_bytes_that_are_no_state_are_ignored(data: bytes) -> None:
    assert state_from_bytes(data) is None
