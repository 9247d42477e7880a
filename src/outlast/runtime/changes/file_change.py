"""Changes of single files that undo earlier ones: compared with what the files hold now, then carried out.

A file that was changed since is left alone and named. The caller reads and writes the files (`turn.project_files`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from outlast.runtime.changes.change_set import LINK


class Link(msgspec.Struct, frozen=True):
    """The content of a symbolic link."""

    target: str


Content = bytes | Link | None
"""The content of a file or link; None if there is neither."""


ABSENT = "absent"
Read = Callable[[str], Content]
WriteFile = Callable[[str, Any], None]
Remove = Callable[[str], None]
ReadMode = Callable[[str], int | None]
SetMode = Callable[[str, int], None]


def _no_mode(_: str) -> int | None:
    return None


def _same_mode(path: str, mode: int) -> None:
    raise OSError("its permissions cannot be changed here")


class RestoreStep(msgspec.Struct, frozen=True, kw_only=True):
    """A file to restore to this content, or to remove (None), if its current digest is in `expected` (empty: any).
    `mode` are its permissions then, `left_mode` those that the last write left; None: they do not matter. With
    `content_stays` only the permissions were changed."""

    path: str
    restore: Content
    expected: frozenset[str]
    problem: str | None = None
    mode: int | None = None
    left_mode: int | None = None
    content_stays: bool = False


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """The content found in a file and the content to restore; a file with a `problem` is left alone. The modes are the
    permissions found and to restore; None: they stay."""

    path: str
    found: Content = None
    restore: Content = None
    problem: str | None = None
    found_mode: int | None = None
    restore_mode: int | None = None

    @property
    def wanted(self) -> bool:
        return self.problem is None and (self.found != self.restore or self.found_mode != self.restore_mode)


def digest_of(content: Content) -> str:
    if isinstance(content, Link):
        return LINK + content.target
    return ABSENT if content is None else hashlib.sha256(content).hexdigest()


# --- comparison with the files -------------------------------------------------------------------------------------


def decided(plan: Iterable[RestoreStep], read: Read, read_mode: ReadMode = _no_mode) -> list[FileChange]:
    """Compare the plan with the files. `read` returns a file's content, or None if there is no file; its `OSError`
    becomes a problem."""
    return [_decided(step, read, read_mode) for step in plan]


def _decided(step: RestoreStep, read: Read, read_mode: ReadMode) -> FileChange:
    if step.problem is not None:
        return FileChange(path=step.path, problem=step.problem)
    try:
        found = read(step.path)
    except OSError as error:
        return FileChange(path=step.path, problem=f"it cannot be read: {error.strerror or error}")
    restore = found if step.content_stays else step.restore
    if found != restore and step.expected and digest_of(found) not in step.expected:
        return FileChange(path=step.path, problem="it has been changed since")
    found_mode, mode = _modes(step, found, restore, read_mode)
    return FileChange(path=step.path, found=found, restore=restore, found_mode=found_mode, restore_mode=mode)


def _modes(step: RestoreStep, found: Content, restore: Content, read_mode: ReadMode) -> tuple[int | None, int | None]:
    """Return the permissions found and those to restore; twice None if they stay. Permissions that were changed since
    are not touched."""
    if step.mode is None or not isinstance(restore, bytes):
        return None, None
    if not isinstance(found, bytes):
        return None, step.mode
    now = read_mode(step.path)
    if now is None or now == step.mode or now != step.left_mode:
        return None, None
    return now, step.mode


# --- the effect ----------------------------------------------------------------------------------------------------


def carried_out(
    changes: Iterable[FileChange],
    read: Read,
    write: WriteFile,
    remove: Remove,
    read_mode: ReadMode = _no_mode,
    set_mode: SetMode = _same_mode,
) -> list[FileChange]:
    """Make the recorded changes; return those that failed, each with its problem. Idempotent. Files are removed before
    others are written, since one may stand where another needs a folder."""
    ordered = sorted(changes, key=lambda change: change.restore is not None)
    failed: list[FileChange] = []
    for change in ordered:
        left = _carried_out(change, read, write, remove) or _with_mode(change, read_mode, set_mode)
        failed += [left] if left is not None else []
    return failed


def _carried_out(change: FileChange, read: Read, write: WriteFile, remove: Remove) -> FileChange | None:
    if change.problem is not None:
        return change
    try:
        now = read(change.path)
        if now == change.restore:
            return None
        if now != change.found:
            return msgspec.structs.replace(change, problem="it has been changed since")
        if change.restore is None:
            remove(change.path)
        else:
            write(change.path, change.restore)
    except OSError as error:
        return msgspec.structs.replace(change, problem=f"it cannot be written: {error.strerror or error}")
    return None


def _with_mode(change: FileChange, read_mode: ReadMode, set_mode: SetMode) -> FileChange | None:
    if change.restore_mode is None or not isinstance(change.restore, bytes):
        return None
    try:
        if read_mode(change.path) != change.restore_mode:
            set_mode(change.path, change.restore_mode)
    except OSError as error:
        return msgspec.structs.replace(change, problem=f"its permissions cannot be set: {error.strerror or error}")
    return None
