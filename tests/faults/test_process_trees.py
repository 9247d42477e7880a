"""Hostile process trees, cancelled, timed out, left behind or orphaned: nothing survives."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.faults.hostile import KINDS, survivors, zombies
from tests.unit.runtime.tools.setting import Setting

HOSTILE = Path(__file__).with_name("hostile.py")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper and /proc, which only Linux has")


class Tree:
    """A hostile command and how to find what is left of it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.mark = f"tree-{secrets.token_hex(8)}"
        self.ready = folder / f"ready-{self.mark}"
        self.command = f"exec {sys.executable} -I -S {HOSTILE} '{kind}' {self.ready} {self.mark}"

    async def stands(self) -> None:
        while not self.ready.exists():
            await asyncio.sleep(0.01)

    async def gone(self, seconds: float = 5) -> list[str]:
        """What is left of it after at most these seconds."""
        until = time.monotonic() + seconds
        while (left := survivors(self.mark)) and time.monotonic() < until:
            await asyncio.sleep(0.02)
        return left


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    made = Setting(tmp_path)
    yield made
    await made.registry.close()


async def cancelled(setting: Setting, tree: Tree, **changes: object) -> float:
    """Run it, cancel it once it stands; how long the cancelling took."""
    running = asyncio.create_task(setting.run("bash", setting.context(**changes), command=tree.command, timeout=60))
    await tree.stands()
    assert survivors(tree.mark)
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return time.monotonic() - began


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelled_tree_is_gone_when_the_cancelling_returns(setting: Setting, kind: str) -> None:
    tree = Tree(kind, setting.project)
    took = await cancelled(setting, tree)
    assert survivors(tree.mark) == []
    assert zombies() == []
    assert took < 5


@pytest.mark.parametrize("kind", KINDS)
async def test_tree_that_runs_out_of_time_is_gone_when_the_call_returns(setting: Setting, kind: str) -> None:
    tree = Tree(kind, setting.project)
    outcome = await setting.run("bash", command=tree.command, timeout=1)
    assert outcome.facts["reason"] == "timeout"
    assert survivors(tree.mark) == []
    assert zombies() == []


@pytest.mark.parametrize("kind", ["daemon", "forest", "stopped", "reaper", "comet in its own session"])
async def test_tree_that_its_command_leaves_behind_is_gone_too(setting: Setting, kind: str) -> None:
    tree = Tree(kind, setting.project)
    command = f"({tree.command}) & while [ ! -e {tree.ready} ]; do sleep 0.01; done; echo done"
    outcome = await setting.run("bash", command=command, timeout=30)
    assert outcome.text.startswith("done")
    assert outcome.facts["exit_code"] == 0
    assert survivors(tree.mark) == []
    assert zombies() == []


async def test_job_that_is_killed_leaves_nothing(setting: Setting) -> None:
    tree = Tree("forest", setting.project)
    job = await setting.run("bash", command=tree.command, background=True)
    await tree.stands()
    await setting.run("bash_kill", job_id=job.facts["job_id"])
    assert survivors(tree.mark) == []
    assert zombies() == []


@pytest.mark.parametrize("how", ["foreground", "background"])
async def test_tree_whose_owner_is_killed_is_gone_within_5_seconds(tmp_path: Path, how: str) -> None:
    tree = Tree("forest", tmp_path)
    base = tmp_path / "base"
    base.mkdir()
    command = tree.command.replace(str(tree.ready), str(base / "proj" / "ready"))
    tree.ready = base / "proj" / "ready"
    argv = [sys.executable, "-m", "tests.faults.tool_owner", str(base), command, how]
    with subprocess.Popen(argv, cwd=ROOT) as owner:
        try:
            await tree.stands()
            while len(survivors(tree.mark)) <= 10:
                await asyncio.sleep(0.02)
        finally:
            owner.kill()
    left = [line for line in await tree.gone() if "tool_owner" not in line]
    assert left == []


async def test_command_that_kills_its_supervisor_leaves_nothing(setting: Setting) -> None:
    """Unconfined it can; what it started is then found by its session and by its environment."""
    tree = Tree("patricide", setting.project)
    outcome = await setting.run("bash", setting.context(confined=False), command=tree.command, timeout=30)
    assert outcome.facts["reason"] == "lost"
    assert outcome.is_error
    assert await tree.gone() == []
    assert zombies() == []


async def test_confined_command_cannot_kill_its_supervisor(setting: Setting) -> None:
    tree = Tree("patricide", setting.project)
    outcome = await setting.run("bash", command=tree.command, timeout=30)
    assert outcome.facts["reason"] == "exited"  # it died of its own PermissionError
    assert "PermissionError" in outcome.text
    assert survivors(tree.mark) == []


async def test_stopped_supervisor_does_not_keep_its_command_from_being_ended(setting: Setting) -> None:
    """Closing the socket reaches it as soon as it runs again, and it is continued by nobody but us."""
    tree = Tree("stubborn", setting.project)
    running = asyncio.create_task(setting.run("bash", command=tree.command, timeout=60))
    await tree.stands()
    os.kill(setting.spawned[0].pid, signal.SIGSTOP)
    running.cancel()
    asyncio.get_running_loop().call_later(0.3, os.kill, setting.spawned[0].pid, signal.SIGCONT)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert survivors(tree.mark) == []


async def test_many_trees_at_once_are_all_gone(setting: Setting) -> None:
    trees = [Tree(kind, setting.project) for kind in KINDS]
    took = await asyncio.gather(*(cancelled(setting, tree) for tree in trees))
    assert [left for tree in trees for left in survivors(tree.mark)] == []
    assert zombies() == []
    assert max(took) < 10


@pytest.mark.soak
async def test_a_thousand_cancels_leave_nothing(setting: Setting) -> None:
    for n in range(1000):
        tree = Tree(list(KINDS)[n % len(KINDS)], setting.project)
        await cancelled(setting, tree)
        assert survivors(tree.mark) == []
        tree.ready.unlink()
    assert zombies() == []
