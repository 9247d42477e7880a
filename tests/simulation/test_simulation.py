"""The simulated fleet: the same promises, the same checker, and the same seed is the same run."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import ROOT

SMALL = ("--workers", "8", "--sessions", "60", "--users", "20")


def run(*words: str, stderr: int | None = subprocess.PIPE) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.simulation", "--json", *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout) | {"stderr": done.stderr}


@functools.cache
def simulated(seed: int) -> dict[str, Any]:
    return run("--seed", str(seed), *SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 6])
def test_no_promise_is_broken_by_a_fleet_that_is_killed_stopped_and_cut_off(seed: int) -> None:
    found = simulated(seed)
    assert found["broken"] == []
    assert found["settled"]
    assert found["acknowledged"] >= 60
    assert sum(found["faults"].values()) >= 20
    assert found["turns"]["completed"] >= 50
    assert found["stderr"] == ""  # nothing happened that nobody foresaw


def test_the_same_seed_is_the_same_run_to_the_last_step() -> None:
    again = run("--seed", "3", *SMALL)
    for what in ("trace", "steps", "events", "faults"):
        assert simulated(3)[what] == again[what]
    assert again["steps"] > 1_000
    assert simulated(6)["trace"] != again["trace"]


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_promise_is_broken_by_fifty_workers_on_five_thousand_sessions(capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():  # its progress line is for whoever waits
        found = run("--seed", "1", "--workers", "50", "--sessions", "5000", "--progress", stderr=None)
    assert found["broken"] == []
    assert found["settled"]
    assert found["sessions"] >= 5_000


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_promise_is_broken_whatever_the_dice_say(seed: int) -> None:
    found = simulated(seed)
    assert found["broken"] == []
    assert found["settled"]
    assert found["stderr"] == ""
