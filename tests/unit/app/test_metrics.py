"""Metrics: what drivers wrote, as a scraper reads it."""

from __future__ import annotations

from outlast.app.workers.metrics import Metrics, queue_lines, text_of
from outlast.core import events as e
from outlast.core.event_row import StoredEvent
from outlast.core.messages import TextPart, Usage
from outlast.store.port import WorkQueueStats
from tests.support.prometheus import samples

STORED = StoredEvent("s", 1, "k", 1, 0, "system", None, None, 1, "plain", b"", b"")


def test_turns_attempts_and_tokens_are_counted_by_the_events_that_were_written() -> None:
    metrics = Metrics()
    for event in (
        e.TurnStarted(),
        e.ModelRequested(model="m"),
        e.ReplyInterrupted(attempt_seq=1, usage=Usage(input_tokens=5)),
        e.ModelRequested(model="m"),
        e.AssistantReplied(attempt_seq=2, parts=(TextPart("said"),), usage=Usage(input_tokens=7, output_tokens=2)),
        e.TurnEnded(outcome="completed"),
        e.TurnEnded(outcome='strange "\\\n'),
    ):
        metrics.wrote(STORED, event)
    found = samples(text_of(metrics.lines()))
    assert found["outlast_turns_started_total"] == 1
    assert found['outlast_turns_ended_total{outcome="completed"}'] == 1
    assert found["outlast_model_attempts_total"] == 2
    assert found['outlast_tokens_total{direction="input"}'] == 12
    assert found['outlast_tokens_total{direction="output"}'] == 2
    assert found["outlast_lease_takeovers_total"] == 0
    assert metrics.value("outlast_turns_ended_total", outcome="completed") == 1


def test_commits_are_in_the_bucket_of_what_they_took() -> None:
    metrics = Metrics()
    metrics.committed(0.0004, 3)
    metrics.committed(0.001, 1)
    metrics.committed(99.0, 2)
    found = samples(text_of(metrics.lines()))
    assert found['outlast_commit_seconds_bucket{le="0.0005"}'] == 3
    assert found['outlast_commit_seconds_bucket{le="0.001"}'] == 4
    assert found['outlast_commit_seconds_bucket{le="10.0"}'] == 4
    assert found["outlast_commit_seconds_count"] == 6
    assert abs(found["outlast_commit_seconds_sum"] - 198.0022) < 1e-3


def test_the_queue_has_an_age_and_none_when_it_is_empty() -> None:
    told = samples(text_of(queue_lines(lambda: WorkQueueStats(waiting=3, driven=1, oldest=4_000_000, now=9_500_000))))
    assert (told["outlast_queue_length"], told["outlast_queue_oldest_seconds"]) == (3, 5.5)
    empty = samples(text_of(queue_lines(lambda: WorkQueueStats(now=9_500_000))))
    assert empty["outlast_queue_oldest_seconds"] == 0
    ahead = samples(text_of(queue_lines(lambda: WorkQueueStats(waiting=1, oldest=9_600_000, now=9_500_000))))
    assert ahead["outlast_queue_oldest_seconds"] == 0, "a clock that runs ahead makes no negative age"
