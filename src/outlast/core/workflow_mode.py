"""The two workflows, the four workflow modes, and the ways in which a mode can be chosen."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

PLAN_TEXT = "approved_plan"
"""Runtime value: the text of the last plan that the user approved."""


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


def plan_mode_values(on: bool) -> dict[str, Any]:
    """Return the runtime values that switch plan mode on or off, as the user or the model requests it."""
    mode = WorkflowMode.PLAN if on else WorkflowMode.EXECUTE
    return {"workflow_mode": str(mode), "workflow_decision_kind": str(DecisionKind.REQUESTED) if on else None}
