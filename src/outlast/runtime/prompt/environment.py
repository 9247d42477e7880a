"""The environment of a turn as facts for the model: folder, platform, date, permissions, mode.

They may change while a session lives, so they are told in messages and never stand in the system prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from outlast.core.text import show_invisible
from outlast.core.workflow_mode import WorkflowMode
from outlast.runtime.permissions.mode import PermissionMode

PREFIX = "[Outlast runtime]"


class EnvironmentFact(msgspec.Struct, frozen=True, kw_only=True):
    """One fact. `change_only`: it is told only if another text was told under this name before. `once`: it is told
    only if nothing was told under this name, so a later text is not news."""

    name: str
    text: str
    change_only: bool = False
    once: bool = False


def described(facts: Sequence[EnvironmentFact]) -> str:
    """Return the message that tells these facts."""
    return "\n".join([f"{PREFIX} Your environment:", *(f"- {fact.text}" for fact in facts)])


def place_facts(project: str, extra_roots: Sequence[str], platform: str) -> tuple[EnvironmentFact, ...]:
    found: list[EnvironmentFact] = []
    if project:
        found.append(EnvironmentFact(name="project", text=f"Project folder: {show_invisible(project)}"))
    if extra_roots:
        shown = ", ".join(show_invisible(root) for root in extra_roots)
        found.append(EnvironmentFact(name="roots", text=f"Also writable: {shown}"))
    if platform:
        found.append(EnvironmentFact(name="platform", text=f"Platform: {platform}"))
    return tuple(found)


def date_fact(day: str) -> EnvironmentFact:
    """`day` is a day (2026-11-16), never a time."""
    return EnvironmentFact(name="date", text=f"Date: {day}")


_PERMISSIONS = {
    PermissionMode.READ_ONLY: "you may read, not change anything",
    PermissionMode.WORKSPACE_WRITE: "you may change files in the project; other effects are asked about or denied",
    PermissionMode.DANGER_FULL_ACCESS: "you may do anything this user may; take care",
    PermissionMode.PROMPT: "the user is asked about each effect",
    PermissionMode.ALLOW: "everything is allowed but what a rule denies; name the walls a command needs lifted",
}


def permission_fact(mode: PermissionMode, *, prompting: bool) -> EnvironmentFact:
    asked = "can be asked" if prompting else "cannot be asked; what needs approval is denied"
    return EnvironmentFact(
        name="permissions", text=f"Permission mode: {mode} ({_PERMISSIONS[mode]}). The user {asked}."
    )


PLAN_MODE = (
    "Plan mode is on: only reading is allowed. Look at the project, then call exit_plan with your plan; the user "
    "approves it before any change is made."
)
PLAN_MODE_OFF = "Plan mode is off: you may carry the work out."


def plan_mode_fact(mode: WorkflowMode) -> EnvironmentFact:
    if mode is WorkflowMode.PLAN:
        return EnvironmentFact(name="mode", text=PLAN_MODE)
    return EnvironmentFact(name="mode", text=PLAN_MODE_OFF, change_only=True)
