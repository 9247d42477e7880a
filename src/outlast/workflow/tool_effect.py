"""Effects of finished tool calls for the definition of done, and guesses at what a shell command checks or changes.

Commands are classified by their first words, for bookkeeping only. A real parser (`outlast.runtime.permissions`)
decides what may run; a wrong guess here can add or skip a verification, but never grants a permission.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

from outlast.core.workflow_records import CommandKind

_ENV = r"^(?:\w+=\S*\s+)*(?:(?:uv|poetry|pipenv|pdm|hatch)\s+run\s+|npx\s+|\.?[\w./-]*/bin/)?"
_PYTHON_M = r"(?:python[\d.]*\s+-m\s+)?"
_TESTS = (
    r"(pytest|py\.test|unittest|nose2|tox|nox|(npm|pnpm|yarn|bun)\s+(run\s+)?test|jest|vitest|mocha"
    r"|cargo\s+(test|nextest)|go\s+test|make\s+(test|check)|ctest|mvn\s+\S*test|gradlew?\s+\S*test|rspec"
    r"|rake\s+test|phpunit|dotnet\s+test|swift\s+test|mix\s+test)\b"
)
_BUILDS = (
    r"(cargo\s+(build|check)|go\s+build|npm\s+run\s+build|make(\s+(build|all))?$|cmake\s+--build|mvn\s+package"
    r"|dotnet\s+build|py_compile|compileall)\b"
)
_PATTERNS = (
    (CommandKind.TYPECHECK, r"(pyright|mypy|tsc|pyre|ty\s+check|npm\s+run\s+typecheck)\b"),
    (CommandKind.LINT, r"(ruff|flake8|pylint|eslint|cargo\s+clippy|go\s+vet|npm\s+run\s+lint|make\s+lint)\b"),
    (CommandKind.TEST, _TESTS),
    (CommandKind.BUILD, _BUILDS),
    (CommandKind.SMOKE, r"(test\s+(!\s+)?-[a-z]\s|\[\s+-[a-z]\s|bash\s+-n\s|node\s+--check\s|ls\s+\S)"),
)
_KINDS = [(kind, re.compile(_ENV + _PYTHON_M + pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS]
_CHECKING = {CommandKind.TEST, CommandKind.TYPECHECK, CommandKind.LINT}

_READING = re.compile(
    _ENV
    + r"(ls|cat|head|tail|less|grep|rg|ag|find|fd|wc|pwd|echo|printf|which|type|file|stat|du|df|tree|env|date|uname"
    r"|whoami|sort|uniq|cut|diff|cmp|test|\[|true|sleep|ps|jq|sha256sum|md5sum"
    r"|git\s+(status|log|diff|show|branch|remote|rev-parse|ls-files|blame|grep)"
    r"|python[\d.]*\s+(--version|-V)|node\s+(--version|-v)|pip\s+(list|show|freeze))(\s|$)",
    re.IGNORECASE,
)
_WRITES = re.compile(r"(?<![\d&])>{1,2}(?!\s*/dev/null|&)|\s-delete\b|\s-exec\b|\btee\s|\bsed\s+(-\w*i|--in-place)")
_SPLIT = re.compile(r"&&|\|\||[;|\n]")

INSTALL = re.compile(
    r"\b((pip|pip3|uv\s+pip|poetry|pdm|npm|pnpm|yarn|bun|apt|apt-get|brew|cargo|gem|go|conda|dnf|apk)\s+"
    r"(install|add|i|ci|get|sync)|(uv|poetry)\s+sync|pip\s+download|bundle\s+install)\b",
    re.IGNORECASE,
)


def _parts(command: str) -> list[str]:
    return [part.strip() for part in _SPLIT.split(command) if part.strip()]


def kind_of(command: str) -> CommandKind:
    """Classify what running the command can show."""
    for part in _parts(command):
        for kind, pattern in _KINDS:
            if pattern.match(part):
                return kind
    return CommandKind.RUNTIME


def looks_like_a_test(command: str) -> bool:
    """Whether the command is a test, type check or lint of the project, and not an installation."""
    return kind_of(command) in _CHECKING and not INSTALL.search(command)


def changes_something(command: str) -> bool:
    """Whether the command may change something: false only if all its parts are known to read or check."""
    if _WRITES.search(command):
        return True
    checking = {*_CHECKING, CommandKind.SMOKE, CommandKind.BUILD}
    parts = _parts(command)
    return not all(_READING.match(part) or part.startswith("cd ") or kind_of(part) in checking for part in parts)


def installs(command: str) -> bool:
    return INSTALL.search(command) is not None


WRITING = frozenset({"write", "edit", "apply_patch"})
SHELL = frozenset({"bash", "shell"})
OPEN_STATES = frozenset({"pending", "in_progress", "open", "todo", "doing", "blocked"})

Items = tuple[tuple[str, ...], tuple[str, ...]]


class ToolEffect(msgspec.Struct, frozen=True, kw_only=True):
    """`changed`: the call altered something; `items` are the (pending, completed) items of a todo list call."""

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
    """Return the effect of a call. `facts` are those of its result (`outlast.runtime.tools`), if any."""
    known = facts or {}
    if name in SHELL:
        command = str(arguments.get("command", ""))
        changed = changes_something(command)
        if "job_id" in known:  # a background job: its outcome is not known yet
            return ToolEffect(label=f"{name}: {command}", succeeded=not is_error, changed=changed)
        succeeded = not is_error and known.get("exit_code", 0) in (0, None)
        return ToolEffect(label=f"{name}: {command}", succeeded=succeeded, changed=changed, command=command)
    if name in WRITING:
        named = known.get("paths") or [known.get("path") or arguments.get("file_path") or ""]
        paths = tuple(path for one in named if (path := relative(str(one), project)))
        return ToolEffect(
            label=f"{name}: {', '.join(paths)}",
            succeeded=not is_error,
            changed=not is_error and bool(paths),
            touched=paths,
            lines=_lines(name, arguments, known),
        )
    touched = tuple(relative(str(path), project) for path in known.get("touched_files") or ())
    if touched:  # a sub-agent changed files, even if it failed later
        return ToolEffect(
            label=name, succeeded=True, changed=True, touched=touched, lines=_lines(name, arguments, known)
        )
    items = _items(arguments.get("items")) if name == "todo" and not is_error else None
    return ToolEffect(label=name, succeeded=not is_error, items=items)


def relative(path: str, project: str) -> str:
    """Return the normalised path, relative to the project if it is inside it."""
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
