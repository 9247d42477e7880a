"""When a session that failed is tried again."""

from __future__ import annotations

import time

import pytest

from outlast.app.workers.backoff import WAITS, Backoff
from outlast.core.errors import ConfigError, StoreUnavailable

NOW = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [NOW]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_what_passes_by_itself_is_tried_again_soon_and_then_less_often(clock: list[float]) -> None:
    backoff = Backoff()
    for tries, wait in enumerate((*WAITS, WAITS[-1]), start=1):
        noted = backoff.note("s", StoreUnavailable("the store is away"), 7)
        assert (noted.tries, noted.until) == (tries, clock[0] + wait)
        assert backoff.resting() == {"s": 7}
        clock[0] += wait
        assert backoff.resting() == {}
    assert backoff.reason("s") == "the store is away"


def test_what_does_not_pass_waits_for_the_longest_time(clock: list[float]) -> None:
    assert Backoff().note("s", ConfigError("no such persona"), 7).until == NOW + WAITS[-1]


def test_a_session_that_is_forgotten_is_tried_at_once(clock: list[float]) -> None:
    backoff = Backoff()
    backoff.note("s", RuntimeError("secret detail"), 7)
    assert "secret" not in (backoff.reason("s") or "")
    backoff.forget("s")
    assert backoff.reason("s") is None
    assert backoff.resting() == {}
