"""A repository that would make `git status` run a program is found out, by its own configuration."""

import os
import subprocess
from pathlib import Path

import pytest

from outlast.runtime.permissions.shell.git import GIT_ENVIRONMENT, UNSET, repository_fault
from tests.conftest import needs
from tests.unit.runtime.permissions.place import CLEAN_CONFIG

HOSTILE = [
    "[core]\n\tfsmonitor = ./evil",
    "[core] fsmonitor = ./evil",
    "[CORE]\n\tFsMonitor = ./evil",
    "[core]\n\thooksPath = ./evil",
    "[core]\n\tsshCommand = ./evil",
    "[core]\n\tpager = ./evil",
    "[core]\n\tworktree = /",
    '[filter "x"]\n\tclean = ./evil',
    "[filter.x]\n\tclean = ./evil",
    '[diff "x"]\n\ttextconv = ./evil',
    "[diff]\n\texternal = ./evil",
    "[include]\n\tpath = ../evil",
    '[includeIf "gitdir:/"]\n\tpath = ../evil',
    '[alias]\n\tst = "!./evil"',
    "[gpg]\n\tprogram = ./evil",
    "[log]\n\tshowSignature = true",
    '[remote "x"]\n\turl = ext::sh -c evil',
    '[remote "x"]\n\tuploadpack = ./evil\n\tpromisor = true',
    "[core]\n\tbare = \\\nfalse",
    "[core\n\tfsmonitor = x",
    "fsmonitor",
]


@pytest.mark.parametrize("config", HOSTILE)
def test_a_configuration_that_may_run_something_is_asked_about(tmp_path: Path, config: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(f"{CLEAN_CONFIG}{config}\n")
    (tmp_path / "sub").mkdir()
    assert repository_fault(str(tmp_path / "sub"))


def test_a_fresh_repository_is_harmless(tmp_path: Path) -> None:
    subprocess.run([needs("git"), "init", "-q", str(tmp_path)], check=True, timeout=30)
    assert repository_fault(str(tmp_path)) is None


def test_the_environment_keeps_a_hostile_repository_from_running_its_monitor(tmp_path: Path) -> None:
    git = needs("git")
    subprocess.run([git, "init", "-q", str(tmp_path)], check=True, timeout=30)
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    monitor.chmod(0o755)
    subprocess.run([git, "-C", str(tmp_path), "config", "core.fsmonitor", str(monitor)], check=True, timeout=30)
    environment = {name: value for name, value in os.environ.items() if name not in UNSET} | dict(GIT_ENVIRONMENT)
    subprocess.run([git, "-C", str(tmp_path), "status"], check=True, timeout=30, env=environment, capture_output=True)
    assert not (tmp_path / "ran").exists()
