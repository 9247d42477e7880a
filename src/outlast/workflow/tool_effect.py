"""Effects of finished tool calls for the definition of done, and what the exit code of a shell command can prove.

A change counts only where it is known: a file tool that succeeded, or a command that visibly writes. A wrong guess can
add or skip one verification; it never grants a permission (`outlast.runtime.permissions` has the real parser).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

_WRITES = re.compile(
    r"(?<![\d&])>{1,2}(?!\s*/dev/null|&)|\btee\s|\bsed\s+(-\w*i|--in-place)|\s-delete\b"
    r"|(?:^|[;&|(\n])\s*(?:rm|mv|cp|mkdir|rmdir|touch|ln|patch|truncate|rsync"
    r"|git\s+(?:apply|am|checkout|restore|reset|revert|merge|rebase|cherry-pick|pull|stash|mv|rm|clean))\s"
)

WRITING = frozenset({"write", "edit", "apply_patch"})
SHELL = frozenset({"bash", "shell"})


def is_change(command: str) -> bool:
    """Whether the command visibly writes: a redirection, or a program that changes files."""
    return _WRITES.search(command) is not None


def is_conclusive(command: str) -> bool:
    """Whether exit code 0 shows that the whole command succeeded. False for pipelines, `;`, `||`, `&`, `!` and several
    lines: there it shows only how the last part ended. A chain with `&&` is conclusive."""
    lexer = shlex.shlex(command.strip(), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # an unclosed quote
        return False
    loose = any(set(word) <= set("();<>|&") and word != "&&" and set(word) & set("|;&") for word in _operators(words))
    return bool(words) and not loose and "!" not in words and "\n" not in command.strip()


def _operators(words: Sequence[str]) -> list[str]:
    """Return the operators, without redirections such as `2>&1` and `&>`."""
    return [word for word in words if word and ">" not in word and "<" not in word]


def normal_command(command: str) -> str:
    """Return the command on one line with single spaces, to compare it with a named one."""
    return " ".join(command.split())


Items = tuple[tuple[str, ...], tuple[str, ...]]


class ToolEffect(msgspec.Struct, frozen=True, kw_only=True):
    """`changed`: the call is known to have altered something; `items` are the (pending, completed) ones of a todo
    list call."""

    label: str
    succeeded: bool
    changed: bool = False
    touched: tuple[str, ...] = ()
    lines: int = 0
    command: str | None = None
    items: Items | None = None


def effect_of(
    name: str, arguments: Mapping[str, Any], *, is_error: bool, project: str, facts: Mapping[str, Any] | None = None
) -> ToolEffect:
    """Return the effect of a call. `facts` are those of its result (`outlast.runtime.tools`), if any."""
    known = facts or {}
    if name in SHELL:
        command = str(arguments.get("command", ""))
        ran = None if "job_id" in known else command  # the outcome of a background job is not known yet
        return ToolEffect(label=f"{name}: {command}", succeeded=not is_error, changed=is_change(command), command=ran)
    if name in WRITING or known.get("touched_files"):
        touched = _touched(arguments, known, project)
        is_done = not is_error or name not in WRITING  # a sub-agent changed these files, even if it failed later
        return ToolEffect(
            label=f"{name}: {', '.join(touched)}",
            succeeded=is_done,
            changed=is_done and bool(touched),
            touched=touched,
            lines=_lines(name, arguments, known),
        )
    items = _items(arguments.get("items")) if name == "todo" and not is_error else None
    return ToolEffect(label=name, succeeded=not is_error, items=items)


def _touched(arguments: Mapping[str, Any], facts: Mapping[str, Any], project: str) -> tuple[str, ...]:
    """Return the paths that the call changed: several of a patch or a sub-agent, one of another file tool."""
    several: object = facts.get("touched_files") or facts.get("paths")
    if isinstance(several, Sequence) and not isinstance(several, str):
        paths = [str(path) for path in cast("Sequence[object]", several)]
    else:
        paths = [str(facts.get("path") or arguments.get("file_path") or "")]
    return tuple(dict.fromkeys(relative(path, project) for path in paths if path))


def relative(path: str, project: str) -> str:
    """Return the normalised path, relative to the project if it is inside it."""
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
    items = [
        cast("Mapping[str, object]", item) for item in cast("Sequence[object]", given) if isinstance(item, Mapping)
    ]
    pending = tuple(str(item.get("content", "")) for item in items if item.get("status") != "completed")
    return pending, tuple(str(item.get("content", "")) for item in items if item.get("status") == "completed")
