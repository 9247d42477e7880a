"""What no module may do, found in the syntax tree; each ban has a sample that must be caught."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture.source import Module, dotted, modules

Finder = Callable[[Module], Iterator[ast.AST]]

UNSAFE_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
UNSAFE_CALLS = {"eval", "exec", "__import__", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}
SQL = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|BEGIN|WITH|ATTACH|VACUUM|REPLACE|TRUNCATE|COPY)\s"
)
EXECUTES = {"execute", "executemany", "executescript", "execute_async", "fetch", "fetchrow", "fetchval", "copy"}


def imports_of(names: set[str]) -> Finder:
    def find(module: Module) -> Iterator[ast.AST]:
        for node in ast.walk(module.tree):
            found = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            found += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] in names for name in found):
                yield node

    return find


def calls_of(names: set[str]) -> Finder:
    def find(module: Module) -> Iterator[ast.AST]:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and dotted(node.func) in names:
                yield node

    return find


def environment_reads(module: Module) -> Iterator[ast.AST]:
    names = {"os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv", "os.unsetenv"}
    for node in ast.walk(module.tree):
        found = [dotted(node)] if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        if names.intersection(found):
            yield node


def prints(module: Module) -> Iterator[ast.AST]:
    streams = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
    yield from calls_of({"print", "pprint.pprint", "typer.echo", "rich.print"})(module)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and dotted(node) in streams:
            yield node


def built_from_parts(node: ast.expr) -> bool:
    """An f-string with values in it, `%`, `+` with text, `.format(...)` or `.join(...)`."""
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) for part in node.values)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Mod)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"format", "join"}


def made_up_sql(module: Module) -> Iterator[ast.AST]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in EXECUTES:
            values = [*node.args[:1], *(k.value for k in node.keywords if k.arg in {"query", "sql", "statements"})]
            if any(built_from_parts(value) for value in values):
                yield node
        elif isinstance(node, ast.JoinedStr) and built_from_parts(node):
            first = node.values[0]
            if isinstance(first, ast.Constant) and SQL.match(str(first.value)):
                yield node
        elif isinstance(node, ast.BinOp) and built_from_parts(node) and SQL.match(str(getattr(node.left, "value", ""))):
            yield node


BANS: dict[str, tuple[Finder, tuple[str, ...], str]] = {
    # what: (how it is found, packages that may, a sample that must be caught)
    "reads the environment": (environment_reads, ("outlast.app",), "import os\nos.environ.get('A')"),
    "prints": (prints, ("outlast.doors",), "print('x')"),
    "unsafe module": (imports_of(UNSAFE_MODULES), (), "from pickle import loads"),
    "unsafe call": (calls_of(UNSAFE_CALLS), (), "eval('1')"),
    "stdlib sqlite3": (imports_of({"sqlite3"}), (), "import sqlite3.dbapi2"),
    "f-string SQL": (made_up_sql, (), "c.execute(f'select {x}')"),
}


def parsed(text: str) -> Module:
    return Module(Path("sample.py"), text)


@pytest.mark.parametrize("ban", sorted(BANS))
def test_ban_holds_everywhere(ban: str) -> None:
    find, may, _ = BANS[ban]
    found = [
        f"{module.where}:{getattr(node, 'lineno', 0)}"
        for module in modules()
        if not module.is_in(*may)
        for node in find(module)
    ]
    assert found == []


@pytest.mark.parametrize("ban", sorted(BANS))
def test_ban_catches_its_sample(ban: str) -> None:
    find, _, sample = BANS[ban]
    assert list(find(parsed(sample)))


@pytest.mark.parametrize(
    "text",
    [
        "c.execute(f'select {x}')",
        "c.execute('select %s' % x)",
        "c.execute('select {}'.format(x))",
        "c.execute('select ' + x)",
        "await c.fetch(f'x {y}', 1)",
        "sql = f'SELECT * FROM {table}'",
        "sql = 'DELETE FROM %s' % table",
        "c.execute(query=f'x {y}')",
    ],
)
def test_sql_made_from_parts_is_caught(text: str) -> None:
    assert list(made_up_sql(parsed(text)))


@pytest.mark.parametrize(
    "text", ["c.execute('select ?', (x,))", "c.execute(SQL, x)", "message = f'cannot open {path}'"]
)
def test_sql_with_parameters_is_fine(text: str) -> None:
    assert not list(made_up_sql(parsed(text)))
