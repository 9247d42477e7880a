"""Killed at any step, a turn comes to the same end: nothing acknowledged is lost, no command runs twice."""

import subprocess
import sys
import time
from collections import Counter

import msgspec
import pytest

from outlast.runtime.failpoints import NAMES
from tests.conftest import ROOT
from tests.faults.stores import ALL
from tests.faults.turn_factory import Report

OTHERS = ("files", "postgres")
PARTS = 2


def killed(kind: str, place: str, how: str, *tale: str) -> Counter[str]:
    """How often a process was killed where. The points are shared among two processes."""
    words = [sys.executable, "-m", "tests.faults.turn_factory", kind, place]
    parts = [
        subprocess.Popen([*words, str(part), str(PARTS), how, *tale], cwd=ROOT, stdout=subprocess.PIPE)
        for part in range(PARTS)
    ]
    reports = [msgspec.json.decode(part.communicate()[0], type=Report) for part in parts]
    assert [text for report in reports for text in report.problems] == []
    found: Counter[str] = Counter()
    for report in reports:
        found.update(report.killed)
    return found


@pytest.mark.soak  # more than half a minute, and only on a machine that does nothing else
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_turn_killed_at_every_step_comes_to_its_end(kind: str, place: str) -> None:
    found = killed(kind, place, "every")
    assert set(found) == set(NAMES), "a failpoint was never reached"
    assert found.total() >= 70


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["sqlite", *(pytest.param(kind, marks=pytest.mark.soak) for kind in OTHERS)])
def test_a_turn_killed_once_at_each_kind_of_step_comes_to_its_end(kind: str, place: str) -> None:
    assert len(killed(kind, place, "first")) >= 15


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["sqlite"])
def test_a_turn_killed_while_calls_run_side_by_side_comes_to_its_end(kind: str, place: str) -> None:
    """Four reads, then three sub-agents: no call twice, none lost. With those who take over, 20 kills."""
    assert killed(kind, place, "some:16", "parallel").total() == 20


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind", ALL)
def test_a_turn_killed_at_every_step_of_calls_that_run_side_by_side_comes_to_its_end(kind: str, place: str) -> None:
    assert killed(kind, place, "every", "parallel").total() >= 100
    assert killed(kind, place, f"random:100:{time.time_ns() % 2**31}", "parallel").total() >= 100


@pytest.mark.soak
@pytest.mark.parametrize("kind", ALL)
def test_200_kills_at_any_moment_of_a_turn_lose_and_double_nothing(kind: str, place: str) -> None:
    assert killed(kind, place, f"random:200:{time.time_ns() % 2**31}").total() >= 200
