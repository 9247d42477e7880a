"""Sub-agent definitions of Claude Code (`.claude/agents/*.md`), read as personas.

Their names of tools are translated to ours, a name that we have no tool for is dropped, and other keys than name,
description and tools are ignored: a model alias names no model here, and nothing in the file gives a right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from outlast.runtime.prompt.front_matter import Malformed

FOLDER = ".claude/agents"

_RULE = re.compile(r"\([^()]*\)")
_TOOLS: Mapping[str, tuple[str, ...]] = {
    "Read": ("read",),
    "NotebookRead": ("read",),
    "LS": ("read", "glob"),
    "Glob": ("glob",),
    "Grep": ("search",),
    "Edit": ("edit", "apply_patch"),
    "MultiEdit": ("edit", "apply_patch"),
    "NotebookEdit": ("edit",),
    "Write": ("write",),
    "Bash": ("bash", "bash_output", "bash_kill"),
    "BashOutput": ("bash_output",),
    "KillShell": ("bash_kill",),
    "KillBash": ("bash_kill",),
    "WebFetch": ("web_fetch",),
    "Task": ("task",),
    "Agent": ("task",),
    "TodoWrite": ("todo",),
    "AskUserQuestion": ("ask_user",),
    "Skill": ("skill",),
    "EnterPlanMode": ("enter_plan",),
    "ExitPlanMode": ("exit_plan",),
}
_OWN = frozenset(name for names in _TOOLS.values() for name in names) | {"recall"}


def persona_keys(table: Mapping[str, object]) -> dict[str, object]:
    """Return the keys of a definition in the form that our personas have."""
    keys = {key: table[key] for key in ("name", "description", "prompt") if key in table}
    tools = table.get("tools")
    if tools is None or tools in ("", "*"):
        return keys
    return {**keys, "tools": own_names(tools)}


def own_names(tools: object) -> list[str]:
    """Translate names of tools, given as a list or as text with commas: `Bash(git log:*)` is `bash`."""
    if isinstance(tools, str):
        listed = _RULE.sub("", tools).split(",")
    elif isinstance(tools, list):
        listed = [_RULE.sub("", str(item)) for item in cast("list[object]", tools)]
    else:
        raise Malformed("tools must be a list of names, like Read, Grep, Bash")
    names: dict[str, None] = {}
    for name in (item.strip() for item in listed):
        names.update(dict.fromkeys(_TOOLS.get(name, (name,) if name in _OWN else ())))
    return list(names)
