"""Compaction fires before the model's window is full, splits nothing, and does not thrash."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core import events as e
from outlast.core.codec import decode, encode
from outlast.core.messages import ImagePart, Message, Role, TextPart, Usage
from outlast.core.text import text_tokens
from outlast.core.window import SUMMARY_MARK, window
from outlast.runtime.history.compaction import (
    COOL_DOWN,
    CompactionPlan,
    compacted_event,
    due,
    may_compact,
    planned,
    still_fits,
    structural,
)
from outlast.runtime.history.window_tokens import (
    CompactionSettings,
    WindowLimits,
    limits,
    request_tokens,
    tokens_now,
)
from outlast.testing.validity import rejections
from tests.support.histories import Log, admitted, appended, asked, call, ended, finished, replied, whole_turn
from tests.support.random_histories import TURNS, WILD, WildPlayer
from tests.support.strategies import examples

NOW = CompactionSettings(input_tokens_threshold=1)
WIDE = limits(NOW)


def compact(log: Log, settings: CompactionSettings = NOW) -> CompactionPlan:
    plan = planned(log.rows, log.state, settings, limits=WIDE)
    assert plan is not None
    log.add(compacted_event(plan, structural(plan)))
    return plan


def contents(log: Log) -> list[str]:
    return [message.content for message in window(log.rows, log.state).messages]


# --- when ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "context_window", "threshold"),
    [(100_000, 200_000, 100_000), (100_000, 8_192, 6_144), (None, 32_768, 24_576), (1, 8_192, 1), (0, 8_192, 1)],
)
def test_the_threshold_is_the_setting_but_never_above_three_quarters_of_the_window(
    setting: int | None, context_window: int, threshold: int
) -> None:
    found = limits(CompactionSettings(input_tokens_threshold=setting), context_window)
    assert found.threshold == threshold
    assert found.threshold <= found.pressing < context_window


def test_a_long_answer_needs_its_room_too() -> None:
    assert limits(CompactionSettings(), 200_000, max_output=64_000).threshold == 136_000
    assert limits(CompactionSettings(), 8_000, max_output=8_000).threshold == 4_000


def test_tokens_are_estimated_by_bytes() -> None:
    assert (text_tokens("x" * 400), text_tokens("é" * 400), text_tokens("漢" * 400), text_tokens("")) == (
        100,
        200,
        300,
        0,
    )
    image = Message(role=Role.USER, parts=(ImagePart("image/png", b"x" * 10**6),))
    assert 1_000 < request_tokens([image]) < 2_000


def test_what_the_provider_counted_counts_if_it_is_more() -> None:
    log = Log()
    asked(log)
    log.add(
        e.AssistantReplied(attempt_seq=1, parts=(TextPart("x"),), usage=Usage(input_tokens=5_000, output_tokens=50))
    )
    ended(log)
    log.add(appended(Role.USER, "y" * 4_000))
    assert 6_000 < tokens_now(log.rows, log.state) < 6_100
    log.add(e.Compacted(summary="s", first_kept_seq=log.state.last_seq, tokens_before=1, tokens_after=1))
    assert tokens_now(log.rows, log.state) < 1_100


def test_nothing_is_due_below_the_threshold() -> None:
    log = Log()
    for n in range(6):
        whole_turn(log, f"question {n}", "answer")
    assert due(log.rows, log.state, CompactionSettings()) is None
    assert due(log.rows, log.state, NOW) is not None
    long = "x" * 8_192 * 4
    assert due(log.rows, log.state, CompactionSettings(), context_window=8_192, system=long) is not None


LIMITS = WindowLimits(100, 200, 100)


def test_compactions_that_save_nothing_are_made_less_and_less_often() -> None:
    log = Log()
    waited: list[int] = []
    for _ in range(4):
        log.add(e.Compacted(summary="s", first_kept_seq=1, tokens_before=100, tokens_after=99))
        waited.append(0)
        while not may_compact(log.state, 150, LIMITS):
            whole_turn(log, "more", "and more")
            waited[-1] += 1
    assert waited == [*COOL_DOWN[1:], COOL_DOWN[-1]]
    log.add(e.Compacted(summary="s", first_kept_seq=1, tokens_before=100, tokens_after=10))
    assert may_compact(log.state, 150, LIMITS)


def test_a_window_that_is_nearly_full_and_has_grown_does_not_wait_for_the_cool_down() -> None:
    log = Log()
    log.add(e.Compacted(summary="s", first_kept_seq=1, tokens_before=200, tokens_after=190))
    assert not may_compact(log.state, 150, LIMITS)
    assert not may_compact(log.state, 205, LIMITS)
    assert may_compact(log.state, 215, LIMITS)


def test_what_the_user_undid_is_not_done_again_before_it_must_be() -> None:
    log = Log()
    whole_turn(log, "a", "b")
    log.add(e.Compacted(summary="s", first_kept_seq=3, tokens_before=100, tokens_after=10))
    log.add(e.CompactionUndone(compacted_seq=log.state.last_seq))
    assert not may_compact(log.state, 150, LIMITS)
    assert may_compact(log.state, 200, LIMITS)


# --- what ----------------------------------------------------------------------------------------------------------


def test_the_summary_stands_first_and_the_last_messages_are_kept_verbatim() -> None:
    """The anchor of seed 000."""
    log = Log()
    texts = [
        "Kick off runtime audit",
        "Initial findings",
        "Focus on sessions",
        "Design drafted",
        "Preserve four",
        "Ready",
    ]
    for n, text in enumerate(texts):
        log.add(appended(Role.ASSISTANT if n % 2 else Role.USER, text))
    plan = due(log.rows, log.state, CompactionSettings(input_tokens_threshold=1, keep_last=4))
    assert plan is not None
    log.add(compacted_event(plan, structural(plan)))
    assert contents(log)[0].startswith(SUMMARY_MARK)
    assert contents(log)[1:] == texts[2:]


def test_an_input_is_kept_from_where_its_turn_read_it() -> None:
    log = Log()
    for n in range(4):
        whole_turn(log, f"question {n}", f"answer {n}")
    plan = compact(log, CompactionSettings(input_tokens_threshold=1, keep_last=2))
    assert [message.content for message in plan.kept] == ["question 3", "answer 3"]
    assert contents(log)[1:] == ["question 3", "answer 3"]


def test_a_call_is_kept_with_its_result() -> None:
    log = Log()
    whole_turn(log, "first", "1")
    asked(log, "second")
    log.add(replied(call("c1"), call("c2")), finished("c1"), finished("c2"))
    plan = compact(log, CompactionSettings(input_tokens_threshold=1, keep_last=1))
    assert [message.role for message in plan.kept] == [Role.ASSISTANT, Role.TOOL, Role.TOOL]
    assert contents(log)[1:] == ["second", "", "done", "done"]


def test_more_than_the_last_ones_is_kept_while_it_fits() -> None:
    log = Log()
    for n in range(10):
        whole_turn(log, f"question {n}", "answer")
    assert len(compact(log, CompactionSettings(input_tokens_threshold=1, keep_last=2, keep_tokens=40)).kept) == 6


def test_what_is_too_large_to_be_kept_is_summarised_but_never_the_last() -> None:
    log = Log()
    for _ in range(4):
        log.add(appended(Role.USER, "x" * 40_000))
    plan = planned(log.rows, log.state, NOW, limits=limits(NOW, 32_768))
    assert plan is not None
    assert len(plan.kept) == 1


def test_there_is_nothing_to_plan_when_all_is_kept_or_still_said() -> None:
    log = Log()
    log.add(appended(Role.USER, "a"), appended(Role.ASSISTANT, "b"))
    assert planned(log.rows, log.state, NOW, limits=WIDE) is None
    running = Log()
    asked(running, "the task")
    running.add(replied(call("c1")), finished("c1"))
    assert planned(running.rows, running.state, CompactionSettings(keep_last=2), limits=WIDE) is None


def test_in_the_middle_of_a_turn_its_input_is_still_said_and_counted() -> None:
    log = Log()
    whole_turn(log, "before", "b")
    asked(log, "the task " * 100)
    for n in range(4):
        log.add(replied(TextPart("working"), call(f"c{n}")), finished(f"c{n}"), e.ModelRequested(model="m"))
    plan = compact(log, CompactionSettings(input_tokens_threshold=1, keep_last=2))
    assert contents(log)[1] == "the task " * 100
    assert plan.kept_tokens > text_tokens("the task " * 100)


def test_a_second_compaction_knows_what_the_first_one_said() -> None:
    log = Log()
    whole_turn(log, "rename the flux capacitor in core/flux.py", "done")
    whole_turn(log, "now the tests", "done too")
    first = compact(log, CompactionSettings(input_tokens_threshold=1, keep_last=2))
    assert first.earlier == ""
    for n in range(3):
        whole_turn(log, f"question {n}", "answer")
    second = compact(log, CompactionSettings(input_tokens_threshold=1, keep_last=2))
    assert second.earlier.startswith(SUMMARY_MARK)
    assert "flux capacitor" in contents(log)[0]
    assert contents(log)[0].count(SUMMARY_MARK) == 1


@examples(150)
@given(seed=st.integers(0, 2**32), keep=st.integers(0, 6), cut=st.integers(0, 80))
def test_whatever_came_before_a_planned_compaction_makes_a_good_window_and_loses_no_input(
    seed: int, keep: int, cut: int
) -> None:
    player = WildPlayer(random.Random(seed))
    log = player.play(player.chance.choices((*WILD, *TURNS * 3), k=cut))
    plan = planned(log.rows, log.state, CompactionSettings(keep_last=keep), limits=WIDE)
    if plan is None:
        return
    assert log.state.window_from <= plan.first_kept_seq <= log.state.last_seq + 1
    event = compacted_event(plan, structural(plan))
    assert decode("Compacted", 2, encode(event).body) == event
    log.add(event)
    sent = window(log.rows, log.state, provider="anthropic", asking=True).messages
    assert rejections(sent, "anthropic") == []
    assert sent[0].is_summary


# --- the event -----------------------------------------------------------------------------------------------------


def test_the_event_says_what_was_done() -> None:
    log = Log()
    for n in range(6):
        whole_turn(log, f"question {n}" + "x" * 400, "answer")
    upto = log.state.last_seq
    plan = planned(log.rows, log.state, NOW, limits=WIDE, tokens=5_000, reason="manual")
    assert plan is not None
    assert plan.upto_seq == upto
    event = compacted_event(plan, structural(plan, usage=Usage(input_tokens=7), model="p:m", why="it failed"))
    assert (event.usage.input_tokens, event.model, event.tokens_before) == (7, "p:m", 5_000)
    assert event.tokens_after < 5_000
    assert event.facts == {
        "reason": "manual", "upto_seq": upto, "dropped": 8, "kept": 4, "structural": True, "why": "it failed",
    }  # fmt: skip


def test_what_is_written_during_the_summary_stays_behind_it() -> None:
    log = Log()
    for n in range(4):
        whole_turn(log, f"question {n}", "answer")
    plan = planned(log.rows, log.state, NOW, limits=WIDE)
    assert plan is not None
    log.add(admitted("meanwhile"), appended(Role.USER, "by the way"))
    assert still_fits(plan, log.rows)
    log.add(compacted_event(plan, structural(plan)))
    assert contents(log)[-1] == "by the way"
    assert log.state.unanswered


@pytest.mark.parametrize(
    "meanwhile", [e.HistoryCleared(), e.Rewound(to_seq=2), e.EventRedacted(seq=1, body_digest="0" * 64)]
)
def test_a_boundary_or_a_redaction_meanwhile_makes_the_plan_void(meanwhile: e.Event) -> None:
    log = Log()
    for n in range(4):
        whole_turn(log, f"question {n}", "answer")
    plan = planned(log.rows, log.state, NOW, limits=WIDE)
    assert plan is not None
    log.add(meanwhile)
    assert not still_fits(plan, log.rows)
