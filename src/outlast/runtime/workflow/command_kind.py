"""Shell commands as the workflow sees them: what they check, whether they change anything.

Judged by their first words, for bookkeeping only. What may run is decided elsewhere, by a real parser
(`outlast.runtime.permissions`); a wrong guess here costs a verification more or less, never a permission.
"""

from __future__ import annotations

import re

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
    """What running it shows."""
    for part in _parts(command):
        for kind, pattern in _KINDS:
            if pattern.match(part):
                return kind
    return CommandKind.RUNTIME


def looks_like_a_test(command: str) -> bool:
    """A test, type check or lint that says something about the project's state."""
    return kind_of(command) in _CHECKING and not INSTALL.search(command)


def changes_something(command: str) -> bool:
    """False for what only reads or checks; anything that is not known counts as a change."""
    if _WRITES.search(command):
        return True
    checking = {*_CHECKING, CommandKind.SMOKE, CommandKind.BUILD}
    parts = _parts(command)
    return not all(_READING.match(part) or part.startswith("cd ") or kind_of(part) in checking for part in parts)


def installs(command: str) -> bool:
    return INSTALL.search(command) is not None
