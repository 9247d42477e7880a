"""Killed at any moment, a store has everything it acknowledged, once, and opens without repair."""

import subprocess
import sys
import time

import msgspec
import pytest

from tests.conftest import ROOT
from tests.faults.factory import Report
from tests.faults.stores import ALL

ROUNDS = 40
"""Each kills a process that writes; `make soak` has 3,000 of them."""


def killed(kind: str, place: str, rounds: int) -> Report:
    seed = time.time_ns() % 2**31
    words = [sys.executable, "-m", "tests.faults.factory", kind, place, str(rounds), str(seed)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    report = msgspec.json.decode(done.stdout, type=Report)
    assert report.problems == [], f"factory seed {seed}\n{done.stderr.decode()}"
    return report


@pytest.mark.slow
@pytest.mark.timeout(300)  # ten seconds and a bit, but on a machine that does nothing else
@pytest.mark.parametrize("kind", ALL)
def test_sigkill_at_any_moment_loses_and_doubles_nothing(kind: str, place: str) -> None:
    report = killed(kind, place, ROUNDS)
    assert report.rounds == ROUNDS
    assert report.acknowledged >= 3 * ROUNDS, "too few acknowledged writes to prove anything"
    assert report.unanswered >= 20, "too few kills hit a write"


@pytest.mark.soak
@pytest.mark.parametrize("kind", ALL)
def test_3000_sigkills_lose_and_double_nothing(kind: str, place: str) -> None:
    assert killed(kind, place, 3_000).rounds == 3_000
