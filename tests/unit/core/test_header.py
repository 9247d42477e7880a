"""A header is small, and every store can hold it."""

import msgspec
import pytest
from hypothesis import given

from outlast.core import events as e
from outlast.core.header import (
    OTHER_REQUEST,
    REQUESTS,
    Delta,
    Header,
    apply,
    completed,
    counted,
    delta_of,
    delta_of_redacted,
    imported,
)
from outlast.core.messages import Role, TextPart, Usage
from tests.support.histories import admitted, appended, finished, replied
from tests.support.strategies import any_text, events

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


def test_admitted_text_is_estimated_until_a_provider_reports() -> None:
    asked = (admitted("x" * 400), admitted("y"))
    assert after(*asked).estimated_tokens == 101
    silent = e.AssistantReplied(attempt_seq=3, parts=(TextPart("1"),), usage=Usage(output_tokens=5))
    assert after(*asked, silent, e.UsageRecorded(usage=Usage(input_tokens=9))).estimated_tokens == 101
    broken_off = e.ReplyInterrupted(attempt_seq=3, usage=Usage(input_tokens=120))
    for report in (replied(TextPart("1")), broken_off):
        assert after(*asked, report).estimated_tokens == 0
        assert after(*asked, report, admitted("four")).estimated_tokens == 1


def test_plan_mode_is_what_the_runtime_said_last() -> None:
    created = e.SessionCreated(settings={"plan_mode": True})
    assert (after(created).plan_mode, after(e.SessionCreated()).plan_mode) == (True, False)
    changes = [{"workflow_mode": "plan"}, {"other": 1}, {"workflow_mode": "execute"}, {"workflow_mode": None}]
    said = [e.RuntimeStateChanged(changes=change) for change in changes]
    assert [after(*said[:n]).plan_mode for n in range(5)] == [False, True, True, False, False]
    assert not after(created, said[2]).plan_mode


def test_a_boundary_asked_for_is_open_until_it_is_drawn_or_refused() -> None:
    asked = (e.BoundaryRequested(what="clear"), e.BoundaryRequested(what="compact"), e.BoundaryRequested(what="new"))
    done = (
        e.HistoryCleared(),
        e.Compacted(summary="s", first_kept_seq=1, tokens_before=2, tokens_after=1),
        e.RuntimeStateChanged(changes={"boundary_refused": {"what": "new", "why": "unknown"}}),
    )
    assert after(*asked).requests == REQUESTS["clear"] | REQUESTS["compact"] | OTHER_REQUEST
    assert [after(*asked, *done[:n]).has_work for n in range(4)] == [True, True, True, False]
    assert after(e.BoundaryRequested(what="rewind"), *done).has_work


def test_work_is_there_from_its_first_event_to_the_last_answer() -> None:
    asked, again = admitted("one"), admitted("two")
    begun, answered = e.TurnStarted(inputs=[1]), e.TurnEnded(outcome="done", answered=[1])
    happened = (asked, again, begun, answered, e.InputWithdrawn(inputs=[2]), begun, answered)
    since = [after(*happened[:n], turn="t").work_since for n in range(8)]
    assert since == [None, 101, 101, 101, 101, None, 106, None]


def test_an_ended_session_has_no_work_until_it_is_reopened() -> None:
    asked = admitted("one")
    assert not after(asked, e.SessionClosed()).has_work
    assert not after(asked, e.SessionClosed(), e.SessionArchived()).has_work
    assert after(asked, e.SessionArchived()).work_since == 101
    assert after(asked, e.SessionClosed(), e.SessionReopened()).work_since == 103


@given(events())
def test_a_redacted_event_still_adds_what_its_header_counts(event: e.Event) -> None:
    delta = delta_of(event, "t")
    kind = type(event).__name__
    kept = delta_of_redacted(kind, "t", counted(delta))
    for name in ("messages", "pending", "input_tokens", "estimated", "reported", "plan_mode", "requested", "settled"):
        assert getattr(kept, name) == getattr(delta, name), name
    older = Delta(messages=delta.messages, input_tokens=delta.input_tokens, estimated=delta.estimated)
    assert completed(kind, older).reported == delta.reported


def test_redacting_a_request_settles_it() -> None:
    request = e.BoundaryRequested(what="clear")
    redaction = e.EventRedacted(seq=1, body_digest="0" * 64, counted=counted(delta_of(request)))
    assert not after(request, redaction).has_work


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (e.UsageRecorded(usage=Usage(input_tokens=3, output_tokens=2)), Delta(input_tokens=3, output_tokens=2)),
        (e.SessionForked(base_session_id="b", base_seq=1, carried_inputs=[1, 2]), Delta(pending=2)),
        (e.InputWithdrawn(inputs=[1, 2]), Delta(pending=-2)),
        (e.SessionRotated(to_session_id="n"), Delta(state="ended", rotated_to="n", settled=REQUESTS["rotate"])),
        (
            e.Compacted(summary="", first_kept_seq=1, tokens_before=2, tokens_after=1, usage=Usage(output_tokens=4)),
            Delta(output_tokens=4, boundary=True, settled=REQUESTS["compact"]),
        ),
        (finished("c"), Delta(messages=1)),
        (e.HistoryCleared(), Delta(boundary=True, settled=REQUESTS["clear"])),
        (e.CompactionUndone(compacted_seq=1), Delta(boundary=True, settled=REQUESTS["uncompact"])),
        (e.Rewound(to_seq=1), Delta(boundary=True, settled=REQUESTS["rewind"])),
        (e.RewindUndone(rewound_seq=1), Delta(boundary=True, settled=REQUESTS["unrewind"])),
        (e.SessionReopened(), Delta(state="active")),
        (e.SessionArchived(), Delta(state="archived")),
        (e.SessionUnarchived(), Delta(state="unarchived")),
        (e.ModelChanged(model="m"), Delta(model="m")),
        (e.PersonaChanged(persona="p"), Delta(persona="p")),
        (e.TimelineRecorded(entry={}), Delta()),
        (e.Opaque("Unheard", 1, "newer"), Delta()),
    ],
)
def test_each_kind_of_event_changes_its_own_fields_of_the_header(event: e.Event | e.Opaque, delta: Delta) -> None:
    assert delta_of(event) == delta


def test_a_session_is_as_imported_until_its_first_event_here() -> None:
    header = Header(session_id="a" * 26, last_seq=4, imported_seq=4)
    assert header.is_as_imported
    header.last_seq = 5
    assert not header.is_as_imported
    assert not Header(session_id="a" * 26).is_as_imported


def test_an_imported_request_is_not_carried_out() -> None:
    asked = delta_of(e.BoundaryRequested(what="compact"))
    assert asked.requested
    assert imported(asked) == Delta()
    plain = delta_of(admitted("hi"))
    assert imported(plain) is plain


def test_a_redacted_event_keeps_its_counts_and_what_its_kind_implies() -> None:
    counts = {"messages": 1, "input_tokens": 5, "output_tokens": 2, "plan_mode": 1}
    assert delta_of_redacted("AssistantReplied", None, counts) == Delta(
        messages=1, input_tokens=5, output_tokens=2, reported=True, plan_mode=True
    )
    assert delta_of_redacted("TurnStarted", "t", {}) == Delta(turn="t")
    assert delta_of_redacted("Compacted", None, {}).boundary
    assert completed("AssistantReplied", Delta(input_tokens=5)).reported
    assert completed("Compacted", Delta()).settled == REQUESTS["compact"]
