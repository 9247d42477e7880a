"""A project folder with every trap that a path can be, and the policies to try on it."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from outlast.core.messages import ToolCall
from outlast.runtime.permissions.decision import Policy
from outlast.runtime.permissions.mode import PermissionMode
from tests.conftest import TESTS

CORPUS = TESTS / "corpus"
CLEAN_CONFIG = '[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote "origin"]\n\turl = git@x:y.git\n'


@cache
def corpus(name: str) -> dict[str, list[str]]:
    return json.loads((CORPUS / f"{name}.json").read_text(encoding="utf-8"))


def every(name: str) -> list[str]:
    return [text for group in corpus(name).values() for text in group]


def make_project(parent: Path) -> Path:
    """A project at `parent/proj`, with links out of it to `parent/outside`."""
    outside, project = parent / "outside", parent / "proj"
    for folder in ("outside", "proj-evil", "proj/src", "proj/tests", "proj/sub", "proj/linkdir", "proj/payload"):
        (parent / folder).mkdir(parents=True)
    (outside / "secret.txt").write_text("secret")
    (parent / "outside.txt").write_text("outside")
    for name in ("a.txt", "b.txt", "a.py", "src/main.py", ".env", "sub/.env.local", "server.pem", "payload/x"):
        (project / name).write_text("foo = 1\n")
    for name in ("id_rsa", "private.key", "credentials", ".npmrc", ".env.example", ".envrc.x"):
        (project / name).write_text("foo = 1\n")
    (project / "a.json").write_text('{"name": "x", "items": [{"id": 1}]}')
    _links(project, outside)
    _repositories(project)
    (project / "shadowed").mkdir()
    (project / "shadowed" / "py_compile.py").write_text("raise SystemExit('run')")
    return project


def _links(project: Path, outside: Path) -> None:
    (project / "link_out").symlink_to(outside)
    (project / "link_secret").symlink_to(outside / "secret.txt")
    (project / "link_file").symlink_to(outside.parent / "outside.txt")
    (project / "linkdir" / "link").symlink_to(outside)
    (project / "existing" / "payload").mkdir(parents=True)
    (project / "existing" / "payload" / "x").symlink_to(outside / "secret.txt")
    os.link(outside.parent / "outside.txt", project / "hard.txt")
    os.mkfifo(project / "fifo")


def _repositories(project: Path) -> None:
    configs = {
        ".": CLEAN_CONFIG,
        "hostile": f"{CLEAN_CONFIG}[core]\n\tfsmonitor = ./evil\n",
        "filtered": f'{CLEAN_CONFIG}[filter "x"]\n\tclean = ./evil\n',
        "hooked": CLEAN_CONFIG,
        "pointed/elsewhere": f"{CLEAN_CONFIG}[include]\n\tpath = ../evil\n",
    }
    for name, config in configs.items():
        place = project / name / ".git"
        for part in ("objects", "refs"):
            (place / part).mkdir(parents=True)
        (place / "HEAD").write_text("ref: refs/heads/main\n")
        (place / "config").write_text(config)
    (project / "hooked/.git/hooks").mkdir()
    (project / "hooked/.git/hooks/post-index-change").write_text("#!/bin/sh\n")
    (project / "pointed/.git").write_text("gitdir: elsewhere/.git\n")
    (project / "bare/objects").mkdir(parents=True)
    (project / "bare/HEAD").write_text("ref: refs/heads/main\n")


def policy_of(project: Path, mode: str = "workspace-write", **more: Any) -> Policy:
    return Policy(mode=PermissionMode(mode), project=project, roots=(project,), **more)


def bash(command: str) -> ToolCall:
    return ToolCall(id="c1", name="bash", arguments={"command": command})


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id="c1", name=name, arguments=arguments)
