"""What a task's wording, the artifacts and the recent timeline say about how to work on it."""

from __future__ import annotations

import re

import msgspec

from outlast.core.workflow_mode import WorkflowMode
from outlast.core.workflow_records import EntryKind, WorkflowTimelineEntry
from outlast.runtime.workflow.text_similarity import words

MEMORY = 6
"""How many of the latest entries the router looks at."""

UNSURE = re.compile(
    r"\b(not sure|unsure|uncertain|unclear|ambiguous|clarify|don'?t know|do not know|no idea|ask me"
    r"|help me (decide|choose)|figure out what|which (approach|option)|what (should|would) (i|we)"
    r"|open to (ideas|suggestions)"
    r"|interview me)\b",
    re.IGNORECASE,
)
VAGUE = re.compile(
    r"\b(better|nicer|cleaner|improve|improvements?|optimi[sz]e|enhance|polish|stuff|things?|something|somehow|etc"
    r"|various|modern|robust|maybe|perhaps|clean (it )?up|make it work|fix it|as needed|whatever)\b",
    re.IGNORECASE,
)
ANCHOR = re.compile(r"[/\\`]|\b[\w-]+\.[A-Za-z]\w{0,7}\b|\b(tests?|files?|functions?|class(es)?)\b", re.IGNORECASE)
BUILDING = re.compile(r"\b(build|add|improve|refactor|implement)\b", re.IGNORECASE)
STRUCTURAL = re.compile(
    r"\b(refactor(ing)?|migrat(e|ion|ing)|workflows?|reports?|plan|architecture|redesign|rewrite|restructure|overhaul"
    r"|integrat(e|ion)|pipelines?|framework|subsystem|end[- ]to[- ]end|multi[- ]step)\b",
    re.IGNORECASE,
)


def exact(score: float) -> float:
    """Rounded, so that sums like 0.2 + 0.15 + 0.2 meet their thresholds, and kept within 0 and 1."""
    return round(min(max(score, 0.0), 1.0), 4)


def ambiguity(task: str, *, clarify_flag: bool = False) -> float:
    """0 to 1: how much is left open by the wording."""
    short = len(words(task)) <= 12 and BUILDING.search(task) is not None
    return exact(
        0.65 * (clarify_flag or UNSURE.search(task) is not None)
        + 0.20 * (VAGUE.search(task) is not None)
        + 0.20 * (ANCHOR.search(task) is None)
        + 0.15 * short
    )


def complexity(task: str) -> float:
    """0 to 1: how much there is to do."""
    said = words(task)
    return exact(
        0.20 * (len(said) >= 18)
        + 0.15 * (len(said) >= 30)
        + 0.30 * (STRUCTURAL.search(task) is not None)
        + 0.15 * (said.count("and") >= 2 or task.count(",") >= 2)
        + 0.10 * (ANCHOR.search(task) is not None)
    )


class Signals(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a task is routed. `recent` is the timeline; only its last six entries are looked at.

    `stale_plan`: a plan exists and no longer fits; `verification_pressure`: verification failed or is demanded;
    `mutating_history`: files were changed for this task before.
    """

    requested: WorkflowMode | None = None
    clarify_flag: bool = False
    clarify_allowed: bool = True
    plan_allowed: bool = True
    has_brief: bool = False
    has_plan: bool = False
    stale_plan: bool = False
    open_questions: tuple[str, ...] = ()
    verification_pressure: bool = False
    mutating_history: bool = False
    recent: tuple[WorkflowTimelineEntry, ...] = ()

    @property
    def memory(self) -> tuple[WorkflowTimelineEntry, ...]:
        return self.recent[-MEMORY:]

    def lately(self, kind: EntryKind) -> bool:
        return any(entry.kind == kind for entry in self.memory)

    @property
    def recent_clarify(self) -> bool:
        """A recent entry of the clarify lane that left questions open."""
        return any(entry.mode == WorkflowMode.CLARIFY and entry.unresolved_questions for entry in self.memory)

    def names(self) -> list[str]:
        """The signals that were set, for the timeline."""
        said = {
            "clarify flag": self.clarify_flag,
            "clarify not allowed": not self.clarify_allowed,
            "brief": self.has_brief,
            "plan": self.has_plan,
            "stale plan": self.stale_plan,
            "open questions": bool(self.open_questions),
            "verification pressure": self.verification_pressure,
            "mutating history": self.mutating_history,
            "recent clarify": self.recent_clarify,
            "recent reentry": self.lately(EntryKind.REENTRY),
            "recent plan refresh": self.lately(EntryKind.PLAN_REFRESH),
            "recent verify skip": self.lately(EntryKind.VERIFY_SKIP),
        }
        return [name for name, is_set in said.items() if is_set]
