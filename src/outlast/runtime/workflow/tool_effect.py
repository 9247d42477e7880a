"""One finished tool call, as the definition of done counts it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

from outlast.runtime.workflow.command_kind import changes_something

WRITING = frozenset({"write", "edit", "patch"})
SHELL = frozenset({"bash", "shell"})
OPEN_STATES = frozenset({"pending", "in_progress", "open", "todo", "doing", "blocked"})

Items = tuple[tuple[str, ...], tuple[str, ...]]


class ToolEffect(msgspec.Struct, frozen=True, kw_only=True):
    """`changed`: it altered something; `items` are (pending, completed) when it was the list of things to do."""

    label: str
    succeeded: bool
    changed: bool = False
    touched: tuple[str, ...] = ()
    lines: int = 0
    command: str | None = None
    items: Items | None = None


def work_of(
    name: str, arguments: Mapping[str, Any], *, is_error: bool, project: str, facts: Mapping[str, Any] | None = None
) -> ToolEffect:
    """What a call did. `facts` are those of its result (`outlast.runtime.tools`), where it has any."""
    known = facts or {}
    if name in SHELL:
        command = str(arguments.get("command", ""))
        changed = changes_something(command)
        if "job_id" in known:  # it only began, in the background: nobody knows yet how it ends
            return ToolEffect(label=f"{name}: {command}", succeeded=not is_error, changed=changed)
        succeeded = not is_error and known.get("exit_code", 0) in (0, None)
        return ToolEffect(label=f"{name}: {command}", succeeded=succeeded, changed=changed, command=command)
    if name in WRITING:
        path = relative(str(known.get("path") or arguments.get("file_path") or ""), project)
        return ToolEffect(
            label=f"{name}: {path}",
            succeeded=not is_error,
            changed=not is_error and bool(path),
            touched=(path,) if path else (),
            lines=_lines(name, arguments, known),
        )
    items = _items(arguments.get("items")) if name == "todo" and not is_error else None
    return ToolEffect(label=name, succeeded=not is_error, items=items)


def relative(path: str, project: str) -> str:
    """The path as seen from the project, where it is inside it; normalised in any case."""
    if not path:
        return ""
    whole = os.path.normpath(os.path.join(project, path))
    inside = PurePosixPath(whole).is_relative_to(os.path.normpath(project))
    return os.path.relpath(whole, project) if inside else whole


def _lines(name: str, arguments: Mapping[str, Any], facts: Mapping[str, Any]) -> int:
    counted = [count for key in ("added", "removed") if isinstance(count := facts.get(key), int)]
    if counted:
        return max(counted)
    if name == "write":
        return _height(arguments.get("content"))
    return max(_height(arguments.get("old_string")), _height(arguments.get("new_string")))


def _height(text: object) -> int:
    return len(text.splitlines()) if isinstance(text, str) else 0


def _items(given: object) -> Items | None:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        return None
    pending: list[str] = []
    completed: list[str] = []
    for item in cast("Sequence[object]", given):
        if isinstance(item, str):
            pending.append(item)
        elif isinstance(item, Mapping):
            _sort(cast("Mapping[str, object]", item), pending, completed)
    return tuple(pending), tuple(completed)


def _sort(item: Mapping[str, object], pending: list[str], completed: list[str]) -> None:
    text = next((item[key] for key in ("content", "text", "title", "task", "step") if item.get(key)), None)
    if not isinstance(text, str):
        return
    state = item.get("status")
    is_open = state in OPEN_STATES if isinstance(state, str) else not item.get("done", item.get("completed", False))
    (pending if is_open else completed).append(text)
