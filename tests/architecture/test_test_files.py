"""The test of a module is found by its name, and unit tests that still start processes become fewer.

`src/outlast/a/b/c.py` is tested by some `test_c.py` or `test_b_c.py`. The lists of exceptions may only shrink: an entry
that is no longer needed fails the test until it is taken out.
"""

import ast
from pathlib import Path

from tests.architecture.source import PACKAGE, modules
from tests.unit.conftest import HERE as UNIT
from tests.unit.conftest import STILL_STARTING

TESTS = Path(__file__).parents[1]
NOT_NAMED = Path(__file__).with_name("modules_without_a_test_of_their_name.txt")
NOT_MIRRORED = {"__init__", "__main__", "_version", "port"}
MOST_STILL_STARTING = 70


def test_the_test_of_a_module_is_found_by_its_name() -> None:
    names = {path.stem for path in TESTS.rglob("test_*.py")}
    without = {
        module.path.relative_to(PACKAGE).as_posix()
        for module in modules()
        if module.path.stem not in NOT_MIRRORED
        and names.isdisjoint({f"test_{module.path.stem}", f"test_{module.path.parent.name}_{module.path.stem}"})
    }
    known = set(NOT_NAMED.read_text().split())
    assert without - known == set(), "a new module needs a test file of its name"
    assert known - without == set(), f"these have one now, or are gone: take them out of {NOT_NAMED.name}"


def test_unit_tests_that_start_processes_become_fewer() -> None:
    assert len(STILL_STARTING) <= MOST_STILL_STARTING
    for entry in STILL_STARTING:
        file, _, name = entry.partition("::")
        functions = [node for node in ast.walk(ast.parse((UNIT / file).read_text())) if isinstance(node, FUNCTIONS)]
        assert name in {node.name for node in functions}, f"{entry} is gone: take it out of the list"


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
