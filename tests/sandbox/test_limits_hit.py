"""Limits for real: a command that hits one is stopped by it, and its result names the limit. In both tiers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from outlast.runtime.sandbox.limits import ResourceLimits
from outlast.runtime.sandbox.port import SandboxTier
from outlast.runtime.tools.port import ToolFault
from tests.conftest import ROOT
from tests.sandbox.tiers import WALLED, Walled

MEGABYTE = 1 << 20
LIMITS = ResourceLimits(file_bytes=MEGABYTE, processes=400, tmp_bytes=4 * MEGABYTE, job_seconds=1)
TMP_HIT = "[the limit of 4 MB for /tmp was hit]"


@pytest.fixture(params=WALLED)
async def walled(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Walled]:
    made = Walled(tmp_path, request.param, LIMITS)
    yield made
    await made.close()


@pytest.fixture
async def bubble(tmp_path: Path) -> AsyncIterator[Walled]:
    limits = ResourceLimits(tmp_bytes=4 * MEGABYTE, processes=310)
    made = Walled(tmp_path, SandboxTier.BUBBLEWRAP, limits)
    yield made
    await made.close()


async def test_file_grows_to_its_limit_and_the_limit_is_named(walled: Walled) -> None:
    outcome = await walled.run("head -c 5M /dev/zero > big")
    assert outcome.text.endswith("[the file size limit of 1 MB was hit]")
    assert (walled.setting.project / "big").stat().st_size == MEGABYTE


async def test_processes_are_limited_and_the_limit_is_named(walled: Walled) -> None:
    tier, is_root = walled.sandbox.report.tier, os.geteuid() == 0
    if is_root and (tier is SandboxTier.LANDLOCK or _kernel() < (6, 14)):
        pytest.skip("the kernel bounds root's processes only in PID namespaces, from 6.14 on; an ordinary user here")
    command = "sh -c 'n=0; while [ $n -lt 700 ]; do sleep 20 & n=$((n+1)); done; echo all'"
    outcome = await walled.run(command)
    assert "all" not in outcome.text.splitlines()
    assert outcome.text.endswith("[the limit of 400 processes was hit]")
    assert (await walled.run("echo again")).text == "again"


async def test_session_full_of_processes_refuses_a_command_and_goes_on(bubble: Walled) -> None:
    """Only the bound of the PID namespace counts all commands of a session."""
    if _kernel() < (6, 14):
        pytest.skip("PID namespaces have a bound of their own from Linux 6.14 on, as an ordinary user here")
    fill = "bash -c 'while :; do sleep 60 & done' 2> /dev/null; sleep 60"
    job = (await bubble.run(fill, background=True)).facts["job_id"]
    until, refusal = time.monotonic() + 30, ""
    while "limit of processes" not in refusal and time.monotonic() < until:
        try:
            await bubble.run("true")
        except ToolFault as fault:
            refusal = str(fault)
        await asyncio.sleep(0.02)
    assert "limit of processes" in refusal
    await bubble.tool("bash_kill", job_id=job)
    assert (await bubble.run("echo again")).text == "again"


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])


async def test_job_ends_at_its_limit_and_the_limit_is_named(walled: Walled) -> None:
    job = (await walled.run("echo begun; sleep 60", background=True)).facts["job_id"]
    outcome = await walled.tool("bash_output", job_id=job)
    until = time.monotonic() + 30
    while outcome.facts["state"] == "running" and time.monotonic() < until:
        await asyncio.sleep(0.05)
        outcome = await walled.tool("bash_output", job_id=job)
    assert outcome.facts["state"] == "ended: it took longer than its limit of 1 s"


async def test_limit_that_a_job_hits_is_named_in_its_output(walled: Walled) -> None:
    job = (await walled.run("head -c 5M /dev/zero > big", background=True)).facts["job_id"]
    texts = [(await walled.tool("bash_output", job_id=job)).text]
    until = time.monotonic() + 30
    while "[the file size limit of 1 MB was hit]" not in texts[-1] and time.monotonic() < until:
        await asyncio.sleep(0.05)
        texts.append((await walled.tool("bash_output", job_id=job)).text)
    assert "[the file size limit of 1 MB was hit]" in texts[-1]
    assert "was hit" not in (await walled.tool("bash_output", job_id=job)).text


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/dev/shm"])
async def test_memory_of_the_session_is_limited_and_the_limit_is_named(bubble: Walled, place: str) -> None:
    outcome = await bubble.run(f"for n in 1 2 3; do head -c 2M /dev/zero > {place}/part$n || exit; done; echo all")
    assert "all" not in outcome.text.splitlines()
    assert outcome.text.endswith(TMP_HIT)
    again = await bubble.run(f"rm {place}/part*; head -c 3M /dev/zero > {place}/part && echo fits")
    assert again.text == "fits"


async def test_throw_away_copy_is_limited_and_the_limit_is_named(bubble: Walled) -> None:
    if not bubble.sandbox.report.overlays:
        pytest.skip("this bubblewrap has no overlays")
    outcome = await bubble.run("head -c 6M /dev/zero > big; exit $?", looking=True)
    assert "[the limit of 4 MB for /tmp and the throw-away copy of the project was hit]" in outcome.text
    assert (await bubble.run("head -c 3M /dev/zero > big && echo fits", looking=True)).text.startswith("fits\n")


@pytest.mark.parametrize("path", ["/dev/file", "/run/file"])
async def test_no_other_place_takes_more_than_a_little(bubble: Walled, path: str) -> None:
    await bubble.run(f"head -c 40M /dev/zero > {path}; sleep 0")
    outcome = await bubble.run(f"head -c 40M /dev/zero > {path} && echo written; test ! -s {path} || wc -c < {path}")
    assert "written" not in outcome.text
    sizes = [int(line) for line in outcome.text.splitlines() if line.isdecimal()]
    assert max(sizes, default=0) <= 16 * MEGABYTE


@contextlib.contextmanager
def delegated_group() -> Generator[Path]:
    """A control group that is marked as delegated, with one below it for the process; skips where none can be made."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    first = next((path for _, names, path in own if "memory" in names.split(",")), None)
    mount = Path("/sys/fs/cgroup/memory" if first is not None else "/sys/fs/cgroup")
    path = first if first is not None else next((path for _, names, path in own if not names), "/")
    group = mount / path.lstrip("/") / f"outlast-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            os.setxattr(group, "trusted.delegate", b"1")
            if first is None:
                (group / "cgroup.subtree_control").write_text("+memory")
            (group / "run").mkdir()
        except OSError as error:
            pytest.skip(f"no control group can be delegated here: {error}")
        yield group
    finally:
        for folder in (*group.glob("*/"), group):
            if folder.is_dir():
                os.rmdir(folder)


