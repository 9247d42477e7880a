"""A repository that would make `git status` run a program is found out, by its own configuration."""

import os
import subprocess
from pathlib import Path

import pytest

from outlast.runtime.permissions.shell.git import GIT_ENVIRONMENT, repository_fault
from outlast.runtime.shell_variables import UNSET
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
    "#" + "x" * (1 << 20) + "\n[diff]\n\texternal = ./evil",
    '[diff] ; c\f[color "x"]\n\texternal = ./evil',
    '[diff] ; c\x1c[color "x"]\n\texternal = ./evil',
    '[diff] ; c\u2028[color "x"]\n\texternal = ./evil',
    '[diff] ; c\r[color "x"]\n\texternal = ./evil',
    "[status]\n\tsubmoduleSummary = true",
]


@pytest.mark.parametrize("config", HOSTILE)
def test_a_configuration_that_may_run_something_is_asked_about(tmp_path: Path, config: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(f"{CLEAN_CONFIG}{config}\n", newline="\n")
    (tmp_path / "sub").mkdir()
    assert repository_fault(str(tmp_path / "sub"))


def hostile(folder: Path) -> None:
    """Make a repository with a configuration that runs a program."""
    subprocess.run([needs("git"), "init", "-q", str(folder)], check=True, timeout=30)
    with (folder / ".git" / "config").open("a") as file:
        file.write('[filter "x"]\n\tclean = ./evil\n')


@pytest.mark.parametrize("kind", ["empty", "head", "link", "closed", "pipe"])
def test_a_git_folder_that_git_passes_over_does_not_hide_the_repository_above(tmp_path: Path, kind: str) -> None:
    hostile(tmp_path)
    inner = tmp_path / "sub" / ".git"
    subprocess.run([needs("git"), "init", "-q", str(tmp_path / "sub")], check=True, timeout=30)
    assert repository_fault(str(tmp_path / "sub")) is None
    if kind == "empty":
        (inner / "refs").rename(inner / "other")
    elif kind == "head":
        (inner / "HEAD").write_text("nothing\n")
    elif kind == "link":
        (inner / "HEAD").rename(inner / "other")
        (inner / "HEAD").symlink_to("other")
    elif kind == "closed":
        (inner / "refs").chmod(0o600)
        if os.access(inner / "refs", os.X_OK):
            pytest.skip("this user may enter every folder")
    else:
        inner.rename(tmp_path / "sub" / "other")
        os.mkfifo(inner)
    assert repository_fault(str(tmp_path / "sub"))


@pytest.mark.parametrize("name", [b"c\x0b", b"c ", b" c", b"c\xff", b"c\0", b"c" * 5000])
def test_a_shared_directory_whose_name_git_may_read_in_another_way_is_asked_about(tmp_path: Path, name: bytes) -> None:
    subprocess.run([needs("git"), "init", "-q", str(tmp_path)], check=True, timeout=30)
    subprocess.run(["cp", "-r", str(tmp_path / ".git"), str(tmp_path / "c")], check=True, timeout=30)
    (tmp_path / ".git" / "commondir").write_bytes(b"../c\n")
    assert repository_fault(str(tmp_path)) is None
    (tmp_path / ".git" / "commondir").write_bytes(b"../" + name if not name.startswith(b" ") else b" ../c")
    assert repository_fault(str(tmp_path))


def test_submodules_that_git_may_look_into_are_asked_about(tmp_path: Path) -> None:
    git = needs("git")
    subprocess.run([git, "init", "-q", str(tmp_path)], check=True, timeout=30)
    modules = tmp_path / ".gitmodules"
    modules.write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n')
    entry = f"160000,{'1' * 40},sub"
    subprocess.run([git, "-C", str(tmp_path), "update-index", "--add", "--cacheinfo", entry], check=True, timeout=30)
    assert repository_fault(str(tmp_path)) is None
    modules.write_text('[submodule "sub"]\n\tpath = sub\n\tIgnore = none\n')
    assert repository_fault(str(tmp_path))
    modules.unlink()  # git then reads the committed file
    assert repository_fault(str(tmp_path))


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
