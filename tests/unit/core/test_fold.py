"""The folded state: what is open, what waits, what is known; bounded, and the same from any snapshot on."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.fold import ARGUMENTS_LIMIT, HANDLERS, LIVE, PROMPTS, TIMELINE, TRACE, UNKNOWN, folded
from outlast.core.inbox import PendingInput
from outlast.core.messages import TextPart, ToolCall, Usage
from outlast.core.state import SessionState, state_from_bytes, state_to_bytes
from tests.support.histories import (
    MOVES,
    Log,
    admitted,
    asked,
    call,
    ended,
    finished,
    histories,
    played,
    replied,
    whole_turn,
)
from tests.support.strategies import events, examples

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def test_the_fold_is_total_over_the_union() -> None:
    assert set(HANDLERS) == set(e.KINDS.values())


# --- by chance ---------------------------------------------------------------------------------------------------


@examples(200)
@given(seed=st.integers(0, 2**32), moves=histories(), cut=st.floats(0, 1))
def test_folding_on_from_a_snapshot_is_folding_it_all(seed: int, moves: list[str], cut: float) -> None:
    log = played(seed, moves)
    at = int(len(log.rows) * cut)
    snapshot = state_from_bytes(state_to_bytes(folded(log.rows[:at])))
    assert snapshot is not None
    assert folded(log.rows[at:], snapshot) == log.state == folded(log.rows)


@examples(200)
@given(st.lists(events(), max_size=20), st.integers(0, 20))
def test_even_events_in_no_order_fold_the_same_from_a_snapshot_on(chaos: list[e.Event], cut: int) -> None:
    log = Log()
    log.add(*chaos)
    snapshot = state_from_bytes(state_to_bytes(folded(log.rows[:cut])))
    assert snapshot is not None
    assert folded(log.rows[cut:], snapshot) == log.state


@given(seed=st.integers(0, 2**32), moves=histories())
def test_the_state_holds_together(seed: int, moves: list[str]) -> None:
    state = played(seed, moves).state
    assert state.last_seq == len(played(seed, moves).rows)
    assert state.unanswered == sorted(set(state.unanswered))
    assert state.drivable
    if state.turn is None:
        assert state.attempt is None
        assert state.calls == state.approvals == []
        assert not any(item.promoted for item in state.inbox.inputs)


@pytest.mark.parametrize("seed", range(3))
def test_the_state_stays_small_however_long_the_log_is(seed: int) -> None:
    chance = random.Random(seed)
    log = played(seed, chance.choices(MOVES, k=7000))
    assert len(log.rows) > 5000
    assert len(state_to_bytes(log.state)) < 64 * 1024


def test_one_endless_turn_does_not_make_the_state_grow() -> None:
    log = Log()
    asked(log)
    for n in range(1000):
        log.add(replied(call(f"c{n}")), e.ToolCallStarted(call_id=f"c{n}", name="bash"))
        log.add(e.ApprovalRequested(call_id=f"c{n}", name="bash", call_digest="d"), finished(f"c{n}"))
        log.add(e.ToolCallStarted(call_id=f"verify{n}", name="bash"))
    assert len(state_to_bytes(log.state)) < 64 * 1024


def test_a_stranger_in_a_loop_does_not_make_the_state_grow() -> None:
    log = Log()
    for n in range(5000):
        log.add(e.ToolCallStarted(call_id=f"c{n}", name="bash"), e.BoundaryRequested(what=f"w{n}"))
        log.add(e.ApprovalRequested(call_id=f"c{n}", name="bash", call_digest="d"), e.Opaque("New", 1, "unknown kind"))
        log.add(e.UsageRecorded(usage=Usage(input_tokens=1), model=f"m{n}"))
    assert len(state_to_bytes(log.state)) < 64 * 1024
    assert log.state.usage.total.input_tokens == 5000
    assert sum(spent.input_tokens for spent in log.state.usage.models.values()) == 5000


# --- turns -------------------------------------------------------------------------------------------------------


def test_an_input_is_admitted_then_promoted_then_answered() -> None:
    log = Log()
    seq = log.add(admitted("hello"))
    assert log.state.inbox.inputs == [PendingInput(seq=seq, excerpt="hello")]
    log.add(e.TurnStarted(inputs=[seq]))
    assert log.state.inbox.inputs[0].promoted
    ended(log)
    assert log.state.unanswered == []


def test_an_input_that_its_turn_did_not_answer_waits_again() -> None:
    log = Log()
    asked(log)
    log.add(e.TurnEnded(outcome="failed_recovery"))
    assert [(item.seq, item.promoted) for item in log.state.inbox.inputs] == [(1, False)]


def test_an_open_turn_says_where_it_stands() -> None:
    log = Log()
    attempt = asked(log, "do it")
    assert (log.state.turn and log.state.turn.seq, log.state.attempt) == (attempt - 1, attempt)
    reply = log.add(replied(call("c1"), ToolCall(id="c2", name="bash", raw="{")))
    started = log.add(e.ToolCallStarted(call_id="c1", name="bash", effect=e.EffectClass.READ))
    log.add(e.ToolProcessSpawned(call_id="c1", pid=7, started="1", host="h"))
    assert log.state.attempt is None
    one, two = log.state.open_calls
    assert (one.requested_seq, one.started_seq, one.effect, one.pid) == (reply, started, e.EffectClass.READ, 7)
    assert (two.started_seq, two.malformed) == (0, True)
    log.add(finished("c1"))
    assert [call.call_id for call in log.state.open_calls] == ["c2"]
    assert [call.status for call in log.state.calls] == ["executed", None]


def test_arguments_that_are_too_large_are_left_in_the_log() -> None:
    log = Log()
    asked(log)
    large = ToolCall(id="c1", name="write", arguments={"content": "x" * ARGUMENTS_LIMIT})
    log.add(replied(large, call("c2")))
    assert [call.arguments for call in log.state.calls] == [None, {"command": "ls"}]


def test_a_verification_command_is_open_until_it_finishes_and_then_gone() -> None:
    log = Log()
    asked(log)
    log.add(e.ToolCallStarted(call_id="verify", name="bash"))
    assert [call.call_id for call in log.state.open_calls] == ["verify"]
    log.add(finished("verify"))
    assert log.state.calls == []


def test_an_approval_waits_until_its_first_answer_which_stands() -> None:
    log = Log()
    asked(log)
    log.add(replied(call("c1")))
    approval = log.add(e.ApprovalRequested(call_id="c1", name="bash", call_digest="d"))
    assert [waiting.seq for waiting in log.state.open_approvals] == [approval]
    log.add(e.ApprovalAnswered(approval_seq=approval, answer="deny"))
    log.add(e.ApprovalAnswered(approval_seq=approval, answer="once"))
    assert [waiting.answer for waiting in log.state.approvals] == ["deny"]
    assert log.state.open_approvals == []


def test_drivers_that_take_a_turn_over_and_get_nowhere_are_counted() -> None:
    log = Log()
    attempt = asked(log)
    for number in range(1, 4):
        log.epoch = 9 + number
        record = {"number": number, "counted": number - 1, "wait_until": 7}
        log.add(e.RuntimeStateChanged(changes={"taken_over": record}))
        turn = log.state.turn
        assert turn is not None
        assert (turn.recoveries, turn.counted, turn.wait_until) == (number, number - 1, 7)
        log.add(e.ReplyInterrupted(attempt_seq=attempt, reason="recovered"))
        attempt = log.add(e.ModelRequested(model="m"))
        assert turn.wait_until == 0
    log.add(replied(TextPart("at last")))
    assert log.state.turn
    assert (log.state.turn.recoveries, log.state.turn.counted) == (0, 0)


def test_a_record_of_a_take_over_that_nobody_writes_counts_as_none() -> None:
    log = Log()
    asked(log)
    log.add(e.RuntimeStateChanged(changes={"taken_over": {"number": "many"}}))
    assert log.state.turn
    assert (log.state.turn.recoveries, log.state.turn.counted, log.state.turn.wait_until) == (0, 0, 0)


def test_what_a_door_writes_is_no_takeover() -> None:
    log = Log()
    asked(log)
    log.epoch = None
    log.add(e.SessionRenamed(title="x"), admitted("more"))
    assert log.state.turn
    assert log.state.turn.recoveries == 0


def test_an_interrupt_counts_only_for_what_runs_or_waits() -> None:
    log = Log()
    log.add(e.InterruptRequested())
    assert log.state.interrupt is None
    log.add(admitted("hi"))
    stop = log.add(e.InterruptRequested())
    assert log.state.interrupt == stop
    log.add(e.TurnStarted(inputs=[2]))
    assert log.state.interrupt == stop
    ended(log, "interrupted")
    assert log.state.interrupt is None


def test_a_request_for_a_boundary_waits_until_it_is_carried_out() -> None:
    log = Log()
    log.add(e.BoundaryRequested(what="clear"), e.BoundaryRequested(what="rewind", arguments={"to_seq": 1}))
    log.add(e.BoundaryRequested(what="rewind", arguments={"to_seq": 2}))
    assert [(request.what, request.arguments) for request in log.state.requests] == [
        ("clear", {}),
        ("rewind", {"to_seq": 2}),
    ]
    log.add(e.HistoryCleared())
    assert [request.what for request in log.state.requests] == ["rewind"]


# --- forks -------------------------------------------------------------------------------------------------------


def busy() -> Log:
    log = Log()
    log.add(e.SessionCreated(model="m", settings={"a": 1}), e.RuntimeStateChanged(changes={"mode": "plan"}))
    log.add(e.TimelineRecorded(entry={"n": 1}), e.Rewound(to_seq=2))
    whole_turn(log, "one", "1")
    asked(log, "two")
    log.add(replied(call("c1")), e.ApprovalRequested(call_id="c1", name="bash", call_digest="d"))
    log.add(admitted("three"), e.InterruptRequested(), e.BoundaryRequested(what="clear"))
    return log


def test_nothing_inherited_is_live_in_a_fork() -> None:
    child = busy().fork("b" * 26).state
    assert child.turn is child.attempt is child.interrupt is None
    assert child.calls == child.approvals == child.requests == child.unanswered == []
    assert child.usage.total.input_tokens == child.usage.turns == 0


def test_a_fork_keeps_what_is_history() -> None:
    log = busy()
    child = log.fork("b" * 26).state
    assert child.view == log.state.view != SessionState().view
    assert (child.runtime, child.timeline, child.settings) == ({"mode": "plan"}, [{"n": 1}], {"a": 1})
    assert child.message_count == log.state.message_count


def test_a_rotation_carries_inputs_that_wait() -> None:
    log = busy()
    [waiting] = [item.seq for item in log.state.inbox.inputs if not item.promoted]
    child = log.fork("b" * 26, carried=[waiting])
    assert child.state.unanswered == [waiting]
    assert child.state.inbox.inputs[0].excerpt == "three"


# --- the rest ----------------------------------------------------------------------------------------------------


def test_an_event_that_is_not_known_makes_a_session_undrivable_and_is_named() -> None:
    log = Log()
    log.add(admitted("hi"))
    assert log.state.drivable
    for _ in range(40):
        log.add(e.Opaque("TeaServed", 2, "unknown kind"))
    assert not log.state.drivable
    assert (log.state.unknown_count, len(log.state.unknown)) == (40, UNKNOWN)
    assert (log.state.unknown[0].kind, log.state.unknown[0].seq) == ("TeaServed", 2)


def test_a_redacted_event_is_no_unknown_event() -> None:
    log = Log()
    log.add(e.Opaque("InputAdmitted", 1, "redacted"), redacted=True)
    assert log.state.drivable
    assert log.state.unanswered == [1]
    assert log.state.message_count == 1


def test_only_the_last_of_what_is_shown_is_kept() -> None:
    log = Log()
    for n in range(100):
        log.add(e.TimelineRecorded(entry={"n": n}), e.TraceRecorded(entry={"n": n}))
        log.add(e.PromptRecorded(snapshot={"n": n // 2}))
    assert [entry["n"] for entry in log.state.timeline] == list(range(100 - TIMELINE, 100))
    assert [entry["n"] for entry in log.state.trace] == list(range(100 - TRACE, 100))
    assert [entry["n"] for entry in log.state.prompts] == list(range(50 - PROMPTS, 50))


def test_the_runtimes_state_is_merged_key_by_key() -> None:
    log = Log()
    log.add(e.RuntimeStateChanged(changes={"a": 1, "b": {"x": 1}}), e.RuntimeStateChanged(changes={"b": {"y": 2}}))
    assert log.state.runtime == {"a": 1, "b": {"y": 2}}


def test_usage_is_summed_by_model() -> None:
    log = Log()
    asked(log)
    usage = Usage(input_tokens=100, output_tokens=10, cost_micros=7)
    log.add(e.AssistantReplied(attempt_seq=3, parts=(), usage=usage, model="a"))
    log.add(e.UsageRecorded(usage=usage, model="b"), e.ReplyInterrupted(attempt_seq=3))
    log.add(e.Compacted(summary="s", first_kept_seq=1, tokens_before=9, tokens_after=1, usage=usage, model="b"))
    spent = log.state.usage
    assert (spent.total.input_tokens, spent.total.cost_micros, spent.total.unpriced) == (300, 21, 0)
    assert {name: model.output_tokens for name, model in spent.models.items()} == {"a": 10, "b": 20}
    assert (spent.turns, spent.replies, spent.tool_calls) == (1, 1, 0)


def test_compactions_that_save_little_are_counted_until_one_saves_much() -> None:
    log = Log()
    for after in (95, 99):
        log.add(e.Compacted(summary="s", first_kept_seq=1, tokens_before=100, tokens_after=after))
    assert (log.state.compactions.count, log.state.compactions.futile) == (2, 2)
    log.add(e.TurnStarted())
    assert log.state.compactions.turns_since == 1
    log.add(e.Compacted(summary="s", first_kept_seq=1, tokens_before=100, tokens_after=10))
    assert (log.state.compactions.count, log.state.compactions.futile, log.state.compactions.turns_since) == (3, 0, 0)


def test_the_life_of_a_session_is_followed() -> None:
    log = Log()
    lives: list[str] = []
    for event in (e.SessionClosed(), e.SessionReopened(), e.SessionArchived(), e.SessionUnarchived()):
        log.add(event)
        lives.append(log.state.life)
    assert lives == ["ended", "active", "archived", "active"]


def test_what_had_ended_before_it_was_archived_has_ended_afterwards_too() -> None:
    log = Log()
    lives: list[tuple[str, bool]] = []
    for event in (
        e.SessionClosed(),
        e.SessionArchived(),
        e.SessionArchived(),
        e.SessionUnarchived(),
        e.SessionUnarchived(),
        e.SessionArchived(),
        e.SessionReopened(),
    ):
        log.add(event)
        lives.append((log.state.life, log.state.was_ended))
    hidden = ("archived", True)
    assert lives == [("ended", False), hidden, hidden, ("ended", False), ("ended", False), hidden, ("active", False)]


def test_a_rotated_session_has_ended() -> None:
    log = Log()
    log.add(e.SessionRotated(to_session_id="c" * 26))
    assert (log.state.life, log.state.rotated_to) == ("ended", "c" * 26)


# --- single events -----------------------------------------------------------------------------------------------


def test_an_event_outside_a_turn_changes_no_turn() -> None:
    log = Log()
    seq = log.add(admitted("hi"))
    log.add(
        e.InputPromoted(inputs=[seq]),
        e.ModelRequested(model="m"),
        e.CompletionDecided(outcome="done", code="x"),
        e.RuntimeStateChanged(changes={"handed_over": True}),
        e.ToolProcessSpawned(call_id="never", pid=1, started="1", host="h"),
        e.ToolCallFinished(call_id="never", name="bash", parts=()),
    )
    assert log.state.turn is None
    assert log.state.calls == []
    assert log.state.usage.tool_calls == 1


def test_a_process_is_recorded_with_its_call() -> None:
    log = Log()
    asked(log)
    log.add(replied(call("a")), e.ToolCallStarted(call_id="a", name="bash"))
    log.add(e.ToolProcessSpawned(call_id="a", pid=7, started="8", host="h"))
    (found,) = log.state.open_calls
    assert (found.pid, found.pid_started, found.host) == (7, "8", "h")


def test_a_call_that_no_reply_requested_is_forgotten_with_its_result() -> None:
    log = Log()
    asked(log)
    log.add(e.ToolCallStarted(call_id="own", name="bash"))
    assert [one.call_id for one in log.state.open_calls] == ["own"]
    log.add(finished("own"))
    assert log.state.calls == []


def test_a_decision_is_kept_with_its_turn_and_nudges_are_counted() -> None:
    log = Log()
    asked(log)
    log.add(e.CompletionDecided(outcome="continue", code="more"), e.CompletionDecided(outcome="done", code="fine"))
    assert log.state.turn is not None
    assert (log.state.turn.decided, log.state.turn.code, log.state.turn.nudges) == ("done", "fine", 1)


def test_a_refused_boundary_is_settled_as_a_drawn_one_is() -> None:
    log = Log()
    log.add(e.BoundaryRequested(what="compact"))
    assert [one.what for one in log.state.requests] == ["compact"]
    log.add(e.RuntimeStateChanged(changes={"boundary_refused": {"what": "compact", "why": "too short"}}))
    assert log.state.requests == []


def test_the_life_of_a_session_is_folded_event_by_event() -> None:
    log = Log()
    lives: list[str] = []
    for event in (
        e.SessionCreated(title="one", model="m", persona="p"),
        e.SessionRenamed(title="two"),
        e.ModelChanged(model="n"),
        e.PersonaChanged(persona="q"),
        e.SessionArchived(),
        e.SessionUnarchived(),
        e.SessionClosed(),
        e.SessionReopened(),
        e.SessionRotated(to_session_id="next"),
    ):
        log.add(event)
        lives.append(log.state.life)
    assert lives == ["active"] * 4 + ["archived", "active", "ended", "active", "ended"]
    assert (log.state.title, log.state.model, log.state.persona) == ("two", "n", "q")
    assert log.state.rotated_to == "next"


def test_records_of_the_workflow_are_the_last_written() -> None:
    log = Log()
    log.add(
        e.LedgerUpdated(ledger={"a": 1}),
        e.DefinitionOfDoneUpdated(definition={"b": 2}),
        e.TraceRecorded(entry={"c": 3}),
        e.PromptRecorded(snapshot={"d": 4}),
        e.PromptRecorded(snapshot={"d": 4}),
    )
    state = log.state
    assert (state.ledger, state.definition_of_done, state.trace) == ({"a": 1}, {"b": 2}, [{"c": 3}])
    assert state.prompts == [{"d": 4}], "the same prompt is recorded once"


def test_usage_of_broken_replies_and_of_other_calls_is_counted() -> None:
    log = Log()
    asked(log)
    log.add(e.ReplyInterrupted(attempt_seq=1, parts=()))
    assert log.state.usage.total.input_tokens == 0
    log.add(e.ReplyInterrupted(attempt_seq=1, parts=(), usage=Usage(input_tokens=2)))
    log.add(e.UsageRecorded(usage=Usage(input_tokens=3)))
    assert log.state.usage.total.input_tokens == 5


def test_redacted_events_keep_what_their_kind_implies() -> None:
    log = Log()
    asked(log)
    log.add(e.Opaque("AssistantReplied", 1, "redacted"), redacted=True)
    assert log.state.attempt is None
    seq = log.add(e.Opaque("InputAdmitted", 1, "redacted"), redacted=True)
    assert seq in log.state.unanswered
    assert log.state.drivable


def test_folding_rows_again_gives_the_state_that_was_folded_as_they_came() -> None:
    log = Log()
    whole_turn(log, "hi", "hello")
    assert folded(log.rows) == log.state
    assert folded(log.rows[3:], folded(log.rows[:3])) == log.state


def test_calls_beyond_the_limit_drop_the_finished_ones_first() -> None:
    log = Log()
    asked(log)
    for number in range(LIVE + 5):
        log.add(e.ToolCallStarted(call_id=f"c{number}", name="bash"))
    assert [one.call_id for one in log.state.calls] == [f"c{number}" for number in range(5, LIVE + 5)]


def test_a_withdrawn_input_waits_no_longer() -> None:
    log = Log()
    first, second = log.add(admitted("one")), log.add(admitted("two"))
    log.add(e.InputWithdrawn(inputs=[first]))
    assert log.state.unanswered == [second]
