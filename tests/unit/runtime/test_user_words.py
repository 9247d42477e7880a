"""After a compaction the newest of the user's own words stay verbatim, within a tenth of the window."""

import random

import pytest

from outlast.core import events as e
from outlast.core.compacted_view import WORDS_MARK
from outlast.core.messages import ImagePart, Message, Role, TextPart
from outlast.core.text import text_tokens
from outlast.core.window import window
from outlast.runtime.history.compaction import compacted_event, planned, structural
from outlast.runtime.history.user_words import HEADER_TOKENS, head_and_tail, kept_words, words_tokens
from outlast.runtime.history.window_tokens import CompactionSettings, limits
from tests.support.histories import Log, asked, ended, replied, whole_turn

SETTINGS = CompactionSettings(recall=True)


def compact(log: Log, context_window: int = 40_000) -> e.Compacted:
    plan = planned(log.rows, log.state, SETTINGS, limits=limits(SETTINGS, context_window))
    assert plan is not None
    event = compacted_event(plan, structural(plan))
    log.add(event)
    return event


def beginning(log: Log) -> str:
    first = window(log.rows, log.state, asking=True).messages[0]
    assert first.is_summary
    return first.content


@pytest.mark.parametrize(
    ("context_window", "summary", "words"),
    [(200_000, 10_000, 20_000), (32_768, 2_000, 3_276), (1_000_000, 50_000, 20_000), (4_000, 1_000, 400)],
)
def test_the_summary_takes_a_twentieth_and_the_words_a_tenth_of_the_window(
    context_window: int, summary: int, words: int
) -> None:
    found = limits(CompactionSettings(), context_window)
    assert (found.summary, found.words) == (summary, words)


def test_what_the_user_said_stays_word_for_word_and_names_its_event() -> None:
    log = Log()
    whole_turn(log, "Never touch  the lock file.\n\n  It is generated.", "ok")
    for n in range(5):
        whole_turn(log, f"question {n}", "answer")
    event = compact(log)
    assert event.words[0] == e.UserWords(seq=1, text="Never touch  the lock file.\n\n  It is generated.")
    assert "[event 1]\nNever touch  the lock file.\n\n  It is generated." in beginning(log)
    assert beginning(log).count(WORDS_MARK) == 1


@pytest.mark.parametrize("seed", range(40))
def test_no_word_of_the_user_is_lost_within_the_bound_over_several_compactions(seed: int) -> None:
    chance = random.Random(seed)
    log, said = Log(), dict[int, str]()
    context_window = chance.choice((12_000, 40_000, 300_000))
    budget = limits(SETTINGS, context_window).words
    for _ in range(3):
        for _ in range(chance.randint(3, 12)):
            question = chance.choice("aé漢") * chance.choice((5, 400, 3_000, 30_000)) + f" {len(said)}"
            said[log.state.last_seq + 1] = question
            whole_turn(log, question, "answer")
        event = compact(log, context_window)
        assert words_tokens(event.words) <= budget
        content = "\n".join(message.content for message in window(log.rows, log.state, asking=True).messages)
        left = budget
        for question in reversed(said.values()):
            left -= text_tokens(question) + HEADER_TOKENS
            if left < 64:
                break
            assert question in content


def test_a_longer_message_keeps_its_head_and_its_tail_and_a_reference() -> None:
    long = "HEAD " + "x" * 60_000 + " TAIL"
    message = Message(role=Role.USER, content=long, seq=7)
    [kept] = kept_words((), [message], (), 2_000, recall=True)
    assert kept.text.startswith("HEAD xxx")
    assert kept.text.endswith("xxx TAIL")
    assert "characters left out: recall(seq=7) shows them" in kept.text
    assert text_tokens(kept.text) <= 2_000
    [kept] = kept_words((), [message], (), 2_000, recall=False)
    assert "recall" not in kept.text
    assert "characters left out" in kept.text


def test_an_older_short_message_stays_beside_a_long_one() -> None:
    messages = [
        Message(role=Role.USER, content="Use tabs.", seq=1),
        Message(role=Role.USER, content="log\n" * 90_000, seq=5),
    ]
    assert [one.seq for one in kept_words((), messages, (), 3_000, recall=True)] == [1, 5]


def test_cuts_fit_their_budget_in_any_script() -> None:
    for text in ("漢字" * 5_000, "é" * 9_000, "\ud800" * 9_000, "👍🏽" * 4_000):
        cut = head_and_tail(text, 500, 3)
        assert text_tokens(cut) <= 500
        assert "left out" in cut


def test_words_that_stay_in_the_window_are_not_repeated_and_count() -> None:
    kept = [Message(role=Role.USER, content="x" * 4_000, seq=9)]
    dropped = [Message(role=Role.USER, content="y" * 4_000, seq=3)]
    [only] = kept_words((), dropped, kept, 1_500, recall=True)
    assert only.seq == 3
    assert text_tokens(only.text) <= 500
    log = Log()
    whole_turn(log, "before", "b")
    asked(log, "the running task")
    for n in range(4):
        log.add(replied(TextPart(f"working {n}")), e.ModelRequested(model="m"))
    assert [one.text for one in compact(log).words] == ["before"]
    contents = [message.content for message in window(log.rows, log.state, asking=True).messages]
    assert sum("the running task" in content for content in contents) == 1 + ("the running task" in contents[0])


def test_pictures_are_named_where_the_words_stay() -> None:
    picture = Message(role=Role.USER, parts=(TextPart("see"), ImagePart("image/png", b"x")), seq=4)
    [kept] = kept_words((), [picture], (), 500, recall=True)
    assert kept.text == "see\n[1 attachment: recall(seq=4) shows it]"


def test_words_redacted_since_the_compaction_are_not_shown_and_not_carried_on() -> None:
    log = Log()
    whole_turn(log, "my password is hunter2", "ok")
    for n in range(5):
        whole_turn(log, f"question {n}", "answer")
    compact(log)
    assert "hunter2" in beginning(log).partition(WORDS_MARK)[2]
    log.add(e.EventRedacted(seq=1, body_digest="0" * 64))
    assert "hunter2" not in beginning(log).partition(WORDS_MARK)[2]
    for n in range(5):
        whole_turn(log, f"again {n}", "answer")
    assert not any("hunter2" in one.text for one in compact(log).words)


def test_a_clear_forgets_the_words_and_an_undone_compaction_shows_the_originals() -> None:
    log = Log()
    for n in range(6):
        whole_turn(log, f"question {n}", "answer")
    before = [message.content for message in window(log.rows, log.state).messages]
    compact(log)
    log.add(e.CompactionUndone(compacted_seq=log.state.last_seq))
    assert [message.content for message in window(log.rows, log.state).messages] == before
    compact(log)
    log.add(e.HistoryCleared())
    assert window(log.rows, log.state).messages == []


def test_a_turn_that_ended_since_leaves_its_input_among_the_words() -> None:
    log = Log()
    whole_turn(log, "before", "b")
    asked(log, "the task")
    for n in range(5):
        log.add(replied(TextPart(f"working {n}")), e.ModelRequested(model="m"))
    compact(log)
    log.add(replied(TextPart("done")))
    ended(log)
    for n in range(4):
        whole_turn(log, f"question {n}", "answer")
    assert [one.text for one in compact(log).words] == ["before", "the task", "question 0", "question 1"]
