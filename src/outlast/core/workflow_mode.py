"""The four workflow modes, and how a mode came to be chosen."""

from __future__ import annotations

from enum import StrEnum


class WorkflowMode(StrEnum):
    CLARIFY = "clarify"
    PLAN = "plan"
    EXECUTE = "execute"
    VERIFY = "verify"


class DecisionKind(StrEnum):
    INITIAL_ROUTE = "initial_route"
    REQUESTED = "requested"
    ARTIFACT_REUSE = "artifact_reuse"
    HANDOFF = "handoff"
    REENTRY = "reentry"
    FORCED = "forced"


def mode_of(name: object, otherwise: WorkflowMode = WorkflowMode.EXECUTE) -> WorkflowMode:
    """The mode of that name; a name from a log that this version does not know is `otherwise`."""
    return WorkflowMode(name) if isinstance(name, str) and name in set(WorkflowMode) else otherwise
