"""What is decided, and by what: a verdict with its reason, and everything that a verdict may depend on."""

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
    """`code` is for audits and never changes its meaning, `reason` is one sentence for people, `rule` what decided."""

    verdict: Verdict
    code: str
    reason: str
    rule: str | None = None


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the user approved for the session: this very call, or simple commands that begin with these words."""

    tool: str
    digest: str = ""
    commands: tuple[tuple[str, ...], ...] = ()

    def facts(self) -> dict[str, Any]:
        """As the log keeps it."""
        return msgspec.to_builtins(self)


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a verdict depends on, besides the call itself and what the paths in it are.

    `mode` is never above `ceiling`: use `effective_mode`. `prompting` says that somebody can be asked. `approved` are
    digests of calls that the user has approved. `search_path` is the PATH that commands will run with: a program that
    would be found inside the roots is nobody's `ls`.
    """

    mode: PermissionMode
    project: Path
    roots: tuple[Path, ...]
    ceiling: PermissionMode = PermissionMode.ALLOW
    rules: RuleSet = NO_RULES
    grants: tuple[Grant, ...] = ()
    approved: frozenset[str] = frozenset()
    prompting: bool = False
    hook: Decision | None = None
    search_path: str = ""


def effective_mode(requested: PermissionMode, ceiling: PermissionMode) -> PermissionMode:
    """The mode in force when a session asks for `requested`: never more than the process was started with.

    `prompt` allows nothing unasked, so it stands under every ceiling but read-only, where no question helps.
    """
    if requested.is_at_most(ceiling):
        return requested
    if requested is PermissionMode.PROMPT and ceiling is not PermissionMode.READ_ONLY:
        return requested
    return ceiling
