"""Completion in the input line: slash commands, files after `@`, session ids."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

MOST = 50
SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", ".outlast"})


class InputCompleter(Completer):
    """`project` returns the folder of the files, `commands` names with descriptions, `sessions` (id, title) pairs,
    `options` the arguments of a command.
    """

    def __init__(
        self,
        project: Callable[[], Path],
        commands: Callable[[], dict[str, str]],
        sessions: Callable[[], list[tuple[str, str]]],
        options: Callable[[str], list[str]],
    ) -> None:
        self._project = project
        self._commands, self._sessions, self._options = commands, sessions, options

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        if "\n" not in line and line.startswith("/"):
            yield from self._command(line)
            return
        word = line.split()[-1] if line and not line[-1].isspace() else ""
        if word.startswith("@"):
            for path in files_like(self._project(), word[1:]):
                yield Completion(path, start_position=-len(word) + 1)

    def _command(self, line: str) -> Iterator[Completion]:
        name, space, rest = line[1:].partition(" ")
        if not space:
            for one, about in sorted(self._commands().items()):
                if one.startswith(name):
                    yield Completion(f"/{one}", start_position=-len(line), display_meta=about)
            return
        word = rest.split(" ")[-1]
        if name in {"resume", "tree"}:
            for session_id, title in self._sessions():
                if session_id.startswith(word):
                    yield Completion(session_id, start_position=-len(word), display_meta=title)
            return
        for one in self._options(name):
            if one.startswith(word):
                yield Completion(one, start_position=-len(word))


def files_like(project: Path, typed: str) -> list[str]:
    """Files and folders of the project whose path starts with the typed text."""
    folder, _, name = typed.rpartition("/")
    base = (project / os.path.expanduser(folder)) if folder else Path("/") if typed.startswith("/") else project
    try:
        entries = sorted(os.scandir(base), key=lambda entry: entry.name)
    except OSError:
        return []
    found: list[str] = []
    for entry in entries:
        if not entry.name.startswith(name) or entry.name in SKIPPED or (entry.name.startswith(".") and not name):
            continue
        path = f"{folder}/{entry.name}" if folder or typed.startswith("/") else entry.name
        found.append(f"{path}/" if entry.is_dir() else path)
    return found[:MOST]
