"""Chooses the commands that verify a task, from its plan, the commands used so far, its size and the project's files.

Every path is quoted. Commands are only chosen here; they run as tool calls of effect class N, under the same
permissions as any call. Manifests are read up to a size limit and never executed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from outlast.core.workflow_records import DefinitionOfDone, TaskSize, VerificationEvidence
from outlast.runtime.safe_open import read_inside
from outlast.workflow.tool_effect import kind_of, looks_like_a_test

MAX_COMMANDS = 10
NOT_RUNNABLE = frozenset({126, 127})
"""Exit codes of a shell for a program that is missing or not executable; they say nothing about the work."""

_WANTS_A_RUN = re.compile(r"\b(run|runs|execute|script|prints?|outputs?)\b", re.IGNORECASE)


class ProjectCommands(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about the project folder. `scripts` are touched files that can be run on their own."""

    manifests: frozenset[str] = frozenset()
    npm_scripts: frozenset[str] = frozenset()
    make_targets: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    scripts: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    """Touched files that no longer exist."""
    python: str = "python"


def commands_for(done: DefinitionOfDone, project: ProjectCommands) -> tuple[str, ...]:
    """Return the verification commands; none if no touched file could be checked by a command.

    The plan's commands win. Otherwise the choice is repeated for each attempt, because a repair may touch more files.
    """
    chosen = (
        done.planned_commands
        or [command for command in [*done.successful_commands, *done.failed_commands] if looks_like_a_test(command)]
        or _scripts(done, project)
    )
    if not chosen and done.task_size != TaskSize.SMALL:
        chosen = _by_manifest(project)
    return tuple(dict.fromkeys(chosen or _by_file(done, project)))[:MAX_COMMANDS]


def _scripts(done: DefinitionOfDone, project: ProjectCommands) -> list[str]:
    if not _WANTS_A_RUN.search(done.task_statement):
        return []
    found = [path for path in done.touched_files if path in project.scripts and path not in project.missing]
    return [command for path in found if (command := _runner(path, project)) is not None]


def _runner(path: str, project: ProjectCommands) -> str | None:
    programs = {".py": project.python, ".sh": "bash", ".bash": "bash", ".js": "node", ".mjs": "node", ".rb": "ruby"}
    suffix = f".{path.rsplit('.', 1)[-1]}" if "." in path else ""
    return f"{programs[suffix]} {quoted(path)}" if suffix in programs else None


def _by_file(done: DefinitionOfDone, project: ProjectCommands) -> list[str]:
    """Return commands that check that touched files exist (or deleted ones do not) and that Python files compile."""
    commands: list[str] = []
    for path in done.touched_files:
        if path in project.missing:
            commands.append(f"test ! -e {quoted(path)}")
            continue
        commands.append(f"test -f {quoted(path)}")
        if path.endswith(".py"):
            commands.append(f"{project.python} -m py_compile {quoted(path)}")
    return commands


def _by_manifest(project: ProjectCommands) -> list[str]:
    commands: list[str] = []
    if project.manifests & {"pyproject.toml", "setup.cfg", "pytest.ini", "tox.ini"}:
        commands.append("pytest -q")
        commands += ["ruff check ."] if "ruff" in project.tools else []
    if "package.json" in project.manifests:
        commands += ["npm test"] if "test" in project.npm_scripts else []
        commands += [f"npm run {name}" for name in ("lint", "build") if name in project.npm_scripts]
    if "Cargo.toml" in project.manifests:
        commands.append("cargo test")
    if "go.mod" in project.manifests:
        commands.append("go test ./...")
    if not commands and "test" in project.make_targets:
        commands.append("make test")
    return commands


def quoted(path: str) -> str:
    """Quote a path for the shell; a leading `-` is protected so that no program reads it as an option."""
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def evidence_of(
    command: str, *, exit_code: int | None, stdout: str = "", stderr: str = "", ran: bool = True
) -> VerificationEvidence:
    """Build the evidence of a finished command. `ran` False: it was denied, or interrupted with an unknown outcome."""
    return VerificationEvidence(
        command=command,
        passed=ran and exit_code == 0,
        exit_code=exit_code,
        stdout=stdout,
        stderr=stderr,
        kind=str(kind_of(command)),
        skipped=not ran or exit_code in NOT_RUNNABLE,
    )


def summary_of(evidence: Sequence[VerificationEvidence]) -> str:
    """Return one short paragraph for the end of an answer."""
    good = [f"`{item.command}`" for item in evidence if item.passed]
    rest = [f"`{item.command}`" for item in evidence if item.skipped]
    text = f"Verification passed: {', '.join(good)}."
    return f"{text} Not run: {', '.join(rest)}." if rest else text


LIMIT = 256 * 1024
SCRIPT_HEAD = 64 * 1024
MOST_SCRIPTS = 20
NAMES = ("pyproject.toml", "setup.cfg", "pytest.ini", "tox.ini", "package.json", "Cargo.toml", "go.mod", "Makefile")

_TARGET = re.compile(rb"^([A-Za-z][\w.-]*)\s*:(?!=)", re.MULTILINE)
_TOOL = re.compile(rb"^\[tool\.([\w-]+)", re.MULTILINE)
_MAIN = re.compile(rb"^if __name__ == ['\"]__main__['\"]:", re.MULTILINE)


def project_of(root: Path, touched: Sequence[str] = (), *, python: str = "python") -> ProjectCommands:
    """Read the facts about the project. A manifest that cannot be read counts as missing."""
    found = {name: data for name in NAMES if (data := read_inside(root, name, LIMIT)) is not None}
    heads = {path: read_inside(root, path, SCRIPT_HEAD) for path in touched[:MOST_SCRIPTS]}
    return ProjectCommands(
        manifests=frozenset(found),
        npm_scripts=_npm_scripts(found.get("package.json", b"")),
        make_targets=frozenset(name.decode() for name in _TARGET.findall(found.get("Makefile", b""))),
        tools=_tools(found.get("pyproject.toml", b"")),
        scripts=frozenset(path for path, head in heads.items() if head is not None and _is_script(head)),
        missing=frozenset(path for path in touched if not _exists(root, path)),
        python=python,
    )


def _exists(root: Path, path: str) -> bool:
    return (root / path).exists()


def _is_script(head: bytes) -> bool:
    return head.startswith(b"#!") or _MAIN.search(head) is not None


def _npm_scripts(data: bytes) -> frozenset[str]:
    try:
        manifest = msgspec.json.decode(data or b"{}")
    except msgspec.DecodeError:
        return frozenset()
    scripts: Any = cast("dict[str, Any]", manifest).get("scripts") if isinstance(manifest, dict) else None
    return (
        frozenset(str(name) for name in cast("dict[str, Any]", scripts)) if isinstance(scripts, dict) else frozenset()
    )


def _tools(data: bytes) -> frozenset[str]:
    return frozenset(name.decode() for name in _TOOL.findall(data))
