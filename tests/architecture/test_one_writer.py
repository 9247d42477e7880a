"""Each verb on a session is written once: one module builds its events and its writes, all others ask for them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import Module, dotted, modules

WRITERS = ("outlast.runtime.session_writes", "outlast.runtime.service")
# The store builds and carries out forks and rotations; tests of stores, benchmarks and imports write logs of their own.
EXEMPT = ("outlast.core", "outlast.store", "outlast.testing", "outlast.bench", "outlast.app.transfer")
BUILT_ONCE = {
    "Create",
    "Delete",
    "InputAdmitted",
    "InterruptRequested",
    "ModelChanged",
    "PersonaChanged",
    "SessionArchived",
    "SessionClosed",
    "SessionCreated",
    "SessionForked",
    "SessionRenamed",
    "SessionReopened",
    "SessionUnarchived",
    "ApprovalAnswered",
    "BoundaryRequested",
}


def built(module: Module) -> Iterator[tuple[int, str]]:
    """The calls that construct one of these, under whatever name it was imported; patterns of `match` are no calls."""
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            name = names.get(called, called.rpartition(".")[2])
            if name in BUILT_ONCE:
                yield node.lineno, name


def test_only_the_service_builds_the_writes_of_a_session() -> None:
    stray = [
        f"{module.where}:{line} builds {name}"
        for module in modules()
        if not module.is_in(*WRITERS, *EXEMPT)
        for line, name in built(module)
    ]
    assert stray == []


def test_each_of_them_is_built_in_one_place() -> None:
    """Except the end, which the driver writes when it closes a turn, and the creation of a sub-agent's session."""
    found = [name for module in modules() if module.is_in(*WRITERS) for _, name in built(module)]
    assert {name for name in BUILT_ONCE if found.count(name) > 1} == {
        "Create",
        "SessionClosed",
        "SessionCreated",
        "SessionRenamed",
    }
    assert {name for name in BUILT_ONCE if name not in found} == {"SessionForked"}  # the store's lineage builds it


def test_no_other_module_repeats_a_commit_of_unknown_outcome() -> None:
    loops = [
        f"{module.where}:{node.lineno}"
        for module in modules()
        if module.is_in("outlast.runtime", "outlast.app") and module.name != "outlast.runtime.commit_retry"
        for loop in ast.walk(module.tree)
        if isinstance(loop, ast.For)
        for node in ast.walk(loop)
        if isinstance(node, ast.ExceptHandler) and node.type is not None and "OutcomeUnknown" in ast.unparse(node.type)
    ]
    assert loops == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from outlast.core import events as e\nx = e.SessionRenamed(title='t')", ["SessionRenamed"]),
        ("from outlast.store.port import Create as Make\nx = Make(header=h, events=())", ["Create"]),
        ("match event:\n    case e.SessionRenamed(title=t):\n        pass", []),
    ],
)
def test_a_construction_is_found_and_a_pattern_is_none(text: str, found: list[str]) -> None:
    assert [name for _, name in built(Module(Path("sample.py"), text))] == found
