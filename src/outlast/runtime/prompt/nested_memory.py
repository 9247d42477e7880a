"""Nested memory: the `AGENTS.md` and `CLAUDE.md` of folders in which the session has touched files.

The model is told each of them once, in the request after the call that touched the folder, and again if a compaction or
a rewind has taken the message out of its window and the folder is touched again. A file that the session itself has
changed is not told: what an agent writes counts as an instruction from the next session on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from outlast.core.boundaries import BoundaryView
from outlast.core.events import Event, RuntimeStateChanged, ToolCallStarted
from outlast.core.fold import Row
from outlast.core.messages import ToolCall
from outlast.core.state import SessionState
from outlast.runtime.prompt.memory_files import NAMES, TOTAL, MemoryFile, MemoryReader, MemoryRoot

CHANGED = "memory_changed"
"""Key of the runtime state: the memory files that this session has written, as paths relative to the project."""
MOST_CHANGED = 64

FOREIGN = frozenset(
    {
        "node_modules",
        "bower_components",
        "site-packages",
        "dist-packages",
        "vendor",
        "third_party",
        "Pods",
        ".venv",
        "venv",
        ".tox",
        ".git",
    }
)
"""Folders of code from elsewhere: its authors are not the developers of this project."""

_PATH_ARGUMENTS = ("file_path", "path")
_TOUCHING = frozenset({"read", "write", "edit", "apply_patch", "search", "glob"})
_WRITING = frozenset({"write", "edit", "apply_patch"})
_CARRIED_OUT = frozenset({"executed", "recovered", "unknown"})
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)


class NestedMemory:
    """Finds the nested memory files that are due. The first of `roots` is the project."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = [Path(os.path.realpath(root)) for root in roots]
        self._looked: set[tuple[Path, str]] = set()
        self._scanned = 0
        self._view: BoundaryView | None = None

    def new_paths(self, rows: Iterable[Row], state: SessionState) -> list[str]:
        """Return the paths that calls have touched since the last time, or since the window began."""
        if state.view != self._view:  # another window: what it lost may be told again
            self._view, self._scanned, self._looked = state.view, 0, set()
        paths: list[str] = []
        for stored, event in rows:
            if stored.seq > self._scanned:
                self._scanned = stored.seq
                is_shown = stored.seq >= state.window_from and not state.view.hides(stored.seq)
                if is_shown and isinstance(event, ToolCallStarted):
                    paths += touched_paths(event.name, event.arguments)
        return paths

    def due(self, paths: Iterable[str], state: SessionState, told: Mapping[str, int]) -> list[MemoryFile]:
        """Read the files to tell for these paths. `told` holds name and size of each memory file that the model has."""
        changed = set(changed_memory(state.runtime))
        wanted = [place for path in paths for folder in self._new_folders(path) for place in self._files(*folder)]
        new = [(root, path) for root, path in wanted if f"{root.shown}{path}" not in told]
        new = [(root, path) for root, path in new if os.path.relpath(root.folder / path, self._roots[0]) not in changed]
        files = MemoryReader(max(0, TOTAL - sum(told.values()))).read(new)
        return [file for file in files if file.name not in told and file.name not in changed]

    def _new_folders(self, raw: str) -> Iterator[tuple[Path, str]]:
        """Yield each folder between a root and a touched path, the root first, if it was not looked at before."""
        path = Path(os.path.realpath(self._roots[0] / raw))
        root = next((root for root in self._roots if path.is_relative_to(root)), None)
        if root is None:
            return
        parts = path.relative_to(root).parts
        depth = len(parts) if path.is_dir() else len(parts) - 1
        for n in range(depth + 1):
            folder = (root, "/".join(parts[:n]))
            if folder not in self._looked and not FOREIGN & set(parts[:n]):
                self._looked.add(folder)
                yield folder

    def _files(self, root: Path, folder: str) -> list[tuple[MemoryRoot, str]]:
        """Return the names of a folder's memory files. Those of the project's root are in the system prompt."""
        if root == self._roots[0]:
            return [(MemoryRoot(folder=root), f"{folder}/{name}") for name in NAMES] if folder else []
        outside = MemoryRoot(folder=root, shown=f"{root.as_posix()}/")
        return [(outside, f"{folder}/{name}" if folder else name) for name in NAMES]


def touched_paths(name: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the paths that a call to a file tool names."""
    if name not in _TOUCHING:
        return []
    patch = arguments.get("patch")
    patched = [path.strip() for path in _PATCHED.findall(patch)] if isinstance(patch, str) else []
    given = [arguments[key] for key in _PATH_ARGUMENTS if isinstance(arguments.get(key), str)]
    return [path for path in (*given, *patched) if path and "\0" not in path]


def changed_memory(runtime: Mapping[str, Any]) -> list[str]:
    known = runtime.get(CHANGED)
    return [str(path) for path in cast("list[object]", known)] if isinstance(known, list) else []


def memory_change(call: ToolCall, status: str, project: Path, runtime: Mapping[str, Any]) -> tuple[Event, ...]:
    """Return the event that records that a call has written memory files; written together with the call's result."""
    if call.name not in _WRITING or status not in _CARRIED_OUT:
        return ()
    top = os.path.realpath(project)
    known = changed_memory(runtime)
    paths = (os.path.realpath(os.path.join(top, path)) for path in touched_paths(call.name, call.arguments))
    memory = (os.path.relpath(path, top) for path in paths if os.path.basename(path) in NAMES)
    new = [path for path in dict.fromkeys(memory) if path not in known]
    return (RuntimeStateChanged(changes={CHANGED: [*known, *new][-MOST_CHANGED:]}),) if new else ()
