"""What a log comes to: the header that is kept beside it, and what was spent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.header import REQUESTS, Header, apply, delta_of
from outlast.core.messages import TextPart
from tests.support.histories import Log, asked, ended, histories, played, replied
from tests.support.strategies import examples

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def kept(log: Log) -> Header:
    """The header as a store keeps it: each delta applied when its event was written."""
    header = Header(session_id=log.session_id, root_id=log.session_id, created_at=5)
    for stored, event in log.rows:
        if stored.session_id == log.session_id:
            apply(header, delta_of(event, stored.turn), seq=stored.seq, at=stored.at, now=10**9, touch=True)
            header.head_hash = stored.hash
    return header


@examples(200)
@given(seed=st.integers(0, 2**32), moves=histories())
def test_the_header_and_the_state_agree_about_what_waits_and_what_runs(seed: int, moves: list[str]) -> None:
    log = played(seed, [move for move in moves if move != "redact"])
    header = kept(log)
    assert header.pending_count == len(log.state.unanswered)
    assert header.message_count == log.state.message_count
    assert header.turn == (log.state.turn.turn if log.state.turn else None)
    assert header.last_seq == log.state.last_seq
    assert header.input_tokens == log.state.usage.total.input_tokens
    assert header.state == log.state.life
    assert header.plan_mode == log.state.plan_mode


@examples(200)
@given(seed=st.integers(0, 2**32), moves=histories(), asked_for=st.lists(st.sampled_from(sorted(REQUESTS))))
def test_the_header_and_the_state_agree_about_work(seed: int, moves: list[str], asked_for: list[str]) -> None:
    log = played(seed, [move for move in moves if move != "redact"])
    for what in asked_for:
        log.add(e.BoundaryRequested(what=what))
        open_ones = log.state.turn is not None or log.state.unanswered or log.state.requests
        assert kept(log).has_work == bool(open_ones and not kept(log).has_ended)
    for what in asked_for[: len(asked_for) // 2]:
        log.add(e.RuntimeStateChanged(changes={"boundary_refused": {"what": what, "why": "no"}}))
    log.add(e.HistoryCleared())
    assert kept(log).requests == sum(REQUESTS[request.what] for request in log.state.requests)


def test_usage_counts_replies_and_turns() -> None:
    log = Log()
    asked(log)
    log.add(replied(TextPart("x")))
    ended(log)
    spent = log.state.usage
    assert (spent.total.input_tokens, spent.replies, spent.turns) == (10, 1, 1)
