"""What the model sees is accepted by every provider, whatever the log went through, and begins as it began before."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.messages import (
    ImagePart,
    Message,
    Part,
    Role,
    TextPart,
    ToolCall,
    ToolResult,
)
from outlast.core.repair import NOT_EXECUTED, OPENING, OUTCOME_UNKNOWN
from outlast.core.window import BROKE_OFF, SUMMARY_MARK, Window, unread, whole_from, window
from outlast.testing.validity import rejections
from tests.support.histories import (
    ORDERLY,
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
from tests.unit.core.window_view import LIMIT, lines, repairs, seen

HISTORIES = {"seed": st.integers(0, 2**32), "moves": histories()}
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


# --- by chance ---------------------------------------------------------------------------------------------------


def check_valid(log: Log, provider: str | None) -> None:
    sent = window(log.rows, log.state, provider=provider, asking=True, max_image_bytes=LIMIT)
    assert rejections(sent.messages, provider) == []
    assert rejections(seen(log, provider).messages, provider, request=False) == []


@examples(600)
@given(provider=st.sampled_from((None, "anthropic", "openai")), **HISTORIES)
def test_any_history_makes_a_window_that_every_provider_accepts(
    seed: int, moves: list[str], provider: str | None
) -> None:
    check_valid(played(seed, moves), provider)


@examples(300)
@given(st.lists(events(), max_size=15))
def test_even_events_in_no_order_at_all_make_a_valid_window(chaos: list[e.Event]) -> None:
    log = Log()
    log.add(*chaos)
    check_valid(log, "anthropic")


@examples(200)
@given(**HISTORIES)
def test_rows_before_read_from_are_not_needed(seed: int, moves: list[str]) -> None:
    log = played(seed, moves)
    kept = [row for row in log.rows if row[0].seq >= log.state.read_from]
    assert shown(window(kept, log.state)) == shown(window(log.rows, log.state))
    inputs = [row for row in kept if row[0].seq >= log.state.window_from or row[0].kind == "InputAdmitted"]
    assert shown(window(inputs, log.state)) == shown(window(log.rows, log.state))


def shown(seen: Window) -> list[Any]:
    return [(message.seq, message.role, message.parts) for message in seen.messages]


@examples(200)
@given(**HISTORIES)
def test_repairing_a_repaired_window_changes_nothing(seed: int, moves: list[str]) -> None:
    first = seen(played(seed, moves)).messages
    log = Log()
    log.add(*(e.MessageAppended(role=message.role, parts=message.parts) for message in first))
    again = seen(log)
    assert again.messages == first
    assert again.repairs == []


def test_the_window_only_grows_at_its_end_while_no_boundary_is_drawn() -> None:
    """At each request to the model. A library caller's calls are answered whenever that caller likes, so none here."""
    requests = 0
    for seed in range(80):
        moves = random.Random(seed).choices([move for move in ORDERLY if move != "append"], k=150)
        before: list[Any] = []
        growing = Log()
        for stored, event in played(seed, moves).rows:
            growing.turn, growing.epoch = stored.turn, stored.epoch
            growing.add(event)
            if isinstance(event, e.ModelRequested):
                now = shown(seen(growing))
                assert now[: len(before)] == before
                before, requests = now, requests + 1
    assert requests > 500


# --- one by one --------------------------------------------------------------------------------------------------


def test_a_turn_with_a_tool_is_seen_in_order() -> None:
    log = Log()
    asked(log, "list the files")
    log.add(
        replied(TextPart("I look."), call("c1")), e.ToolCallStarted(call_id="c1", name="bash"), finished("c1", "a.txt")
    )
    log.add(e.ModelRequested(model="m"), replied(TextPart("There is a.txt.")))
    ended(log)
    assert lines(log) == ["user: list the files", "assistant: I look.", "tool: a.txt", "assistant: There is a.txt."]
    assert repairs(log) == []


def test_an_input_that_waits_is_not_seen_before_its_turn() -> None:
    log = Log()
    asked(log, "first")
    second = log.add(admitted("second"))
    log.add(replied(call("c1")), finished("c1"))
    assert lines(log) == ["user: first", "assistant: ", "tool: done"]
    log.add(replied(TextPart("done")))
    ended(log)
    log.add(e.TurnStarted(inputs=[second]))
    assert lines(log)[-2:] == ["assistant: done", "user: second"]


def test_a_steering_input_is_seen_where_the_turn_read_it() -> None:
    log = Log()
    asked(log, "first")
    log.add(replied(call("c1")))
    steered = log.add(admitted("rather this", e.Delivery.STEER))
    log.add(e.InputPromoted(inputs=[steered]), finished("c1"))
    assert lines(log) == ["user: first", "assistant: ", "tool: done", "user: rather this"]
    assert repairs(log) == []


