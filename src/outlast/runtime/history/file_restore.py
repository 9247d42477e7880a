"""File restore for rewinds: reverts what the file tools wrote after an event, and restores it if the rewind is undone.

`ToolCallStarted` holds the content before each write. `steps` makes a plan from these events, `decided` compares it
with the files, and `recorded` makes the record for `Rewound.files`, which is written before any file changes. Only then
does `carried_out` write the files; it may be repeated after a crash. A file that changed otherwise is reported and left
alone. `undone` plans the undo of a rewind from its record. `ProjectFiles` accesses files as the file tools do.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import msgspec

from outlast.core import events as e
from outlast.core.fold import Row
from outlast.core.state import SessionState
from outlast.runtime.history.child_logs import ChildLog
from outlast.runtime.tools.files.atomic_write import now, replace
from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, folder, locate
from outlast.runtime.tools.files.write_targets import recorded_targets
from outlast.runtime.tools.port import ToolFault
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.tool_context import tool_context


class ProjectFiles:
    """Reads, writes and removes files inside the roots. Raises `OSError` with the reason if it may not."""

    def __init__(self, context: TurnContext, session_id: str) -> None:
        self._context = tool_context(context, session_id, "rewind")

    def read(self, path: str) -> bytes | None:
        try:
            found = now(self._place(path))
        except ToolFault as fault:
            raise OSError(str(fault)) from fault
        if found.data is None and found.digest != "absent":
            raise OSError("it is too large to be brought back")
        return found.data

    def write(self, path: str, data: bytes) -> None:
        try:
            place = self._place(path)
            replace(place, data, now(place).digest, self._context, threading.Event())
        except ToolFault as fault:
            raise OSError(str(fault)) from fault

    def remove(self, path: str) -> None:
        try:
            with folder(self._place(path)) as (here, name):
                os.unlink(name, dir_fd=here)
                os.fsync(here)
        except ToolFault as fault:
            raise OSError(str(fault)) from fault

    def _place(self, path: str) -> ResolvedPath:
        return locate(path, self._context)


ABSENT = "absent"
Read = Callable[[str], bytes | None]
WriteFile = Callable[[str, bytes], None]
Remove = Callable[[str], None]


class RestoreStep(msgspec.Struct, frozen=True, kw_only=True):
    """A file to restore to these bytes, or to remove (None), if its current digest is in `expected` (empty: any)."""

    path: str
    restore: bytes | None
    expected: frozenset[str]
    problem: str | None = None


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """The content found in a file and the content to restore; a file with a `problem` is left alone."""

    path: str
    found: bytes | None = None
    restore: bytes | None = None
    problem: str | None = None

    @property
    def wanted(self) -> bool:
        return self.problem is None and self.found != self.restore


class _Wrote(NamedTuple):
    """A write. `place` is its event in the session that is rewound, or the event that requested its sub-agent."""

    seq: int
    place: int
    before: bytes | None
    digest_before: str
    digest_after: str
    certain: bool


def digest_of(data: bytes | None) -> str:
    return ABSENT if data is None else hashlib.sha256(data).hexdigest()


# --- the plan ------------------------------------------------------------------------------------------------------


def steps(
    rows: Iterable[Row],
    state: SessionState,
    to_seq: int,
    *,
    anyway: Iterable[str] = (),
    children: Sequence[ChildLog] = (),
) -> list[RestoreStep]:
    """Plan how to restore the files to event `to_seq`; `rows` are the events after it, up to the head, and `children`
    the logs of the sub-agents that they started.

    `anyway` names files that the user agreed to restore even if they were changed since.
    """
    forced = frozenset(anyway)
    own = _wrote(rows, state, to_seq)
    sources = [own, *(_wrote(child.rows, child.state, 0, child.place) for child in children)]
    paths = dict.fromkeys(path for source in sources for path in source)
    merged = {path: _in_order([source[path] for source in sources if path in source]) for path in paths}
    return [_step(path, writes, path in forced) for path, writes in merged.items()]


def _in_order(sources: list[list[_Wrote]]) -> list[_Wrote]:
    """Merge the writes of several logs to one file. Each log has its own order; between logs, the digests tell which
    write saw which. Without an order that fits, the writes stand by their places, and `_broken` finds the gap."""
    if len(sources) == 1:
        return sources[0]
    for first in sorted(sources, key=lambda source: source[0].place):
        merged = _chain(first, [source for source in sources if source is not first])
        if merged is not None:
            return merged
    return sorted((write for source in sources for write in source), key=lambda write: write.place)


def _chain(first: list[_Wrote], others: list[list[_Wrote]]) -> list[_Wrote] | None:
    waiting = [source for source in (first[1:], *others) if source]
    merged = [first[0]]
    while waiting:
        left = _left_by(merged)
        fitting = [source for source in waiting if source[0].digest_before in left]
        if not fitting:
            return None
        taken = min(fitting, key=lambda source: source[0].place)
        merged.append(taken[0])
        waiting = [rest for source in waiting if (rest := source[1:] if source is taken else source)]
    return merged


def _wrote(rows: Iterable[Row], state: SessionState, to_seq: int, place: int = 0) -> dict[str, list[_Wrote]]:
    """Return the visible writes by path. A write is certain once its call finished without an error."""
    found: dict[str, list[_Wrote]] = {}
    begun: dict[str, list[str]] = {}
    for stored, event in rows:
        if stored.seq <= to_seq or state.view.hides(stored.seq):
            continue
        if isinstance(event, e.ToolCallStarted) and (files := recorded_targets(event)):
            for file in files:
                wrote = _Wrote(
                    stored.seq, place or stored.seq, file.before, file.digest_before, file.digest_after, False
                )
                found.setdefault(file.path, []).append(wrote)
            begun[event.call_id] = [file.path for file in files]
        elif isinstance(event, e.ToolCallFinished) and event.call_id in begun and not event.is_error:
            for path in begun.pop(event.call_id):
                found[path][-1] = found[path][-1]._replace(certain=True)
    return found


def _step(path: str, writes: Sequence[_Wrote], forced: bool) -> RestoreStep:
    first = writes[0]
    problem = None if forced else _broken(writes)
    if first.before is None and first.digest_before != ABSENT:
        problem = "no copy of what was there is kept"
    return RestoreStep(
        path=path, restore=first.before, expected=frozenset() if forced else _left_by(writes), problem=problem
    )


def _left_by(writes: Sequence[_Wrote]) -> frozenset[str]:
    """Return the possible digests of the file if only these writes changed it."""
    left = {first.digest_before for first in writes[:1]}
    for write in writes:
        left = {write.digest_after} if write.certain else {*left, write.digest_after}
    return frozenset(left)


def _broken(writes: Sequence[_Wrote]) -> str | None:
    for n, (one, other) in enumerate(pairwise(writes), 1):
        if other.digest_before not in _left_by(writes[:n]):
            return f"something else changed it between events {one.seq} and {other.seq}"
    return None


def undone(changes: Iterable[FileChange]) -> list[RestoreStep]:
    """Plan the steps that revert these changes."""
    return [
        RestoreStep(path=change.path, restore=change.found, expected=frozenset({digest_of(change.restore)}))
        for change in changes
        if change.wanted
    ]


# --- comparison with the files -------------------------------------------------------------------------------------


def decided(plan: Iterable[RestoreStep], read: Read) -> list[FileChange]:
    """Compare the plan with the files. `read` returns a file's bytes, or None if there is no file; its `OSError`
    becomes a problem."""
    return [_decided(step, read) for step in plan]


def _decided(step: RestoreStep, read: Read) -> FileChange:
    if step.problem is not None:
        return FileChange(path=step.path, problem=step.problem)
    try:
        found = read(step.path)
    except OSError as error:
        return FileChange(path=step.path, problem=f"it cannot be read: {error.strerror or error}")
    if found != step.restore and step.expected and digest_of(found) not in step.expected:
        return FileChange(path=step.path, problem="it has been changed since")
    return FileChange(path=step.path, found=found, restore=step.restore)


# --- the record ----------------------------------------------------------------------------------------------------


def recorded(changes: Iterable[FileChange]) -> dict[str, Any]:
    """Build the record for `Rewound.files`, with all contents in one byte string, which becomes a blob if long."""
    contents = bytearray()
    places: dict[bytes, list[int]] = {}

    def kept(data: bytes | None) -> list[int] | None:
        if data is None:
            return None
        if data not in places:
            places[data] = [len(contents), len(data)]
            contents.extend(data)
        return places[data]

    entries: dict[str, Any] = {}
    for change in changes:
        if change.problem is not None:
            entries[change.path] = {"problem": change.problem}
        else:
            entries[change.path] = {"found": kept(change.found), "restore": kept(change.restore)}
    return {"entries": entries, "contents": bytes(contents)} if entries else {}


def changes_in(files: dict[str, Any]) -> list[FileChange]:
    """Return the changes that a `Rewound` event records."""
    contents = files.get("contents", b"")

    def cut(place: list[int] | None) -> bytes | None:
        return None if place is None else contents[place[0] : place[0] + place[1]]

    entries = cast("dict[str, dict[str, Any]]", files.get("entries", {}))
    return [
        FileChange(path=path, problem=entry["problem"])
        if "problem" in entry
        else FileChange(path=path, found=cut(entry["found"]), restore=cut(entry["restore"]))
        for path, entry in entries.items()
    ]


# --- the effect ----------------------------------------------------------------------------------------------------


def carried_out(changes: Iterable[FileChange], read: Read, write: WriteFile, remove: Remove) -> list[FileChange]:
    """Make the recorded changes; return those that failed, each with its problem. Idempotent."""
    return [failed for change in changes if (failed := _carried_out(change, read, write, remove)) is not None]


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
