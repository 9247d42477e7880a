"""What people are shown: everything that was said, in the log's order, and nothing as an answer that was none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.messages import ImagePart, Message, Role, TextPart, ToolResult
from outlast.core.transcript import OUTPUTS_PRUNED, transcript
from tests.support.histories import (
    Log,
    admitted,
    appended,
    asked,
    call,
    ended,
    finished,
    histories,
    played,
    replied,
    text,
    whole_turn,
)
from tests.support.strategies import events, examples

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def shown(log: Log, *, everything: bool = False) -> list[str]:
    messages = transcript(log.rows, log.state, include_archived=everything)
    return [f"{message.role}: {message.content}" for message in messages]


def archived(log: Log) -> list[str]:
    return [message.content for message in all_of(log) if message.archived]


def all_of(log: Log) -> list[Message]:
    return transcript(log.rows, log.state, include_archived=True)


def test_messages_come_in_the_order_of_the_log_with_their_seq_and_time() -> None:
    log = Log()
    asked(log, "one")
    log.add(admitted("two"))
    log.add(replied(call("c1")), finished("c1", "out"), appended(Role.SYSTEM, "a nudge"))
    assert shown(log) == ["user: one", "user: two", "assistant: ", "tool: out", "system: a nudge"]
    assert [(message.seq, message.at) for message in all_of(log)] == [(n, 1000 + n) for n in (1, 4, 5, 6, 7)]


def test_a_finished_call_is_a_tool_message_with_its_result() -> None:
    log = Log()
    image = ImagePart("image/png", b"x")
    log.add(e.ToolCallFinished(call_id="c1", name="shot", parts=(TextPart("here"), image), is_error=True))
    [message] = all_of(log)
    assert message.role is Role.TOOL
    assert message.parts == (ToolResult(call_id="c1", content="here", is_error=True, name="shot"), image)


def test_originals_behind_a_compaction_are_shown_and_the_summary_only_on_request() -> None:
    log = Log()
    whole_turn(log, "one", "1")
    log.add(e.Compacted(summary="it was about one", first_kept_seq=5, tokens_before=9, tokens_after=1))
    assert shown(log) == ["user: one", "assistant: 1"]
    *_, summary = transcript(log.rows, log.state, summaries=True)
    assert (summary.role, summary.content, summary.is_summary) == (Role.SYSTEM, "it was about one", True)
    log.add(e.Compacted(summary="", first_kept_seq=1, tokens_before=9, tokens_after=1, pruned_upto=3, summarised=False))
    *_, summary = transcript(log.rows, log.state, summaries=True)
    assert (summary.content, summary.is_summary) == (OUTPUTS_PRUNED, True)


def test_what_was_cleared_is_archived() -> None:
    log = Log()
    whole_turn(log, "one", "1")
    log.add(e.HistoryCleared())
    whole_turn(log, "two", "2")
    assert shown(log) == ["user: two", "assistant: 2"]
    assert archived(log) == ["one", "1"]


def test_what_was_rewound_is_archived_until_the_rewind_is_undone() -> None:
    log = Log()
    first = whole_turn(log, "one", "1")
    whole_turn(log, "two", "2")
    rewound = log.add(e.Rewound(to_seq=first))
    assert archived(log) == ["two", "2"]
    log.add(e.RewindUndone(rewound_seq=rewound))
    assert archived(log) == []


def test_an_input_is_shown_while_some_turn_that_read_it_is() -> None:
    log = Log()
    first = whole_turn(log, "one", "1")
    waiting = log.add(admitted("later"))
    log.add(e.Rewound(to_seq=first))
    assert shown(log) == ["user: one", "assistant: 1"]
    log.add(e.TurnStarted(inputs=[waiting]))
    assert shown(log) == ["user: one", "assistant: 1", "user: later"]


def test_a_reply_that_broke_off_and_was_asked_for_again_is_archived() -> None:
    log = Log()
    attempt = asked(log)
    log.add(e.ReplyInterrupted(attempt_seq=attempt, parts=text("Half")))
    assert shown(log) == ["user: do it"]
    log.add(e.ModelRequested(model="m"), replied(TextPart("Whole")))
    ended(log)
    assert shown(log) == ["user: do it", "assistant: Whole"]
    [half] = [message for message in all_of(log) if message.archived]
    assert (half.content, half.interrupted) == ("Half", True)


def test_a_reply_that_its_turn_ended_with_is_shown_as_interrupted() -> None:
    log = Log()
    attempt = asked(log)
    log.add(e.ReplyInterrupted(attempt_seq=attempt, parts=text("Half")))
    ended(log, "interrupted")
    assert shown(log) == ["user: do it", "assistant: Half"]
    assert [message.interrupted for message in all_of(log)] == [False, True]


def test_of_two_replies_that_broke_off_only_the_last_is_shown() -> None:
    log = Log()
    attempt = asked(log)
    for words in ("Half", "Two thirds"):
        log.add(e.ReplyInterrupted(attempt_seq=attempt, parts=text(words)))
    ended(log, "interrupted")
    assert shown(log) == ["user: do it", "assistant: Two thirds"]


def test_a_reply_that_broke_off_before_its_first_word_is_no_message() -> None:
    log = Log()
    attempt = asked(log)
    log.add(e.ReplyInterrupted(attempt_seq=attempt))
    ended(log, "interrupted")
    assert shown(log) == ["user: do it"]


def test_a_redacted_message_is_shown_as_redacted() -> None:
    log = Log()
    log.add(e.Opaque("AssistantReplied", 1, "redacted"), redacted=True)
    log.add(e.Opaque("TurnStarted", 1, "redacted"), redacted=True)
    assert shown(log) == ["assistant: [redacted]"]


@examples(200)
@given(seed=st.integers(0, 2**32), moves=histories())
def test_whatever_happened_every_message_is_there_once_and_in_order(seed: int, moves: list[str]) -> None:
    log = played(seed, moves)
    everything = all_of(log)
    seqs = [message.seq for message in everything]
    assert seqs == sorted({seq for seq in seqs if seq is not None})
    assert len([message for message in everything if not message.interrupted]) == log.state.message_count
    assert transcript(log.rows, log.state) == [message for message in everything if not message.archived]


@given(st.lists(events(), max_size=15))
def test_nothing_the_runtime_writes_is_shown_as_the_users(chaos: list[e.Event]) -> None:
    log = Log()
    log.add(*chaos)
    said = {stored.seq for stored, event in log.rows if isinstance(event, e.InputAdmitted | e.MessageAppended)}
    shown = transcript(log.rows, log.state, include_archived=True, summaries=True)
    assert all(message.seq in said for message in shown if message.role is Role.USER)


def test_other_events_between_a_broken_reply_and_the_next_attempt_change_nothing() -> None:
    log = Log()
    attempt = asked(log)
    log.add(e.ReplyInterrupted(attempt_seq=attempt, parts=text("half")), e.TimelineRecorded(entry={}))
    log.add(e.ModelRequested(model="m"), replied(TextPart("whole")))
    ended(log)
    assert shown(log) == ["user: do it", "assistant: whole"]