def test_two_inputs_with_the_same_words_are_both_seen() -> None:
    log = Log()
    inputs = [log.add(admitted("again")), log.add(admitted("again"))]
    log.add(e.TurnStarted(inputs=inputs))
    assert lines(log) == ["user: again", "user: again"]


def test_an_input_that_a_second_turn_takes_up_is_its_last_user_message() -> None:
    log = Log()
    asked(log, "do it")
    log.add(replied(TextPart("I try")))
    log.add(e.TurnEnded(outcome="failed_recovery"))
    log.add(e.TurnStarted(inputs=[1]))
    assert lines(log) == ["user: do it", "assistant: I try", "user: do it"]


def test_a_message_appended_between_a_call_and_its_result_comes_after_the_result() -> None:
    log = Log()
    asked(log)
    log.add(replied(call("c1")), appended(Role.USER, "by the way"), finished("c1"))
    assert lines(log) == ["user: do it", "assistant: ", "tool: done", "user: by the way"]


@pytest.mark.parametrize(("started", "answer"), [(False, NOT_EXECUTED), (True, OUTCOME_UNKNOWN)])
def test_a_call_without_a_result_is_answered_by_what_is_known_of_it(started: bool, answer: str) -> None:
    log = Log()
    asked(log)
    log.add(replied(call("c1"), call("c2")), finished("c2", "two"))
    if started:
        log.add(e.ToolCallStarted(call_id="c1", name="bash"))
    assert lines(log)[-2:] == [f"tool: {answer}", "tool: two"]
    assert seen(log).messages[-2].tool_results[0].is_error
    assert repairs(log) == ["call_answered"]


def test_a_result_without_its_call_is_dropped() -> None:
    log = Log()
    log.add(appended(Role.USER, "hi"), finished("nobody"), appended(Role.ASSISTANT, "hello"))
    assert lines(log) == ["user: hi", "assistant: hello"]
    assert repairs(log) == ["result_dropped"]


def test_a_second_result_for_the_same_call_is_dropped() -> None:
    log = Log()
    asked(log)
    log.add(replied(call("c1")), finished("c1", "one"), finished("c1", "two"))
    assert lines(log)[-1] == "tool: one"
    assert repairs(log) == ["result_dropped"]


def test_a_call_id_used_again_becomes_unique_and_keeps_its_own_result() -> None:
    log = Log()
    asked(log)
    log.add(replied(call("c")), finished("c", "one"), replied(call("c"), call("c")), finished("c", "two"))
    log.add(finished("c", "three"))
    answers = [message.tool_results[0] for message in seen(log).messages if message.role is Role.TOOL]
    assert [(answer.call_id, answer.content) for answer in answers] == [("c", "one"), ("c_2", "two"), ("c_3", "three")]
    assert repairs(log) == ["call_renamed", "call_renamed"]


def test_a_call_that_was_never_answered_does_not_take_a_later_result_of_the_same_id() -> None:
    log = Log()
    asked(log)
    log.add(replied(call("c")), replied(call("c")), finished("c", "mine"))
    assert [line for line in lines(log) if line.startswith("tool")] == [f"tool: {NOT_EXECUTED}", "tool: mine"]


def test_results_that_came_in_a_user_message_go_behind_their_calls() -> None:
    log = Log()
    log.add(appended(Role.USER, "hi"), e.MessageAppended(role=Role.ASSISTANT, parts=(call("c1"),)))
    log.add(e.MessageAppended(role=Role.USER, parts=(ToolResult(call_id="c1", content="ok"), TextPart("and now?"))))
    assert lines(log) == ["user: hi", "assistant: ", "tool: ok", "user: and now?"]


def test_empty_messages_and_parts_are_dropped() -> None:
    log = Log()
    log.add(appended(Role.USER, " \n"), e.MessageAppended(role=Role.USER, parts=()))
    log.add(e.MessageAppended(role=Role.USER, parts=(TextPart(""), TextPart("real"), ImagePart("image/png"))))
    assert [message.parts for message in seen(log).messages] == [(TextPart("real"),)]
    assert sorted(set(repairs(log))) == ["message_dropped", "part_dropped"]


def test_an_empty_result_says_so() -> None:
    log = Log()
    asked(log)
    log.add(replied(call("c1")), finished("c1", ""))
    assert lines(log)[-1] == "tool: (no output)"


def test_a_reply_that_broke_off_is_not_seen_when_the_model_is_asked_again() -> None:
    log = Log()
    attempt = asked(log)
    log.add(e.ReplyInterrupted(attempt_seq=attempt, parts=text("Half a")))
    assert lines(log) == ["user: do it"]
    log.add(e.ModelRequested(model="m"), replied(TextPart("A whole answer")))
    ended(log)
    assert lines(log) == ["user: do it", "assistant: A whole answer"]


