"""The brief: what the clarify lane found out about a task.

The log is the only truth: a brief is a value in `RuntimeStateChanged` under `KEY`. Markdown is an export, and the form
that models write.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from outlast.core.record_storage import dump, load
from outlast.runtime.workflow.markdown_sections import listed, one_line, sections

KEY = "workflow_brief"


class Slot(StrEnum):
    """What has to be known before work on an unclear task, in the order it is asked for."""

    DESIRED_OUTCOME = "desired_outcome"
    ACCEPTANCE_CRITERIA = "acceptance_criteria"
    NON_GOALS = "non_goals"
    DECISION_BOUNDARIES = "decision_boundaries"
    CONSTRAINTS = "constraints"
    LIKELY_TOUCHPOINTS = "likely_touchpoints"


class Brief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`rounds` counts the answers of the user it is made of; `pressure_passed` is set once a scope was challenged."""

    task: str
    desired_outcome: list[str] = []
    non_goals: list[str] = []
    acceptance_criteria: list[str] = []
    constraints: list[str] = []
    decision_boundaries: list[str] = []
    likely_touchpoints: list[str] = []
    assumptions: list[str] = []
    open_questions: list[str] = []
    rounds: int = 0
    pressure_passed: bool = False

    def slot(self, slot: Slot) -> list[str]:
        return getattr(self, slot.value)


_NAMES = {
    "desired outcome": "desired_outcome",
    "outcome": "desired_outcome",
    "goal": "desired_outcome",
    "goals": "desired_outcome",
    "non goals": "non_goals",
    "non goal": "non_goals",
    "out of scope": "non_goals",
    "acceptance criteria": "acceptance_criteria",
    "done when": "acceptance_criteria",
    "constraints": "constraints",
    "constraint": "constraints",
    "decision boundaries": "decision_boundaries",
    "decision boundary": "decision_boundaries",
    "ask before": "decision_boundaries",
    "escalate": "decision_boundaries",
    "likely touchpoints": "likely_touchpoints",
    "touchpoints": "likely_touchpoints",
    "files": "likely_touchpoints",
    "assumptions": "assumptions",
    "open questions": "open_questions",
    "questions": "open_questions",
}
_TITLES = {
    "desired_outcome": "Desired outcome",
    "non_goals": "Non-goals",
    "acceptance_criteria": "Acceptance criteria",
    "constraints": "Constraints",
    "decision_boundaries": "Decision boundaries",
    "likely_touchpoints": "Likely touchpoints",
    "assumptions": "Assumptions",
    "open_questions": "Open questions",
}


def parsed(text: str, task: str, before: Brief | None = None) -> Brief:
    """The brief in a model's text, on top of the one there was: a section that is missing there stays as it was."""
    found: dict[str, Any] = dict(sections(text, _NAMES))
    base = before if before is not None and before.task == task else Brief(task=task)
    return msgspec.structs.replace(base, **found)


def rendered(brief: Brief) -> str:
    """The brief as Markdown that `parsed` reads."""
    body = [listed(title, getattr(brief, name)) for name, title in _TITLES.items()]
    return "\n".join([f"# Brief: {one_line(brief.task)}", "", *body])


def stored(brief: Brief | None) -> dict[str, Any]:
    """The change of runtime state that records it; None forgets it."""
    return {KEY: None if brief is None else dump(brief)}


def of_runtime(runtime: dict[str, Any]) -> Brief | None:
    value = runtime.get(KEY)
    return None if value is None else load(Brief, value)
