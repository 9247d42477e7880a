"""A header is small, and every store can hold it."""

import msgspec
import pytest
from hypothesis import given

from holdfast.core import events as e
from holdfast.core.header import Header, apply, delta_of
from holdfast.core.messages import Role, TextPart
from tests.histories import admitted, appended, replied
from tests.strategies import any_text, events

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def after(*happened: e.Event | e.Opaque, turn: str | None = None) -> Header:
    header = Header(session_id="a" * 26)
    for seq, event in enumerate(happened, 1):
        apply(header, delta_of(event, turn), seq=seq, at=100 + seq, now=1000, touch=True)
    return header


@given(any_text(), any_text())
def test_any_text_makes_a_header_that_is_valid_unicode_without_nul(one: str, two: str) -> None:
    header = after(e.SessionCreated(title=one, model=two, persona=one), admitted(two), e.SessionRenamed(title=two))
    data = msgspec.json.encode(header)
    assert b"\\u0000" not in data
    assert len(data) < 8192


@given(events())
def test_any_event_leaves_a_header_that_can_be_stored(event: e.Event) -> None:
    if not isinstance(event, e.SessionRotated):  # an id, which the store checks
        assert msgspec.json.decode(msgspec.json.encode(after(event)), type=Header) == after(event)


def test_the_title_is_the_first_users_message_on_one_line_until_somebody_gives_one() -> None:
    said = (appended(Role.ASSISTANT, "hi"), admitted(" \n"), admitted("first\nline " + "x" * 80), admitted("second"))
    assert after(*said).title == ("first line " + "x" * 80)[:50]
    assert after(*said, e.SessionRenamed(title="Mine"), admitted("third")).title == "Mine"


def test_what_waits_is_counted_and_shown_until_it_is_answered() -> None:
    waiting = after(admitted("one"), admitted("two"))
    assert (waiting.pending_count, waiting.pending_text, waiting.pending_at) == (2, "two", 102)
    answered = after(admitted("one"), admitted("two"), e.TurnEnded(outcome="completed", answered=[1, 2]))
    assert (answered.pending_count, answered.pending_text, answered.pending_at) == (0, None, None)


def test_a_turn_is_named_while_it_runs() -> None:
    assert after(e.TurnStarted(), turn="t1").turn == "t1"
    assert after(e.TurnStarted(), e.TurnEnded(outcome="completed"), turn="t1").turn is None


def test_activity_moves_forward_even_when_the_clock_does_not() -> None:
    header = after(admitted("one"), admitted("two"))
    assert header.updated_at == 1001
    apply(header, delta_of(e.SessionArchived()), seq=3, at=1, now=5000, touch=False)
    assert (header.updated_at, header.state) == (1001, "archived")


def test_messages_and_tokens_are_summed() -> None:
    header = after(admitted("one"), replied(TextPart("1")), e.Opaque("New", 1, "unknown kind"))
    assert (header.message_count, header.input_tokens, header.output_tokens) == (2, 10, 5)
