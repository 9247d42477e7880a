"""What the project's own files say about how to check it: read once, bounded, never executed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from outlast.runtime.safe_open import read_inside
from outlast.runtime.workflow.verification import ProjectCommands

LIMIT = 256 * 1024
SCRIPT_HEAD = 64 * 1024
MOST_SCRIPTS = 20
NAMES = ("pyproject.toml", "setup.cfg", "pytest.ini", "tox.ini", "package.json", "Cargo.toml", "go.mod", "Makefile")

_TARGET = re.compile(rb"^([A-Za-z][\w.-]*)\s*:(?!=)", re.MULTILINE)
_TOOL = re.compile(rb"^\[tool\.([\w-]+)", re.MULTILINE)
_MAIN = re.compile(rb"^if __name__ == ['\"]__main__['\"]:", re.MULTILINE)


def project_of(root: Path, touched: Sequence[str] = (), *, python: str = "python") -> ProjectCommands:
    """The project as `verification` sees it. A manifest that cannot be read counts as one that is not there."""
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
