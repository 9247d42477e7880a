"""Docstrings, comments, messages and docs use plain modern English: some words are banned (see AGENTS.md).

`LEFT` counts the exceptions per folder; it only shrinks.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import PACKAGE, modules, project_files
from tests.conftest import ROOT

BANNED = re.compile(r"\b(?:whoever|somebody|anew|oftener|thereof|hereby|be had)\b", re.IGNORECASE)

LEFT = {
    "src/outlast/runtime/changes/": 1,
    "src/outlast/runtime/history/model_summary.py": 1,  # a prompt: its words are behaviour
    "src/outlast/runtime/permissions/": 1,
    "src/outlast/runtime/sandbox/": 2,
    "src/outlast/store/files/": 15,
    "src/outlast/store/search/": 1,
}
"""How many banned words are left there. Numbers only go down; an entry that reaches 0 is removed."""


def prose_of(text: str) -> Iterator[str]:
    """All string literals and comments of a module; names of variables are not prose."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def banned_words(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    prose = prose_of(text) if path.suffix == ".py" else [text]
    return [match.group().lower() for one in prose for match in BANNED.finditer(" ".join(one.split()))]


def prose_files() -> list[Path]:
    """Modules, the page, and documents. The changelog and applied migrations are records, which do not change."""
    pages = [
        path for path in project_files() if path.is_relative_to(PACKAGE) and path.suffix in {".js", ".html", ".css"}
    ]
    documents = [path for path in project_files() if path.suffix == ".md" and path.name != "CHANGELOG.md"]
    ours = [path for path in documents if not path.is_relative_to(ROOT / "tests")]
    return [*(module.path for module in modules()), *pages, *ours]


def test_banned_words_only_where_some_are_left() -> None:
    found = {path.relative_to(ROOT).as_posix(): words for path in prose_files() if (words := banned_words(path))}
    assert {name: words for name, words in found.items() if not name.startswith(tuple(LEFT))} == {}
    for place, most in LEFT.items():
        words = {name: words for name, words in found.items() if name.startswith(place)}
        assert sum(map(len, words.values())) <= most, words


def test_what_is_left_only_shrinks() -> None:
    assert sum(LEFT.values()) <= 21


def test_check_sees_docstrings_messages_and_comments_but_not_names(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        'def read(anew: bool) -> None:\n    """Whoever\n    reads."""\n'
        '    raise ValueError(f"{anew} cannot be had")  # anew\n'
    )
    assert sorted(banned_words(module)) == ["anew", "be had", "whoever"]
    page = tmp_path / "page.md"
    page.write_text("It cannot be\nhad thereof.\n")
    assert banned_words(page) == ["be had", "thereof"]
