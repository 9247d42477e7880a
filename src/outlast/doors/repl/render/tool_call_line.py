"""A tool call on one line: what it does, its subject and its result. Invisible characters are made visible."""

from __future__ import annotations

import re
from typing import Any

from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.core.text import visible_line

LONGEST = 100
_SUBJECT = {
    "read": "file_path",
    "write": "file_path",
    "edit": "file_path",
    "glob": "pattern",
    "search": "pattern",
    "bash": "command",
    "bash_output": "job_id",
    "bash_kill": "job_id",
    "web_fetch": "url",
    "task": "prompt",
    "recall": "query",
    "ask_user": "question",
    "enter_plan": "reason",
}

_PLAN_RESULTS: dict[str, dict[bool | None, str]] = {
    "enter_plan": {None: "plan mode is on"},
    "exit_plan": {True: "you approved the plan", False: "you declined the plan", None: "nobody can approve it here"},
}


_PATCHED = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): *(.+?)\s*$", re.MULTILINE)


def one_line(text: str, longest: int = LONGEST) -> str:
    """One line with every character visible, cut if it is too long."""
    return visible_line(text, longest)


def told_call(name: str, arguments: dict[str, Any], longest: int = LONGEST) -> str:
    """A short description of a call: `npm test` for a command, `edit src/a.py` for a file."""
    subject = arguments.get(_SUBJECT.get(name, ""))
    if name == "apply_patch":
        subject = ", ".join(_PATCHED.findall(str(arguments.get("patch", "")))) or None
    if name == "bash" and isinstance(subject, str) and subject.strip():
        return f"`{one_line(subject, longest)}`"
    if name == "recall" and subject is None:
        subject = f"event {arguments.get('seq')}"
    if name in {"todo", "exit_plan"}:
        return name
    if subject is None:
        subject = next((value for value in arguments.values() if isinstance(value, str)), "")
    return f"{one_line(name, 40)} {one_line(str(subject), longest)}".rstrip()


def titled_call(name: str, arguments: dict[str, Any], longest: int = LONGEST) -> str:
    """The same with the tool's name, for a line that stands alone."""
    told = told_call(name, arguments, longest)
    return f"bash {told}" if told.startswith("`") else told


def told_result(event: e.ToolCallFinished) -> str:
    """The result of a call in a few words."""
    facts = event.facts
    text = text_of(event.parts)
    if event.status in {"blocked", "declined", "malformed", "unknown_tool", "invalid_arguments"}:
        return one_line(text.removeprefix("Not executed: "), 600)
    if event.status in {"cancelled", "unknown"}:
        return "interrupted, outcome unknown" if "unknown" in text else "not executed: cancelled"
    if event.name in _PLAN_RESULTS and ("approved" in facts or not event.is_error):
        return _PLAN_RESULTS[event.name][facts.get("approved")]
    if event.is_error:
        code = facts.get("exit_code")
        return f"exit code {code}" if code else one_line(text.strip().splitlines()[-1] if text.strip() else "failed")
    if "added" in facts:
        return f"+{facts['added']} -{facts['removed']}"
    if event.name == "bash":
        seconds = facts.get("seconds")
        lines = len(text.splitlines()) if text != "(no output)" else 0
        told = f"{lines} line{'' if lines == 1 else 's'}"
        return f"{told}, {seconds:.1f} s" if isinstance(seconds, int | float) else told
    lines = len(text.splitlines())
    return f"{lines} line{'' if lines == 1 else 's'}" if lines != 1 else one_line(text, 80)
