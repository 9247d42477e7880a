"""Who may import whom, where the import contracts in pyproject.toml cannot say it (modules that do not exist yet)."""

import ast
import sys

import pytest

from tests.architecture.source import Module, dotted, modules

DOORS = ("outlast.doors", "outlast.app", "outlast.runtime.service", "outlast.core", "outlast._version")
# Modules of values that a door hands on; the contract in pyproject.toml has the same list and says why.
VALUES = (
    "outlast.runtime.agent_config",
    "outlast.runtime.permissions.mode",
    "outlast.runtime.permissions.rule_files",
    "outlast.runtime.private_file",
    "outlast.runtime.prompt.project_identity",
    "outlast.runtime.turn.context",
    "outlast.runtime.turn.observer",
    "outlast.runtime.turn.subagents",
    "outlast.store.log_store",
)
FACADES = ("outlast.session", "outlast.agent", "outlast.context")
# What stands on the port alone and knows no adapter: reading, lineage, and the facts of this machine.
STORE_PORT = (
    "outlast.store.port",
    "outlast.store.read.decode",
    "outlast.store.lineage",
    "outlast.store.process_identity",
)
MAY_KNOW = {
    "outlast.runtime": ("outlast.runtime", *STORE_PORT, "outlast.models.port", "outlast.core"),
    "outlast.doors": (*DOORS, *VALUES, *FACADES),
    "outlast.bridges": ("outlast.bridges", *DOORS[1:], *FACADES, "outlast.store.port"),
}
IMPURE = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "open", "input"}


def own(name: str) -> bool:
    return name.split(".")[0] == "outlast"


@pytest.mark.parametrize("layer", sorted(MAY_KNOW))
def test_layer_imports_only_what_it_may_know(layer: str) -> None:
    stray = [
        f"{module.where}:{line} imports {name}"
        for module in modules()
        if module.is_in(layer)
        for line, name in module.imports()
        if own(name) and not any(name == known or name.startswith(f"{known}.") for known in MAY_KNOW[layer])
    ]
    assert stray == []


def test_core_knows_the_standard_library_and_msgspec() -> None:
    allowed = {"msgspec", "outlast", *sys.stdlib_module_names}
    stray = [
        f"{module.where}:{line} imports {name}"
        for module in modules()
        if module.is_in("outlast.core")
        for line, name in module.imports()
        if name.split(".")[0] not in allowed
    ]
    assert stray == []


def calls(module: Module) -> list[tuple[int, str]]:
    return [(node.lineno, dotted(node.func)) for node in ast.walk(module.tree) if isinstance(node, ast.Call)]


def test_core_asks_no_clock_and_opens_no_file() -> None:
    stray = [
        f"{module.where}:{line} calls {name}"
        for module in modules()
        if module.is_in("outlast.core")
        for line, name in calls(module)
        if ".".join(name.split(".")[-2:]) in IMPURE
    ]
    assert stray == []


def test_nobody_inside_goes_through_the_front_door() -> None:
    """`from outlast import X` inside the package would be an edge that the layer contract cannot see."""
    tops = {module.name.split(".")[1] for module in modules() if module.name != "outlast"}
    stray = [
        f"{module.where}:{line} imports {name}"
        for module in modules()
        if module.name != "outlast"
        for line, name in module.imports()
        if name == "outlast" or (own(name) and name.split(".")[1] not in tops)
    ]
    assert stray == []
