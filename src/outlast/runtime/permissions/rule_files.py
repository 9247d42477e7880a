"""The sources of permission rules, and how far each one is trusted.

| source | allow | deny, ask |
|---|---|---|
| `$OUTLAST_HOME/permission-rules.json`, the user's own | counts | count |
| `$OUTLAST_HOME/projects/<key>/permission-rules.json`, what the user answered with "always" | counts | count |
| `--allow` flags | counts | |
| `.outlast/permission-rules.json` of the project | only after consent to these bytes | count |
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import msgspec

from outlast.core.errors import ConfigError
from outlast.runtime.permissions.consent import Consents, content_digest
from outlast.runtime.permissions.rules import FILE_NAME, PermissionRule, RuleSet, flag_rules, parse_rules, read_rules
from outlast.runtime.private_file import Table, read_bytes, update_locked

ALWAYS = "always"
"""How the origin of rules begins that come from the user's answers "always". They cover less than written rules."""


class PendingConsent(msgspec.Struct, frozen=True, kw_only=True):
    """Project content that has no effect yet: show `content`, then call `Consents.give(path, digest)`."""

    path: Path
    content: bytes
    digest: str


class LoadedRules(msgspec.Struct, frozen=True, kw_only=True):
    rules: RuleSet
    pending: PendingConsent | None = None


def load_rules(*, home: Path, project: Path, project_key: str, flags: Iterable[str] = ()) -> LoadedRules:
    """Load all rules for a project. Raises ConfigError if a file is malformed; the agent must then not start."""
    own = read_rules(home / FILE_NAME) + _answers(grants_file(home, project_key)) + flag_rules(flags, project)
    path = project / ".outlast" / FILE_NAME
    if os.path.realpath(path) == os.path.realpath(home / FILE_NAME):
        return LoadedRules(rules=own)  # the project is the user's home directory, so this file is the user's own
    content = read_bytes(path)
    if content is None:
        return LoadedRules(rules=own)
    theirs, digest = parse_rules(path, content), content_digest(content)
    if not theirs.allow or Consents(home).covers(path, digest):
        return LoadedRules(rules=own + theirs)
    return LoadedRules(
        rules=own + theirs.without_allow(), pending=PendingConsent(path=path, content=content, digest=digest)
    )


def _answers(path: Path) -> RuleSet:
    """Return what the user answered with "always", as rules that say where they come from."""
    found = read_rules(path)
    told = (msgspec.structs.replace(rule, origin=f"{ALWAYS}, {rule.origin}") for rule in found.allow)
    return msgspec.structs.replace(found, allow=tuple(told))


def grants_file(home: Path, project_key: str) -> Path:
    if not project_key.isalnum() or not project_key.isascii():
        raise ConfigError(f"the project key '{project_key}' is not one; it has only letters and digits")
    return home / "projects" / project_key / FILE_NAME


def save_grant(home: Path, project_key: str, *rules: PermissionRule) -> None:
    """Allow calls that match one of `rules` in this project from now on; durable on return."""
    path = grants_file(home, project_key)
    read_rules(path)  # raises ConfigError for a damaged file instead of overwriting it

    def edit(table: Table) -> Table:
        known = cast("list[object]", table.get("allow", []))
        return {**table, "allow": [*known, *(new for new in (rule.table() for rule in rules) if new not in known)]}

    update_locked(path, edit)
