"""Drift: where the work has left its brief and its plan, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from outlast.runtime.workflow.brief import Brief
from outlast.runtime.workflow.evidence import DriftEvidence, EvidenceKind
from outlast.runtime.workflow.plan import WorkPlan, paths_in
from outlast.runtime.workflow.text_similarity import likeness, meaningful


class Strategy(StrEnum):
    PLAN_REFRESH = "plan_refresh"
    CLARIFY_REENTRY = "clarify_reentry"
    FULL_REPLAN = "full_replan"


PLAN_CODES = ("touched_files_outside_plan", "acceptance_criteria_outside_plan")
BRIEF_CODES = ("brief_missing_acceptance_scope", "touchpoints_outside_brief", "task_drifted_beyond_brief")

SUMMARIES = {
    "touched_files_outside_plan": "files were changed that the plan does not name",
    "acceptance_criteria_outside_plan": "there are acceptance criteria that the plan does not cover",
    "brief_missing_acceptance_scope": "the brief says nothing about what the work must fulfil",
    "touchpoints_outside_brief": "files were changed that the brief does not expect",
    "task_drifted_beyond_brief": "the task is no longer the one that the brief was made for",
}


class Reality(msgspec.Struct, frozen=True, kw_only=True):
    """What was really done. Paths are relative to the project; `failed_commands` are verifications that failed."""

    task: str
    touched_files: Sequence[str] = ()
    acceptance_criteria: Sequence[str] = ()
    failed_commands: Sequence[str] = ()


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    codes: tuple[str, ...] = ()
    evidence: tuple[DriftEvidence, ...] = ()

    @property
    def stale_plan(self) -> bool:
        return any(code in PLAN_CODES for code in self.codes)

    @property
    def stale_brief(self) -> bool:
        return any(code in BRIEF_CODES for code in self.codes)

    @property
    def strategy(self) -> Strategy | None:
        if self.stale_plan and self.stale_brief:
            return Strategy.FULL_REPLAN
        if self.stale_plan:
            return Strategy.PLAN_REFRESH
        return Strategy.CLARIFY_REENTRY if self.stale_brief else None

    @property
    def summary(self) -> str:
        return "; ".join(SUMMARIES[code] for code in self.codes)


def drift(reality: Reality, brief: Brief | None, plan: WorkPlan | None) -> Drift:
    """Artifact against reality. Without artifacts nothing can drift from them."""
    codes: list[str] = []
    found: list[DriftEvidence] = []
    if plan is not None:
        _from_plan(reality, plan, codes, found)
    if brief is not None:
        _from_brief(reality, brief, codes, found)
    if brief is not None or plan is not None:
        found += [
            _evidence(EvidenceKind.VERIFICATION_CONTRADICTION, f"Verification with `{command}` failed.", command)
            for command in reality.failed_commands
        ]
    return Drift(codes=tuple(codes), evidence=tuple(dict.fromkeys(found)))


def _from_plan(reality: Reality, plan: WorkPlan, codes: list[str], found: list[DriftEvidence]) -> None:
    outside = _outside(reality.touched_files, plan.touchpoints)
    if outside:
        codes.append("touched_files_outside_plan")
        found += [
            _evidence(
                EvidenceKind.CONFIRMED_TOUCHPOINT, f"`{path}` was changed though the plan does not name it.", path
            )
            for path in outside
        ]
    loose = _uncovered(reality.acceptance_criteria, [*plan.acceptance_criteria, *plan.steps, plan.task])
    if loose:
        codes.append("acceptance_criteria_outside_plan")
        found += [_evidence(EvidenceKind.ACCEPTANCE_ANCHOR, text, text) for text in loose]


def _from_brief(reality: Reality, brief: Brief, codes: list[str], found: list[DriftEvidence]) -> None:
    if reality.acceptance_criteria and not brief.acceptance_criteria:
        codes.append("brief_missing_acceptance_scope")
        found += [_evidence(EvidenceKind.ACCEPTANCE_ANCHOR, text, text) for text in reality.acceptance_criteria]
    outside = _outside(reality.touched_files, brief.likely_touchpoints)
    if outside:
        codes.append("touchpoints_outside_brief")
        found += [
            _evidence(
                EvidenceKind.CONFIRMED_TOUCHPOINT, f"`{path}` was changed though the brief does not expect it.", path
            )
            for path in outside
        ]
    found += _contradictions(reality, brief)
    if _is_other_task(reality.task, brief):
        codes.append("task_drifted_beyond_brief")
        text = f"The task is now: {reality.task}"
        found.append(_evidence(EvidenceKind.TASK_BOUNDARY_CHANGE, text, reality.task))
        found += [
            _evidence(EvidenceKind.INFERRED_TOUCHPOINT, f"The task now names `{path}`.", path)
            for path in _outside(paths_in(reality.task), brief.likely_touchpoints)
        ]


def _contradictions(reality: Reality, brief: Brief) -> list[DriftEvidence]:
    """Changed files that a non-goal or an assumption had kept out."""
    return [
        _evidence(EvidenceKind.CONTRADICTED_ASSUMPTION, f"Changed `{path}` against: {text}", path)
        for path in reality.touched_files
        for text in [*brief.non_goals, *brief.assumptions]
        if path.rsplit("/", 1)[-1].lower() in meaningful(text) or path.lower() in meaningful(text)
    ]


def _outside(paths: Sequence[str], expected: Sequence[str]) -> list[str]:
    """The paths that no expected file, folder or pattern covers; none when nothing is expected in particular."""
    wanted = [path for item in expected for path in (paths_in(item) or [item.strip("` ")])]
    if not wanted:
        return []
    return [path for path in paths if not any(covers(known, path) for known in wanted)]


def covers(known: str, path: str) -> bool:
    """Whether `known` (a file, a bare file name, a folder, or a pattern) stands for `path`."""
    if known.endswith("/"):
        return path.startswith(known) or f"/{known}" in f"/{path}"
    return path == known or path.endswith(f"/{known}") or known.endswith(f"/{path}") or fnmatchcase(path, known)


def _uncovered(criteria: Sequence[str], known: Sequence[str]) -> list[str]:
    return [text for text in criteria if not any(likeness(text, other) for other in known)]


def _is_other_task(task: str, brief: Brief) -> bool:
    known = [brief.task, *brief.desired_outcome, *brief.acceptance_criteria]
    return len(meaningful(task)) >= 2 and not any(likeness(task, text) for text in known)


def _evidence(kind: EvidenceKind, text: str, subject: str) -> DriftEvidence:
    return DriftEvidence(kind=kind, text=text, subject=subject)
