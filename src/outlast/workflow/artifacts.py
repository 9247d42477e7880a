"""Brief and plan, the results of clarify mode and plan mode, and the Markdown in which models write them.

The log is the only source of truth: both are values in `RuntimeStateChanged`, under `BRIEF_KEY` and `PLAN_KEY`.
Markdown is an export format, and what models write. A heading is `# Name`, `**Name**` or `Name:` on its own line; items
are bullets, numbers, check boxes or plain lines. Verification commands come from a model, so they need the same
permissions as any tool call. The ledger lists what brief and plan assume.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from outlast.core.record_storage import dump, load
from outlast.core.workflow_records import WorkflowLedger, WorkflowLedgerItem

MAX_TEXT = 64 * 1024
MAX_ITEMS = 50
MAX_ITEM = 1_000

_HASHES = re.compile(r"#{1,6}[ \t]+(.+)")
_BOLD = re.compile(r"\*\*([^*]+)\*\*:?")
_COLON = re.compile(r"([A-Za-z][\w /-]{2,40}):")
_BULLET = re.compile(r"(?:[-*+]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(.*)")
_NOTHING = frozenset({"none", "(none)", "n/a", "nothing", "-", "tbd", "unknown"})


def heading(line: str) -> str | None:
    """Return the normalised name in this line if it is a heading."""
    line = line.strip()
    for pattern in (_HASHES, _BOLD, _COLON):
        if found := pattern.fullmatch(line):
            return name_of(found.group(1))
    return None


def name_of(text: str) -> str:
    return " ".join(re.sub(r"[^a-z]+", " ", text.lower()).split())


def sections(text: str, names: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the items under each heading listed in `names`, keyed by its value there; other headings are skipped."""
    found: dict[str, list[str]] = {}
    current: str | None = None
    for line in text[:MAX_TEXT].splitlines():
        if (announced := heading(line)) is not None:
            current = names.get(announced)
            continue
        item = item_of(line)
        if current is None or item is None:
            continue
        items = found.setdefault(current, [])
        if item not in items and len(items) < MAX_ITEMS:
            items.append(item)
    return found


def item_of(line: str) -> str | None:
    """Return the item of a line, on one line; None for a line without content ("none", a rule)."""
    bullet = _BULLET.fullmatch(line.strip())
    text = one_line(bullet.group(1) if bullet else line)
    return None if not text or text.lower().rstrip(".") in _NOTHING or set(text) <= set("-*_`") else text


def one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_ITEM]


def listed(title: str, items: Iterable[str], *, empty: str = "(none)") -> str:
    """Render a heading and its items as Markdown."""
    lines = [f"- {one_line(item)}" for item in items]
    return "\n".join([f"## {title}", "", *(lines or [f"- {empty}"]), ""])


# --- the brief -------------------------------------------------------------------------------------------------------


BRIEF_KEY = "workflow_brief"


class Brief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about a task before the work begins."""

    task: str
    desired_outcome: list[str] = []
    non_goals: list[str] = []
    acceptance_criteria: list[str] = []
    constraints: list[str] = []
    decision_boundaries: list[str] = []
    likely_touchpoints: list[str] = []
    assumptions: list[str] = []
    open_questions: list[str] = []


_BRIEF_NAMES = {
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
_BRIEF_TITLES = {
    "desired_outcome": "Desired outcome",
    "non_goals": "Non-goals",
    "acceptance_criteria": "Acceptance criteria",
    "constraints": "Constraints",
    "decision_boundaries": "Decision boundaries",
    "likely_touchpoints": "Likely touchpoints",
    "assumptions": "Assumptions",
    "open_questions": "Open questions",
}


def parsed_brief(text: str, task: str, before: Brief | None = None) -> Brief:
    """Parse the brief in a model's text; sections missing there keep the content of the brief before, if the task is
    the same."""
    found: dict[str, Any] = dict(sections(text, _BRIEF_NAMES))
    base = before if before is not None and before.task == task else Brief(task=task)
    return msgspec.structs.replace(base, **found)


def rendered_brief(brief: Brief) -> str:
    """Render the brief as Markdown that `parsed_brief` can read."""
    body = [listed(title, getattr(brief, name)) for name, title in _BRIEF_TITLES.items()]
    return "\n".join([f"# Brief: {one_line(brief.task)}", "", *body])


def stored_brief(brief: Brief | None) -> dict[str, Any]:
    """Return the runtime state change that stores the brief; None removes it."""
    return {BRIEF_KEY: None if brief is None else dump(brief)}


def brief_of(runtime: dict[str, Any]) -> Brief | None:
    value = runtime.get(BRIEF_KEY)
    return None if value is None else load(Brief, value)


# --- the plan --------------------------------------------------------------------------------------------------------


PLAN_KEY = "workflow_plan"
MAX_COMMANDS = 10

_FILE = re.compile(r"(?:[\w.@+-]+/)*[\w@+.-]*[\w@+-]\.[A-Za-z]\w{0,7}|(?:[\w.@+-]+/)+")
_TOKEN = re.compile(r"[^\s`'\"(),;<>]+")
_CODE = re.compile(r"`([^`\n]+)`")


class WorkPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`touchpoints` are the files and folders (ending in `/`) to be changed. `revision` grows with every refresh."""

    task: str
    steps: list[str] = []
    touchpoints: list[str] = []
    acceptance_criteria: list[str] = []
    verification_commands: list[str] = []
    risks: list[str] = []
    revision: int = 1


