"""Findings that the sandbox closes: modes, owners and times outside the roots (M7), and limits (M10)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlast import Agent, open_store
from outlast.app.sandbox import command_sandbox, sandbox_report
from outlast.app.settings import Settings, load_settings
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.runtime.sandbox.limits import ResourceLimits
from outlast.runtime.sandbox.port import SandboxTier
from outlast.store.log_store import LogStore
from tests.conftest import everything_is_required
from tests.support.agents import agent_with, call, only

MEGABYTE = 1 << 20


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OUTLAST_SANDBOX", raising=False)
    (tmp_path / "proj").mkdir()
    limits = ResourceLimits(file_bytes=MEGABYTE)
    found = replace(load_settings(project_root=tmp_path / "proj"), sandbox_limits=limits)
    report = sandbox_report(found)
    if report.tier is not SandboxTier.BUBBLEWRAP:
        (pytest.fail if everything_is_required() else pytest.skip)(report.reason)
    yield found
    sandbox = command_sandbox(found)
    assert sandbox is not None
    sandbox.close()


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    return open_store(f"sqlite:///{tmp_path}/x.db")


async def result_of(settings: Settings, store: LogStore, command: str) -> str:
    agent: Agent = agent_with(store, settings.project_root, call("bash", command=command), "Done.")
    agent.settings = settings
    await agent.run("Do it.")
    [finished] = only(agent, e.ToolCallFinished)
    return text_of(finished.parts)


@pytest.mark.parametrize("command", ["chmod 777 {}", "touch -d 2001-01-01 {}", "chown 1:1 {}", "chgrp 1 {}"])
async def test_m7_mode_owner_and_time_outside_the_roots_stay(
    settings: Settings, store: LogStore, tmp_path: Path, command: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    if os.geteuid() != 0 and command.startswith("ch") and not command.startswith("chmod"):
        pytest.skip("an ordinary user gives no file away, with or without a sandbox")
    before = _seen(outside)
    await result_of(settings, store, command.format(outside))
    assert _seen(outside) == before
    subprocess.run(["sh", "-c", command.format(outside)], check=True)
    assert _seen(outside) != before  # without the sandbox the command has its effect


def _seen(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_mode, found.st_uid, found.st_gid, found.st_mtime_ns


async def test_m10_a_file_grows_to_its_limit_and_no_further(settings: Settings, store: LogStore) -> None:
    await result_of(settings, store, "head -c 5000000 /dev/zero > big; head -c 500000 /dev/zero > small")
    assert (settings.project_root / "big").stat().st_size <= MEGABYTE
    assert (settings.project_root / "small").stat().st_size == 500_000
