"""File restore for rewinds: reverts what tools wrote after an event, and restores it if the rewind is undone.

`ToolCallStarted` holds the content before each write of a file tool, `ToolCallFinished` what a shell command changed.
`steps` makes a plan from these events, `decided` compares it with the files, and `recorded` makes the record for
`Rewound.files`, which is written before any file changes. Only then does `carried_out` write the files; it may be
repeated after a crash. A file that changed otherwise is reported and left alone. `undone` plans the undo of a rewind
from its record. `project_files` accesses the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

from outlast.core import events as e
from outlast.core.fold import Row
from outlast.core.state import SessionState
from outlast.runtime.changes.change_set import LINK, ChangedFile, ChangeGroup, groups_in, kept_bytes
from outlast.runtime.changes.file_change import ABSENT, Content, FileChange, Link, RestoreStep, digest_of
from outlast.runtime.history.child_logs import ChildLog
from outlast.runtime.tools.files.write_targets import recorded_targets

ReadBlob = Callable[[str], bytes | None]
"""Returns the content of a git blob by its id; None if it cannot be read."""


def _no_blob(_: str) -> bytes | None:
    return None


class _Wrote(NamedTuple):
    """A write. `place` is its event in the session that is rewound, or the event that requested its sub-agent."""

    seq: int
    place: int
    before: bytes | None
    digest_before: str
    digest_after: str
    certain: bool
    blob: str = ""
    mode_before: int | None = None
    mode_after: int | None = None
    problem: str | None = None
    by_shell: bool = False

    @property
    def effect(self) -> tuple[str, str]:
        return self.digest_before, self.digest_after


# --- the plan ------------------------------------------------------------------------------------------------------


def steps(
    rows: Iterable[Row],
    state: SessionState,
    to_seq: int,
    *,
    anyway: Iterable[str] = (),
    children: Sequence[ChildLog] = (),
    unrecorded: Sequence[tuple[ChangeGroup, PreImageOf]] = (),
    blob: ReadBlob = _no_blob,
) -> list[RestoreStep]:
    """Plan how to restore the files to event `to_seq`; `rows` are the events after it, up to the head, and `children`
    the logs of the sub-agents that they started.

    `anyway` names files that the user agreed to restore even if they were changed since. `unrecorded` are changes of
    shell commands that no result holds, `blob` reads contents that git holds.
    """
    forced = frozenset(anyway)
    own = _wrote(rows, state, to_seq)
    for group, pre_image in unrecorded:
        if group.seq >= to_seq:
            _add_group(own, group, pre_image, group.seq)
    sources = [own, *(_wrote(child.rows, child.state, 0, child.place) for child in children)]
    paths = dict.fromkeys(path for source in sources for path in source)
    plan: list[RestoreStep] = []
    for path in paths:
        writes = _in_order(_known([source[path] for source in sources if path in source]))
        plan.append(_step(path, writes, path in forced, blob))
    return plan


def _known(sources: list[list[_Wrote]]) -> list[list[_Wrote]]:
    """Leave out what says nothing new: an effect that another log records too (commands of sub-agents that ran at the
    same time see each other's changes), and changes of unknown origin to a file that a known call wrote."""
    certain = any(write.problem is None for source in sources for write in source)
    seen: set[tuple[str, str]] = set()
    kept: list[list[_Wrote]] = []
    for source in sources:
        left: list[_Wrote] = []
        for write in source:
            is_known = write.by_shell and (write.effect in seen or (left and left[-1].effect == write.effect))
            if not is_known and not (certain and write.problem):
                left.append(write)
        seen |= {write.effect for write in left}
        kept += [left] if left else []
    return kept


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
        elif isinstance(event, e.ToolCallFinished):
            for group in groups_in(event.facts):
                if place or not group.seq or group.seq >= to_seq:
                    _add_group(found, group, partial(kept_bytes, event.facts), stored.seq, place)
    return found


PreImageOf = Callable[[ChangedFile], bytes | None]


def _add_group(
    found: dict[str, list[_Wrote]], group: ChangeGroup, pre_image: PreImageOf, seq: int, place: int = 0
) -> None:
    """Add what a shell command changed."""
    for file in group.files:
        before, after = file.before, file.after
        wrote = _Wrote(
            seq,
            place or seq,
            pre_image(file),
            before.digest,
            after.digest,
            certain=True,
            blob=before.blob,
            mode_before=before.mode if before.has_bytes else None,
            mode_after=after.mode if after.has_bytes else None,
            problem=group.problem,
            by_shell=True,
        )
        found.setdefault(file.path, []).append(wrote)


def created_folders(rows: Iterable[Row], state: SessionState, to_seq: int) -> list[str]:
    """Return the folders that shell commands created after `to_seq`: a rewind removes those that are empty then."""
    visible = (event for stored, event in rows if stored.seq > to_seq and not state.view.hides(stored.seq))
    finished = (event for event in visible if isinstance(event, e.ToolCallFinished))
    return [path for event in finished for group in groups_in(event.facts) for path in group.folders]


def _step(path: str, writes: Sequence[_Wrote], forced: bool, blob: ReadBlob) -> RestoreStep:
    first, last = writes[0], writes[-1]
    problem = None if forced else _broken(writes) or next((write.problem for write in writes if write.problem), None)
    stays = all(write.digest_before == write.digest_after for write in writes)
    restore = _first_content(writes, blob)
    if restore is None and first.digest_before != ABSENT and not stays:
        problem = "no copy of what was there is kept"
    return RestoreStep(
        path=path,
        restore=restore,
        expected=frozenset() if forced else _left_by(writes),
        problem=problem,
        mode=first.mode_before,
        left_mode=last.mode_after,
        content_stays=stays,
    )


def _first_content(writes: Sequence[_Wrote], blob: ReadBlob) -> Content:
    """Return the content before the first write. A write that changed only permissions does not hold it."""
    digest = writes[0].digest_before
    if digest.startswith(LINK):
        return Link(digest.removeprefix(LINK))
    for write in writes:
        if write.digest_before != digest:
            continue
        if write.before is not None:
            return write.before
        data = blob(write.blob) if write.blob else None
        if data is not None and digest_of(data) == digest:
            return data
    return None


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
        RestoreStep(
            path=change.path,
            restore=change.found,
            expected=frozenset({digest_of(change.restore)}),
            mode=change.found_mode,
            left_mode=change.restore_mode,
        )
        for change in changes
        if change.wanted
    ]


