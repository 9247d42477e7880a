"""Projects for the tests: a plain folder, and git repositories of several shapes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from outlast.runtime.changes.session_changes import WorkspaceChanges

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, text=True)
    return done.stdout


def repository(folder: Path, **files: str) -> Path:
    """Make a repository with one commit of these files (`__` in a name stands for a slash, `_dot_` for a dot)."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "--allow-empty", "-m", "start")
    return folder


def watched(project: Path, state: Path, *roots: Path) -> WorkspaceChanges:
    return WorkspaceChanges(state, project, (project, *roots))


def kinds(changes: WorkspaceChanges) -> dict[str, str]:
    """Look after a call, and return what changed by path."""
    return {file.path: file.kind for file in changes.after().files}
