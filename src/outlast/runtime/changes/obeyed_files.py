"""Files that other programs obey although they are versioned: CI, agents' settings and memory, editor tasks, git hooks.

A command may change them, since `git switch` must. Every such change is named in the result of the command, and one
that does not come from a commit of the repository is asked about (`turn.call_changes`).
"""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path

from outlast.runtime.git_repository import GitRepository
from outlast.runtime.permissions.paths import obeyed_part
from outlast.runtime.safe_open import read_inside

CONFIG_LIMIT = 1 << 20
_NAMED = re.compile(
    rb"(?:^|\])[ \t]*(?:hookspath|path|fsmonitor|attributesfile)[ \t]*=[ \t]*(\"[^\"\n]+\"|[^;#\"\n]+)",
    re.IGNORECASE | re.MULTILINE,
)

_LISTED = (
    "agents.md agents.override.md claude.md claude.local.md gemini.md copilot-instructions.md outlast.md "
    ".cursorrules .windsurfrules .clinerules .goosehints .aider.conf.yml .mcp.json mcp.json opencode.json "
    ".claude .cursor .codex .gemini .opencode .windsurf .roo .continue .junie .amazonq .kiro .vscode .idea .zed "
    ".fleet .devcontainer .devcontainer.json .nvim.lua .husky .githooks lefthook.yml lefthook.yaml lefthook.toml "
    ".lefthook.yml .lefthook.yaml .lefthook.toml .lefthook .pre-commit-config.yaml .overcommit.yml .gitmodules "
    ".gitattributes .gitlab-ci.yml .circleci .travis.yml .drone.yml .woodpecker .woodpecker.yml .buildkite "
    ".appveyor.yml appveyor.yml azure-pipelines.yml bitbucket-pipelines.yml cloudbuild.yaml .cirrus.yml "
    ".semaphore jenkinsfile .envrc .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .tool-versions mise.toml .mise.toml "
    "sitecustomize.py usercustomize.py .dir-locals.el .exrc .gdbinit .lldbinit"
)
_NAMES = frozenset(_LISTED.split())
_PAIRS = frozenset(
    {
        (".github", "workflows"),
        (".github", "actions"),
        (".gitea", "workflows"),
        (".forgejo", "workflows"),
        (".cargo", "config.toml"),
        (".cargo", "config"),
    }
)
_HOLDERS = frozenset(first for first, _ in _PAIRS)
_ENVIRONMENTS = frozenset({".venv", "venv", ".direnv", ".local", ".bin"})
"""Folders that are obeyed and made by package managers: they are not versioned."""


def is_obeyed(path: str) -> bool:
    """Whether other programs obey this file of a project."""
    parts = _parts(path)
    return bool(parts) and (_is_listed(parts) or obeyed_part(path) is not None)


def is_obeyed_though_ignored(path: str, *, is_folder: bool = False) -> bool:
    """Whether other programs obey this file, or files in this folder, so that it is looked at even if git ignores it:
    a command may write the ignore file. Files of the user alone, such as `.env`, are not meant."""
    parts = _parts(path)
    return bool(parts) and (_is_listed(parts) or (is_folder and parts[-1] in _HOLDERS))


def _parts(path: str) -> list[str]:
    """Return the names in a path as the most lenient file system sees them; none if it lies in an environment."""
    parts = [part.casefold().rstrip(". ") for part in path.split("/") if part]
    return [] if any(part in _ENVIRONMENTS for part in parts) else parts


def _is_listed(parts: list[str]) -> bool:
    return any(part in _NAMES for part in parts) or any(pair in _PAIRS for pair in pairwise(parts))


def configured_files(repository: GitRepository) -> tuple[Path, ...]:
    """Return the files and folders of the working tree that the configuration of a repository names: included files,
    and hooks in a folder of the project. A command cannot write the configuration, but it can write these. The text is
    read line by line and generously: a path too many only means a question."""
    top = os.path.realpath(repository.top)
    found: dict[Path, None] = {}
    for folder, name in ((repository.common, "config"), (repository.folder, "config.worktree")):
        for value in _NAMED.findall(read_inside(folder, name, CONFIG_LIMIT) or b""):
            text = os.path.expanduser(os.fsdecode(value.strip(b'" \t\r')))
            for base in (top, str(folder)):  # hooks start at the working tree, included files at the configuration
                path = os.path.realpath(os.path.join(base, text)) if "\0" not in text else top
                inside = os.path.relpath(path, top).split(os.sep)[0]
                if inside not in (os.pardir, os.curdir, ".git"):
                    found[Path(path)] = None
    return tuple(found)
