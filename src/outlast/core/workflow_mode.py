"""The two workflows, the four workflow modes, and the ways in which a mode can be chosen."""

from __future__ import annotations

from enum import StrEnum


class Workflow(StrEnum):
    """Who leads a turn: the model alone, or the model with the guided workflow's plans, checks and verification."""

    PLAIN = "plain"
    GUIDED = "guided"


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
    """Return the mode with this name; `otherwise` if this version does not know the name."""
    return WorkflowMode(name) if isinstance(name, str) and name in set(WorkflowMode) else otherwise
