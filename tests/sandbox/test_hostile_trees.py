"""Hostile process trees in the sandbox, cancelled or killed as background jobs: nothing survives, in either tier.

Survivors are found from outside: by a mark on the command line, by the session in the environment and, with
bubblewrap, by the PID namespace of the session, which a process cannot leave.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults.hostile import KINDS, survivors, zombies
from tests.sandbox.tiers import WALLED, Walled

HOSTILE = Path(__file__).parents[1] / "faults" / "hostile.py"
AT_ONCE = 5
"""Trees of one batch; they are of two sessions, so that a cancel must leave the neighbours alone."""
SHELL_TREES = {
    "nohup": "nohup sleep 90.MARK > /dev/null 2>&1 & touch READY; wait",
    "disowned": "sleep 90.MARK & disown -a; touch READY; trap '' TERM HUP INT; while :; do sleep 0.1; done",
    "new session": "setsid -f sleep 90.MARK; env -i setsid -f sleep 90.MARK; touch READY; exec sleep 90.MARK",
    "double fork": "( ( trap '' TERM; exec setsid sleep 90.MARK ) & ) & touch READY; sleep 90.MARK",
    "coprocess": "coproc (trap '' TERM HUP; exec sleep 90.MARK); touch READY; wait",
    "stopped children": "for n in 1 2 3; do sleep 90.MARK & kill -STOP $!; done; touch READY; wait",
    "hundreds": "for n in $(seq 300); do sleep 90.MARK & done; touch READY; wait",
    "fork storm": "trap '' TERM; for n in 1 2 3 4; do (while :; do (: MARK) & wait; done) & done; touch READY; wait",
    "deaf shells": "bash -c 'trap \"\" TERM HUP INT QUIT; while :; do sleep 0.05; : MARK; done' & touch READY; wait",
}
"""MARK and READY stand for the mark of the tree and the file that says that it stands."""
TREES = (*KINDS, *SHELL_TREES)
STRIDE = 7
SERVING = 2
"""Processes that serve a sandbox for as long as it lives: its init and the relay to the proxy."""


class Tree:
    """A hostile command and how to find what is left of it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.mark = str(secrets.randbelow(10**17) + 10**17)
        self.ready = folder / f"ready-{self.mark}"
        shell = SHELL_TREES.get(kind, f"exec {sys.executable} -I -S {HOSTILE} '{kind}' READY MARK")
        self.command = shell.replace("READY", str(self.ready)).replace("MARK", self.mark)

    async def stands(self) -> None:
        until = time.monotonic() + 60
        while not self.ready.exists():
            assert time.monotonic() < until, f"the tree '{self.kind}' does not stand"
            await asyncio.sleep(0.01)
        assert survivors(self.mark)


class Trees:
    """Hostile commands of two sessions, behind the walls of one tier."""

    def __init__(self, walled: Walled) -> None:
        self.walled = walled
        self.project = walled.setting.project
        self.sessions = tuple(f"trees-{secrets.token_hex(6)}" for _ in range(2))

    async def cancelled(self, tree: Tree, session_id: str) -> None:
        """Run it, cancel it once it stands."""
        running = asyncio.create_task(self.walled.run(tree.command, session_id, timeout=100))
        await tree.stands()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        self.check(tree)

    async def killed(self, tree: Tree, session_id: str) -> None:
        """Run it as a background job, kill that once it stands."""
        job = await self.walled.run(tree.command, session_id, background=True)
        await tree.stands()
        await self.walled.tool("bash_kill", session_id, job_id=job.facts["job_id"])
        self.check(tree)

    def check(self, tree: Tree) -> None:
        assert survivors(tree.mark) == [], tree.kind
        tree.ready.unlink()

    async def batch(self, number: int) -> None:
        """End some trees at once: another mix of kinds each time, and each kind in both ways."""
        ends: list[Coroutine[Any, Any, None]] = []
        for at in range(number * AT_ONCE, (number + 1) * AT_ONCE):
            tree = Tree(TREES[at * STRIDE % len(TREES)], self.project)
            end = self.cancelled if (at + at // len(TREES)) % 2 else self.killed
            ends.append(end(tree, self.sessions[at % 2]))
        await asyncio.gather(*ends)
        assert self.left_behind() == []

    def left_behind(self) -> list[str]:
        """Return what is left of the sessions. Processes in their last moment are waited for."""
        until = time.monotonic() + 2
        while (left := self._processes()) and time.monotonic() < until:
            time.sleep(0.01)
        return left

    def _processes(self) -> list[str]:
        """Return the processes of the sessions, except the init of a sandbox and the relay that it forked."""
        found = [one for entry in Path("/proc").iterdir() if entry.name.isdigit() and (one := _process(entry))]
        inits = {one.space: one.line for one in found if one.is_first and str(self.walled.setting.base) in one.line}
        left = [one.line for one in found if any(session in one.environment for session in self.sessions)]
        for space, line in inits.items():
            inside = [one.line for one in found if one.space == space]
            left += [other for other in inside if other != line] + [line] * (inside.count(line) - SERVING)
        return left


class Process(NamedTuple):
    """A process as /proc shows it. `is_first`: it is PID 1 of its namespace `space`."""

    line: str
    space: str
    is_first: bool
    environment: str


def _process(entry: Path) -> Process | None:
    """Return what /proc shows; None if the process has ended, or is about to."""
    try:
        line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        environment = (entry / "environ").read_bytes().decode("utf-8", "replace")
        status = (entry / "status").read_text(errors="replace")
        own = next(row.split() for row in status.splitlines() if row.startswith("NSpid:"))
        is_first = len(own) > 2 and own[-1] == "1"
        return Process(line, os.readlink(entry / "ns" / "pid"), is_first, environment) if line else None
    except OSError:
        return None


@pytest.fixture(params=WALLED)
async def trees(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Trees]:
    walled = Walled(tmp_path, request.param)
    yield Trees(walled)
    await walled.close()


async def test_process_that_is_left_is_noticed(trees: Trees) -> None:
    """The check itself: a process that still runs in the session counts."""
    tree, session_id = Tree("nohup", trees.project), trees.sessions[0]
    job = await trees.walled.run(tree.command, session_id, background=True)
    await tree.stands()
    assert any(tree.mark in line for line in trees._processes())
    await trees.walled.tool("bash_kill", session_id, job_id=job.facts["job_id"])
    assert trees.left_behind() == []


@pytest.mark.slow
async def test_ten_cancels_of_hostile_trees_leave_nothing(trees: Trees) -> None:
    for number in range(10 // AT_ONCE):
        await trees.batch(number)
    assert zombies() == []


@pytest.mark.soak
async def test_a_thousand_cancels_of_hostile_trees_leave_nothing(trees: Trees) -> None:
    for number in range(1000 // AT_ONCE):
        await trees.batch(number)
    assert zombies() == []
