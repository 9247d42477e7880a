"""Killed, or told no, at every single system call that writes: what was acknowledged is there, once."""

import importlib.util
import subprocess
import sys

import msgspec
import pytest

from tests.conftest import ROOT, needs
from tests.faults.factory import Report
from tests.faults.stores import LOCAL, MODULES
from tests.faults.syscalls import Plan

pytestmark = pytest.mark.timeout(300)
OFFSET = 300  # more than any child or checker makes of a kind
KILLS = {
    "sqlite": ("pwrite64", "fdatasync", "ftruncate", "unlink"),
    "files": ("write", "pwrite64", "fdatasync", "fsync", "rename", "unlink", "ftruncate"),
}
ALSO_IN_SOAK = (*KILLS["files"], "openat")


def traced(plan: Plan, fault: str) -> Report:
    """Run the plan's children; each meets the fault at its own call."""
    if importlib.util.find_spec(MODULES[plan.kind]) is None:
        pytest.skip(f"there is no {plan.kind} store yet")
    what = f"inject={plan.syscall}:{fault}"
    strace = [needs("strace"), "-f", "-o", "/dev/null", "-e", f"trace={plan.syscall}", "-e", what]
    child = [sys.executable, "-B", "-m", "tests.faults.syscalls", msgspec.json.encode(plan).decode()]
    done = subprocess.run([*strace, *child], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    report = msgspec.json.decode(done.stdout, type=Report)
    assert report.problems == [], done.stderr.decode()
    return report


def killed_at_each(kind: str, syscall: str, *, old: bool) -> int:
    """How many calls there were."""
    offset = 2_000 if syscall == "openat" else OFFSET  # the interpreter opens files too
    plan = Plan(kind=kind, syscall=syscall, offset=offset, old=old)
    return traced(plan, f"signal=KILL:when={offset}").rounds - 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("files", marks=pytest.mark.soak)])
def test_killed_at_every_write_of_a_few_commits_loses_nothing(kind: str) -> None:
    calls = {syscall: killed_at_each(kind, syscall, old=True) for syscall in KILLS[kind]}
    assert sum(calls.values()) > 30, calls


@pytest.mark.parametrize("kind", LOCAL)
def test_killed_at_every_sync_while_the_store_is_made_loses_nothing(kind: str) -> None:
    assert killed_at_each(kind, "fdatasync", old=False) > 5


@pytest.mark.soak
@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
@pytest.mark.parametrize("kind", LOCAL)
def test_killed_at_every_call_of_a_longer_life_loses_nothing(kind: str, old: bool) -> None:
    assert sum(killed_at_each(kind, syscall, old=old) for syscall in ALSO_IN_SOAK) > 0


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("recovers", [True, False], ids=["once", "for good"])
def test_eio_on_any_fdatasync_is_loud_and_passes(kind: str, recovers: bool) -> None:
    plan = Plan(kind=kind, syscall="fdatasync", offset=OFFSET, last=18, recovers=recovers)
    report = traced(plan, f"error=EIO:when={OFFSET}" + ("" if recovers else "+"))
    assert recovers or report.acknowledged < report.tried, "the fault was never met"


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("recovers", [True, False], ids=["once", "for good"])
def test_enospc_on_any_write_is_loud_and_passes(kind: str, recovers: bool) -> None:
    call = "pwrite64" if kind == "sqlite" else "write"
    plan = Plan(kind=kind, syscall=call, offset=OFFSET, last=60, stride=6, recovers=recovers)
    report = traced(plan, f"error=ENOSPC:when={OFFSET}" + ("" if recovers else "+"))
    assert recovers or report.acknowledged < report.tried, "the fault was never met"
