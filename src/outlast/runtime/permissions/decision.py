"""Data types of a permission decision: the verdict with its reason, and the policy it depends on."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.rules import NO_RULES, RuleSet


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """`code` is for audits and never changes meaning, `reason` is a sentence for the model and the user, `rule` the
    deciding rule, `remedy` the command line flag that would allow the call: for the user alone."""

    verdict: Verdict
    code: str
    reason: str
    rule: str | None = None
    remedy: str | None = None


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the user approved for the session: one exact call, or simple commands that begin with these words."""

    tool: str
    digest: str = ""
    commands: tuple[tuple[str, ...], ...] = ()
    needs: tuple[str, ...] = ()
    """Walls of the sandbox that the user lifted for the session, such as `network:example.org`."""
    mode: str = ""
    """`read-only` if it was given in read-only or plan mode. Other grants do not count there."""

    def facts(self) -> dict[str, Any]:
        """The form stored in the log."""
        return msgspec.json.decode(msgspec.json.encode(self))


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a verdict depends on, except the call itself and the state of the paths in it.

    `mode` is never above `ceiling`: use `effective_mode`. `prompting` says that a user can be asked. `approved` holds
    digests of calls that the user has approved. `planning`: plan mode is on. `search_path` is the PATH that commands
    will run with: a program found inside the roots is not trusted as the system program of that name. `cwd` is the
    folder where a shell command starts; None: the project. `sandboxed`: the operating system keeps shell commands
    inside their walls, so that they run unasked; `read_only_holds`: it does so in
    read-only and plan mode too; `network` is off, ask or on; `closed` are folders no command may have.
    """

    mode: PermissionMode
    project: Path
    roots: tuple[Path, ...]
    ceiling: PermissionMode = PermissionMode.ALLOW
    rules: RuleSet = NO_RULES
    grants: tuple[Grant, ...] = ()
    approved: frozenset[str] = frozenset()
    prompting: bool = False
    planning: bool = False
    hook: Decision | None = None
    search_path: str = ""
    cwd: Path | None = None
    sandboxed: bool = False
    read_only_holds: bool = True
    network: str = "ask"
    closed: tuple[Path, ...] = ()


def effective_mode(requested: PermissionMode, ceiling: PermissionMode) -> PermissionMode:
    """Return the mode in force when a session requests `requested`: never more than the process was started with.

    `prompt` allows nothing without asking, so it is accepted under every ceiling except read-only, where a question
    cannot help.
    """
    if requested.is_at_most(ceiling):
        return requested
    if requested is PermissionMode.PROMPT and ceiling is not PermissionMode.READ_ONLY:
        return requested
    return ceiling