def test_a_reply_that_the_user_broke_off_is_seen_as_what_it_is() -> None:
    log = Log()
    attempt = asked(log)
    log.add(e.ReplyInterrupted(attempt_seq=attempt, parts=(TextPart("Half a"), call("never"))))
    ended(log, "interrupted")
    asked(log, "shorter")
    assert lines(log) == ["user: do it", f"assistant: Half a{BROKE_OFF}", "user: shorter"]
    assert seen(log).messages[1].interrupted


def test_a_reply_that_broke_off_is_not_taken_for_the_end_of_a_turn_that_asked_again() -> None:
    log = Log()
    attempt = asked(log)
    log.add(e.ReplyInterrupted(attempt_seq=attempt, parts=text("Half a")), e.ModelRequested(model="m"))
    ended(log, "failed_recovery")
    assert lines(log) == ["user: do it"]


def test_an_input_is_seen_once_in_a_turn_however_often_the_turn_reads_it() -> None:
    log = Log()
    asked(log)
    log.add(replied(TextPart("1")), e.InputPromoted(inputs=[1]), replied(TextPart("2")))
    assert lines(log) == ["user: do it", "assistant: 1", "assistant: 2"]


# --- boundaries --------------------------------------------------------------------------------------------------


def compacted(log: Log, first_kept: int) -> int:
    return log.add(e.Compacted(summary="it was about x", first_kept_seq=first_kept, tokens_before=9, tokens_after=1))


def test_after_a_compaction_the_summary_stands_first_and_is_nobodys_words() -> None:
    log = Log()
    whole_turn(log, "one", "1")
    kept = log.add(appended(Role.USER, "two"))
    compacted(log, kept)
    whole_turn(log, "three", "3")
    assert lines(log) == [f"system: {SUMMARY_MARK}\nit was about x", "user: two", "user: three", "assistant: 3"]
    assert seen(log).messages[0].is_summary


def test_undoing_a_compaction_shows_everything_again() -> None:
    log = Log()
    whole_turn(log, "one", "1")
    before = lines(log)
    log.add(e.CompactionUndone(compacted_seq=compacted(log, log.state.last_seq)))
    assert lines(log) == before


def test_a_compaction_in_the_middle_of_a_turn_keeps_what_the_turn_is_about() -> None:
    log = Log()
    asked(log, "the task")
    log.add(replied(call("c1")), finished("c1"))
    compacted(log, log.state.last_seq + 1)
    assert lines(log) == [f"system: {SUMMARY_MARK}\nit was about x", "user: the task"]
    log.add(replied(TextPart("done")))
    ended(log)
    assert lines(log)[1:] == ["user: the task", "assistant: done"]


def test_a_compaction_that_keeps_the_start_of_the_turn_does_not_say_its_input_twice() -> None:
    log = Log()
    waiting = log.add(admitted("the task"))
    kept = log.add(appended(Role.USER, "by the way"))
    log.add(e.TurnStarted(inputs=[waiting]))
    compacted(log, kept)
    assert lines(log)[1:] == ["user: by the way", "user: the task"]


def test_an_input_older_than_the_boundary_is_still_read_by_its_turn() -> None:
    log = Log()
    asked(log, "first")
    waiting = log.add(admitted("second"))
    log.add(replied(TextPart("1")))
    ended(log)
    started = log.add(e.TurnStarted(inputs=[waiting]))
    log.add(replied(TextPart("2")))
    ended(log)
    compacted(log, started)
    assert log.state.read_from == waiting
    assert lines(log)[1:] == ["user: second", "assistant: 2"]


def test_a_window_that_would_begin_with_the_assistant_is_opened() -> None:
    log = Log()
    whole_turn(log, "one", "1")
    compacted(log, 4)
    assert lines(log) == [f"system: {SUMMARY_MARK}\nit was about x", f"user: {OPENING}", "assistant: 1"]
    assert repairs(log) == ["opening_added"]


def test_after_clearing_nothing_from_before_is_seen() -> None:
    log = Log()
    whole_turn(log, "one", "1")
    log.add(e.HistoryCleared())
    assert lines(log) == []
    whole_turn(log, "two", "2")
    assert lines(log) == ["user: two", "assistant: 2"]


def test_what_was_rewound_is_not_seen_until_the_rewind_is_undone() -> None:
    log = Log()
    first = whole_turn(log, "one", "1")
    whole_turn(log, "two", "2")
    rewound = log.add(e.Rewound(to_seq=first))
    whole_turn(log, "three", "3")
    assert lines(log) == ["user: one", "assistant: 1", "user: three", "assistant: 3"]
    log.add(e.RewindUndone(rewound_seq=rewound))
    assert [line for line in lines(log) if "user" in line] == ["user: one", "user: two", "user: three"]