_PLAN_NAMES = {
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


def parsed_plan(text: str, task: str, before: WorkPlan | None = None) -> WorkPlan:
    """Parse the plan in a model's text. Without a known heading for them, every list item is a step; without a list of
    files, the files named in the steps are the touchpoints."""
    found = sections(text, _PLAN_NAMES)
    steps = found.get("steps") or _listed_items(text)
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


def _listed_items(text: str) -> list[str]:
    if sections(text, _PLAN_NAMES):
        return []
    bullets = (line for line in text[:MAX_TEXT].splitlines() if _BULLET.fullmatch(line.strip()))
    return [item for line in bullets if (item := item_of(line)) is not None][:MAX_ITEMS]


def paths_in(text: str) -> list[str]:
    """Return what looks like a file or, with a trailing slash, a folder; never an absolute path or one with `..`."""
    tokens = (token.removeprefix("./").rstrip(".:!?") for token in _TOKEN.findall(text))
    return [token for token in tokens if _FILE.fullmatch(token) and ".." not in token.split("/")]


def _commands(items: list[str]) -> list[str]:
    """Return the commands in back-quotes or after a `$`; prose is ignored."""
    found: list[str] = []
    for item in items:
        quoted = _CODE.findall(item)
        found += quoted or ([item[2:]] if item.startswith("$ ") else [])
    return list(dict.fromkeys(one_line(command) for command in found if command.strip()))[:MAX_COMMANDS]


def rendered_plan(plan: WorkPlan) -> str:
    """Render the implementation plan as Markdown."""
    parts = [
        listed("Steps", plan.steps),
        listed("Files", [f"`{path}`" for path in plan.touchpoints]),
        listed("Acceptance criteria", plan.acceptance_criteria),
        listed("Risks", plan.risks),
    ]
    return "\n".join([f"# Implementation plan: {one_line(plan.task)}", "", *parts])


def rendered_verification_plan(plan: WorkPlan) -> str:
    """Render the verification plan as Markdown."""
    parts = [
        listed("Acceptance criteria", plan.acceptance_criteria),
        listed("Verification commands", [f"`{command}`" for command in plan.verification_commands]),
    ]
    return "\n".join([f"# Verification plan: {one_line(plan.task)}", "", *parts])


def stored_plan(plan: WorkPlan | None) -> dict[str, Any]:
    """Return the runtime state change that stores the plan; None removes it."""
    return {PLAN_KEY: None if plan is None else dump(plan)}


def plan_of(runtime: dict[str, Any]) -> WorkPlan | None:
    value = runtime.get(PLAN_KEY)
    return None if value is None else load(WorkPlan, value)


def outside_plan(plan: WorkPlan, touched: Sequence[str]) -> list[str]:
    """Return the changed files that the plan does not name; none if it names no files at all."""
    return [path for path in touched if plan.touchpoints and not any(covers(known, path) for known in plan.touchpoints)]


def covers(known: str, path: str) -> bool:
    """Whether `known` (a file, a bare file name, a folder, or a pattern) matches `path`."""
    if known.endswith("/"):
        return path.startswith(known) or f"/{known}" in f"/{path}"
    return path == known or path.endswith(f"/{known}") or known.endswith(f"/{path}") or fnmatchcase(path, known)


# --- the ledger ------------------------------------------------------------------------------------------------------


LEDGER_LENGTH = 64
"""Items per list; the oldest items that still have their first status are dropped first."""
FIRST_STATUS = {"assumptions": "open", "acceptance_anchors": "active", "decision_boundaries": "tracked"}


def noted(ledger: WorkflowLedger, phase: str, **texts: Sequence[str]) -> WorkflowLedger:
    """Add these texts, by the name of their list, to the ledger. A text already in it keeps its status."""
    lists = {
        name: _with(getattr(ledger, name), texts.get(name, ()), phase, FIRST_STATUS[name]) for name in FIRST_STATUS
    }
    return WorkflowLedger(**lists)


def _with(
    items: Sequence[WorkflowLedgerItem], texts: Sequence[str], phase: str, status: str
) -> list[WorkflowLedgerItem]:
    known = {one_line(item.text).casefold() for item in items}
    merged = list(items)
    for text in texts:
        if (key := one_line(text).casefold()) and key not in known:
            known.add(key)
            merged.append(WorkflowLedgerItem(text=text.strip(), status=status, introduced_phase=phase))
    while len(merged) > LEDGER_LENGTH:
        untouched = (at for at, item in enumerate(merged) if item.status == status)
        del merged[next(untouched, 0)]
    return merged
