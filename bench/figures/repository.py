"""A git repository of so many small files, as the workloads around shell commands need one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bench.figures.server import Unavailable

IN_FOLDER = 100
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", ""),
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{role}_{name}": "bench@example.org" for role in ("AUTHOR", "COMMITTER") for name in ("NAME", "EMAIL")},
}


def make_repository(folder: Path, files: int) -> Path:
    """Fill the folder and commit it; return the folder's real path."""
    folder = folder.resolve()
    for number in range(files):
        path = folder / f"part{number // IN_FOLDER // 10}" / f"folder{number // IN_FOLDER}" / f"module_{number}.py"
        if number % IN_FOLDER == 0:
            path.parent.mkdir(parents=True)
        path.write_text(f"NUMBER = {number}\n" * 20)
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all"), ("status", "--porcelain")):
        run_git(folder, *words)
    return folder


def run_git(folder: Path, *words: str) -> bytes:
    program = shutil.which("git")
    if program is None:
        raise Unavailable("git is not installed")
    done = subprocess.run([program, *words], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    return done.stdout