# --- the record ----------------------------------------------------------------------------------------------------


def recorded(changes: Iterable[FileChange]) -> dict[str, Any]:
    """Build the record for `Rewound.files`, with all contents in one byte string, which becomes a blob if long."""
    contents = bytearray()
    places: dict[bytes, list[int]] = {}

    def kept(data: Content) -> list[int] | str | None:
        if data is None:
            return None
        if isinstance(data, Link):
            return data.target
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
            if (change.found_mode, change.restore_mode) != (None, None):
                entries[change.path]["modes"] = [change.found_mode, change.restore_mode]
    return {"entries": entries, "contents": bytes(contents)} if entries else {}


def changes_in(files: dict[str, Any]) -> list[FileChange]:
    """Return the changes that a `Rewound` event records."""
    contents = files.get("contents", b"")

    def cut(place: list[int] | str | None) -> Content:
        if isinstance(place, str):
            return Link(place)
        return None if place is None else contents[place[0] : place[0] + place[1]]

    entries = cast("dict[str, dict[str, Any]]", files.get("entries", {}))
    return [
        FileChange(path=path, problem=entry["problem"])
        if "problem" in entry
        else FileChange(
            path=path,
            found=cut(entry["found"]),
            restore=cut(entry["restore"]),
            found_mode=entry.get("modes", (None, None))[0],
            restore_mode=entry.get("modes", (None, None))[1],
        )
        for path, entry in entries.items()
    ]
