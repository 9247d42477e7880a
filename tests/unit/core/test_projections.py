"""A header recounted from the log is the header that was kept commit by commit."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import events as e
from holdfast.core.header import Header, apply, counted, delta_of
from holdfast.core.messages import TextPart
from holdfast.core.projections import created_header, header_differences, header_of, usage
from tests.histories import SESSION, Log, admitted, asked, ended, histories, played, replied, whole_turn
from tests.strategies import events

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def kept(log: Log, created: Header | None = None) -> Header:
    """The header as a store keeps it: each delta applied when its event was written."""
    header = created or Header(session_id=log.session_id, root_id=log.session_id, created_at=5)
    for stored, event in log.rows:
        if stored.session_id == log.session_id:
            apply(header, delta_of(event, stored.turn), seq=stored.seq, at=stored.at, now=10**9, touch=True)
            header.head_hash = stored.hash
    return header


@given(st.lists(events(), min_size=1, max_size=15))
def test_a_recounted_header_is_the_kept_one(chaos: list[e.Event]) -> None:
    log = Log()
    log.add(*chaos)
    stored = kept(log)
    assert header_differences(stored, header_of(created_header(stored), log.rows)) == []


@settings(max_examples=200)
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


@pytest.mark.parametrize(
    ("field", "value"), [("message_count", 99), ("title", "other"), ("head_hash", b"x"), ("last_seq", 1), ("depth", 3)]
)
def test_a_header_that_is_not_what_its_log_says_is_found_out(field: str, value: object) -> None:
    log = Log()
    log.add(e.SessionCreated(title="mine"))
    whole_turn(log, "one", "1")
    recounted = header_of(created_header(kept(log)), log.rows)
    wrong = msgspec.structs.replace(kept(log), **{field: value})
    assert header_differences(wrong, recounted) == [field]


def test_what_is_not_in_the_log_is_not_compared() -> None:
    log = Log()
    log.add(e.SessionCreated())
    header = kept(log)
    elsewhere = msgspec.structs.replace(header, epoch=7, updated_at=8, deleted_at=9, deleted_by="user")
    assert header_differences(elsewhere, header) == []


def test_a_fork_counts_on_from_what_it_inherited() -> None:
    log = Log()
    whole_turn(log, "one", "1")
    child = log.fork("b" * 26, carried=[1])
    child.add(admitted("two"))
    created = Header(session_id="b" * 26, base_id=SESSION, base_seq=5, last_seq=5, message_count=2, title="one")
    recounted = header_of(created, child.rows)
    assert (recounted.message_count, recounted.pending_count, recounted.last_seq) == (3, 2, 7)
    assert recounted.title == "one"
    assert created.message_count == 2


def test_a_redacted_event_still_counts_by_what_was_kept_beside_it() -> None:
    log = Log()
    whole_turn(log, "secret", "1")
    header = kept(log)
    secret = log.rows[0][1]
    assert isinstance(secret, e.Event)
    log.add(e.EventRedacted(seq=1, body_digest="0" * 64, counted=counted(delta_of(secret))))
    header = kept(log)
    blanked = [(log.rows[0][0]._replace(redacted=True), e.Opaque("InputAdmitted", 1, "redacted")), *log.rows[1:]]
    assert header_differences(header, header_of(created_header(header), blanked), redacted=True) == []
    assert header_differences(header, header_of(created_header(header), blanked)) == ["title"]


def test_usage_is_a_copy() -> None:
    log = Log()
    asked(log)
    log.add(replied(TextPart("x")))
    ended(log)
    spent = usage(log.state)
    assert (spent.total.input_tokens, spent.replies, spent.turns) == (10, 1, 1)
    spent.total.input_tokens = 0
    assert log.state.usage.total.input_tokens == 10