MEMORY_TRIAL = """
import asyncio, sys
from pathlib import Path
from outlast.runtime.sandbox.limits import ResourceLimits
from outlast.runtime.sandbox.port import SandboxTier
from outlast.runtime.tools.port import ToolFault
from tests.sandbox.tiers import Walled
total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
async def main():
    walled = Walled(Path(sys.argv[2]), SandboxTier(sys.argv[1]), ResourceLimits(memory_share=(100 << 20) / total))
    try:
        print((await walled.run("python3 -c 'print(len(bytearray(30 << 20)))'")).text)
        print((await walled.run("python3 -c 'print(len(bytearray(400 << 20)))'; echo went on")).text)
        print((await walled.run("echo after")).text)
    finally:
        await walled.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("tier", WALLED)
def test_memory_is_limited_where_a_control_group_is_delegated(tier: SandboxTier, tmp_path: Path) -> None:
    with delegated_group() as group:
        argv = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "run" / "cgroup.procs")]
        argv += [sys.executable, "-c", MEMORY_TRIAL, tier, str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        result = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
        left = [folder.name for folder in group.glob("*/")]
    assert result.returncode == 0, result.stderr[-2000:]
    lines = result.stdout.splitlines()
    assert lines[0] == str(30 << 20)
    assert str(400 << 20) not in lines
    assert "went on" in lines
    assert "of this machine was hit: a process was killed]" in result.stdout
    assert lines[-1] == "after"
    assert left == ["run"]
