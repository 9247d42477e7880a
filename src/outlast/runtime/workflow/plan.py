"""The plan: steps, files, acceptance and verification, made by the plan lane.

Like the brief it is a value in `RuntimeStateChanged`; its two Markdown forms, implementation and verification plan, are
exports. Verification commands come from a model: they pass the same permissions as any tool call.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from outlast.core.record_storage import dump, load
from outlast.runtime.workflow.markdown_sections import listed, one_line, sections

KEY = "workflow_plan"
MAX_COMMANDS = 10

_FILE = re.compile(r"(?:[\w.@+-]+/)*[\w@+.-]*[\w@+-]\.[A-Za-z]\w{0,7}|(?:[\w.@+-]+/)+")
_TOKEN = re.compile(r"[^\s`'\"(),;<>]+")
_CODE = re.compile(r"`([^`\n]+)`")


class WorkPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`touchpoints` are files and folders (ending in `/`) that it means to change. `revision` counts refreshes."""

    task: str
    steps: list[str] = []
    touchpoints: list[str] = []
    acceptance_criteria: list[str] = []
    verification_commands: list[str] = []
    risks: list[str] = []
    revision: int = 1


_NAMES = {
    "steps": "steps",
    "step": "steps",
    "plan": "steps",
    "implementation": "steps",
    "implementation steps": "steps",
    "implementation plan": "steps",
    "tasks": "steps",
    "files": "files",
    "files to change": "files",
    "file changes": "files",
    "touchpoints": "files",
    "acceptance criteria": "acceptance_criteria",
    "acceptance": "acceptance_criteria",
    "done when": "acceptance_criteria",
    "verification": "verification",
    "verification commands": "verification",
    "verification plan": "verification",
    "verify": "verification",
    "tests": "verification",
    "risks": "risks",
}


def parsed(text: str, task: str, before: WorkPlan | None = None) -> WorkPlan:
    """The plan in a model's text. Files named in steps count as touchpoints where there is no list of files."""
    found = sections(text, _NAMES)
    steps = found.get("steps", [])
    files = [path for item in found.get("files", []) for path in paths_in(item)]
    if not files:
        files = [path for step in steps for path in paths_in(step)]
    again = before is not None and before.task == task
    return WorkPlan(
        task=task,
        steps=steps,
        touchpoints=list(dict.fromkeys(files)),
        acceptance_criteria=found.get("acceptance_criteria", []),
        verification_commands=_commands(found.get("verification", [])),
        risks=found.get("risks", []),
        revision=before.revision + 1 if again and before is not None else 1,
    )


def paths_in(text: str) -> list[str]:
    """What looks like a file or, with a slash at its end, a folder; never an absolute path or one that climbs out."""
    tokens = (token.removeprefix("./").rstrip(".:!?") for token in _TOKEN.findall(text))
    return [token for token in tokens if _FILE.fullmatch(token) and ".." not in token.split("/")]


def _commands(items: list[str]) -> list[str]:
    """Commands in back-quotes or after a `$`; prose is left to people."""
    found: list[str] = []
    for item in items:
        quoted = _CODE.findall(item)
        found += quoted or ([item[2:]] if item.startswith("$ ") else [])
    return list(dict.fromkeys(one_line(command) for command in found if command.strip()))[:MAX_COMMANDS]


def rendered(plan: WorkPlan) -> str:
    """The implementation plan as Markdown."""
    parts = [
        listed("Steps", plan.steps),
        listed("Files", [f"`{path}`" for path in plan.touchpoints]),
        listed("Acceptance criteria", plan.acceptance_criteria),
        listed("Risks", plan.risks),
    ]
    return "\n".join([f"# Implementation plan: {one_line(plan.task)}", "", *parts])


def verification_rendered(plan: WorkPlan) -> str:
    """The verification plan as Markdown."""
    parts = [
        listed("Acceptance criteria", plan.acceptance_criteria),
        listed("Verification commands", [f"`{command}`" for command in plan.verification_commands]),
    ]
    return "\n".join([f"# Verification plan: {one_line(plan.task)}", "", *parts])


def stored(plan: WorkPlan | None) -> dict[str, Any]:
    """The change of runtime state that records it; None forgets it."""
    return {KEY: None if plan is None else dump(plan)}


def of_runtime(runtime: dict[str, Any]) -> WorkPlan | None:
    value = runtime.get(KEY)
    return None if value is None else load(WorkPlan, value)