def test_a_redacted_message_is_seen_as_redacted() -> None:
    log = Log()
    log.add(e.Opaque("InputAdmitted", 1, "redacted"), redacted=True)
    log.add(e.TurnStarted(inputs=[1]), replied(TextPart("ok")))
    assert lines(log) == ["user: [redacted]", "assistant: ok"]


@examples(200)
@given(wanted=st.integers(1, 300), **HISTORIES)
def test_a_cut_at_the_place_found_parts_no_call_from_its_result(seed: int, moves: list[str], wanted: int) -> None:
    log = played(seed, [move for move in moves if move in ORDERLY and move != "append"])
    cut = whole_from(log.rows, min(wanted, len(log.rows)))
    assert 1 <= cut <= wanted
    before = {part.id for part in parts_of(log, 1, cut) if isinstance(part, ToolCall) and part.id != "again"}
    after = {part.call_id for part in parts_of(log, cut, len(log.rows) + 1) if isinstance(part, ToolResult)}
    assert before & after == set()


def parts_of(log: Log, first: int, end: int) -> list[Part]:
    whole: list[Message] = window(log.rows[first - 1 : end - 1], Log().state).messages
    raw = [event for stored, event in log.rows if first <= stored.seq < end]
    results: list[Part] = [ToolResult(call_id=event.call_id) for event in raw if isinstance(event, e.ToolCallFinished)]
    return [*(part for message in whole for part in message.tool_calls), *results]


def test_a_cut_is_not_put_behind_a_call_whose_result_is_still_to_come() -> None:
    log = Log()
    asked(log)
    reply = log.add(replied(call("c1")))
    log.add(e.ToolCallStarted(call_id="c1", name="bash"))
    assert whole_from(log.rows, log.state.last_seq) == reply


def test_a_cut_behind_a_finished_call_stays_where_it_is_wanted() -> None:
    log = Log()
    asked(log)
    log.add(replied(call("c1")))
    result = log.add(finished("c1"))
    assert whole_from(log.rows, result + 1) == result + 1
    assert whole_from(log.rows, result) == result - 1


def test_the_environment_is_told_before_the_messages_to_answer_and_only_when_the_model_is_asked() -> None:
    log = Log()
    first = log.add(admitted("one"))
    log.add(e.TurnStarted(inputs=[first]), e.EnvironmentDescribed(text="branch main"), e.ModelRequested(model="m"))
    log.add(replied(TextPart("first")))
    ended(log)
    second = log.add(admitted("two"))
    log.add(e.TurnStarted(inputs=[second]))
    sent = window(log.rows, log.state, provider=None, asking=True, environment="branch other")
    assert [message.content for message in sent.messages] == ["branch main", "one", "first", "branch other", "two"]
    assert "branch main" not in [message.content for message in seen(log).messages]


def test_an_input_that_is_not_in_the_rows_is_reported() -> None:
    log = Log()
    log.add(appended(Role.USER, "hi"), e.TurnStarted(inputs=[99]))
    assert "input_missing" in repairs(log)


def test_inputs_that_no_turn_has_read_are_unread() -> None:
    log = Log()
    first, second = log.add(admitted("one")), log.add(admitted("two"))
    log.add(e.TurnStarted(inputs=[first]))
    assert unread(log.state) == [second]


def test_a_reply_that_broke_off_without_text_leaves_nothing_behind() -> None:
    log = Log()
    attempt = asked(log)
    log.add(e.ReplyInterrupted(attempt_seq=attempt, parts=(call("c"),)))
    ended(log)
    assert lines(log) == ["user: do it"]


def test_a_redacted_message_of_the_user_is_not_told_beside_the_summary() -> None:
    log = Log()
    whole_turn(log, "secret", "fine")
    words = (e.UserWords(seq=1, text="secret"),)
    log.add(e.Compacted(summary="s", first_kept_seq=6, tokens_before=9, tokens_after=1, words=words))
    log.add(e.EventRedacted(seq=1, body_digest=""))
    assert "secret" not in "".join(lines(log))


def test_calls_of_a_user_and_tool_messages_without_a_result_are_dropped() -> None:
    log = Log()
    log.add(e.MessageAppended(role=Role.USER, parts=(TextPart("hi"), call("c"))))
    log.add(e.MessageAppended(role=Role.TOOL, parts=(TextPart("nothing"),)))
    assert lines(log) == ["user: hi"]
    assert repairs(log) == ["call_dropped", "result_dropped"]


def test_a_result_whose_call_is_not_in_the_rows_moves_no_cut() -> None:
    log = Log()
    log.add(appended(Role.USER, "hi"), finished("gone"), appended(Role.USER, "more"))
    assert whole_from(log.rows, 2) == 2
