"""Rewinds a session to a message: finds the exact event and builds the events. `file_restore` handles the files.

A rewind hides events; it removes none and can be undone. It never separates a call from its result. It closes the open
turn first: afterwards nothing runs, and no later input waits for an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from outlast.core import events as e
from outlast.core.errors import InvalidInput
from outlast.core.fold import Row
from outlast.core.messages import Message, Part, Role
from outlast.core.state import SessionState
from outlast.core.transcript import message_of
from outlast.core.window import whole_from
from outlast.runtime.changes.file_change import FileChange, RestoreStep, carried_out, decided
from outlast.runtime.changes.session_changes import WorkspaceChanges
from outlast.runtime.driver import Driver
from outlast.runtime.history import file_restore
from outlast.runtime.history.child_logs import ChildLog, child_logs
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.turn.call_changes import shell_changes
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.project_files import ProjectFiles
from outlast.runtime.turn.recovery import closing_events, stored_partial_reply
from outlast.store.read.decode import decode_events

REWOUND = "rewound"
RESTORING = "restoring"
"""Runtime state while files are being written: which rewind, and whether this is its undo."""
LOOK_BACK = 500


def rewind_point(rows: Sequence[Row], state: SessionState, seq: int, *, keep: bool = True) -> int:
    """Return the `to_seq` of a rewind to the message at `seq`, which stays as the last message; `keep` False hides it.

    An input counts from the event where a turn read it; a reply includes the results of its calls. `rows` start before
    the message and end at the head. Raises `InvalidInput` if no such message is visible.
    """
    found = next(((stored, event) for stored, event in rows if stored.seq == seq), None)
    message = message_of(*found) if found else None
    is_input = isinstance(found and found[1], e.InputAdmitted)
    place = _read_at(rows, state, seq) if is_input else seq
    if message is None or message.is_summary or state.view.archives(place):
        raise InvalidInput(f"event {seq} is not a message that can be rewound to; `sessions show` lists those that are")
    if is_input:
        between = [stored for stored, event in rows if seq < stored.seq < place and message_of(stored, event)]
        waited = bool(between) or state.view.archives(seq)  # keep what happened before a turn read it
        return place if keep else place - 1 if waited else seq - 1
    if not keep:
        return whole_from(rows, seq) - 1
    return _end_of_group(rows, message, seq)


def _read_at(rows: Sequence[Row], state: SessionState, seq: int) -> int:
    """Return the seq of the first visible event where a turn read the input; the input's own seq if no turn did."""
    for stored, event in rows:
        if (
            isinstance(event, e.TurnStarted | e.InputPromoted)
            and seq in event.inputs
            and not state.view.archives(stored.seq)
        ):
            return stored.seq
    return seq


def _end_of_group(rows: Sequence[Row], message: Message, seq: int) -> int:
    """Return the last event of the message's group: a reply, its calls and their results."""
    first = whole_from(rows, seq)
    asked = {call.id for stored, event in rows if first <= stored.seq <= seq for call in _calls(stored.seq, event)}
    end = seq
    for stored, event in rows:
        if stored.seq > seq and _calls(stored.seq, event):
            break
        if stored.seq > seq and isinstance(event, e.ToolCallStarted | e.ToolCallFinished) and event.call_id in asked:
            end = stored.seq
        if stored.seq > seq and isinstance(event, e.MessageAppended):
            answered = Message(role=event.role, parts=event.parts).tool_results
            end = stored.seq if any(result.call_id in asked for result in answered) else end
    return end


def _calls(seq: int, event: e.Event | e.Opaque) -> list[Any]:
    if isinstance(event, e.AssistantReplied) or (isinstance(event, e.MessageAppended) and event.role is Role.ASSISTANT):
        return Message(role=Role.ASSISTANT, parts=event.parts).tool_calls
    return []


def rewind_events(
    state: SessionState, to_seq: int, files: dict[str, Any] | None = None, partial: tuple[Part, ...] = ()
) -> tuple[e.Event, ...]:
    """Build the events of a rewind, to be written in one commit under the lease. `files` is from
    `file_restore.recorded`; `partial` holds the parts of an open reply."""
    waiting = [seq for seq in state.unanswered if seq > to_seq and not (state.turn and seq in state.turn.inputs)]
    withdrawn = (e.InputWithdrawn(inputs=waiting, reason=REWOUND),) if waiting else ()
    rewound = e.Rewound(to_seq=to_seq, files=files or {})
    return (*closing_events(state, REWOUND, "the session was rewound", partial), *withdrawn, rewound)


def rewind_to_undo(state: SessionState) -> int:
    """Return the seq of the newest active rewind; 0 if there is none."""
    return max((span.last for span in state.view.hidden), default=0)


# --- by the driver, under its lease ----------------------------------------------------------------------------------


async def rewind(
    driver: Driver,
    context: TurnContext,
    seq: int,
    *,
    files: bool = False,
    keep: bool = True,
    anyway: Sequence[str] = (),
) -> list[FileChange]:
    """Rewind to the message at `seq`, and with `files` also the files; return the files left alone, each with its
    problem."""
    rows = await _rows(driver, max(0, seq - LOOK_BACK))
    to_seq = rewind_point(rows, driver.state, seq, keep=keep)
    partial = await stored_partial_reply(driver)
    if not files:
        await driver.write(*rewind_events(driver.state, to_seq, partial=partial))
        return []
    place = _files(driver, context)
    children = await asyncio.to_thread(child_logs, driver.store, rows, driver.state, to_seq)
    shell = shell_changes(context, driver.session_id)
    plan = await asyncio.to_thread(_plan, rows, driver.state, to_seq, anyway, children, shell)
    changes = await asyncio.to_thread(decided, plan, place.read, place.mode)
    folders = _created_folders(rows, driver.state, to_seq, children)
    begun = e.RuntimeStateChanged(changes={RESTORING: {"undo": False}})
    await driver.write(*rewind_events(driver.state, to_seq, file_restore.recorded(changes), partial), begun)
    left = await _restored(driver, place, changes)
    await asyncio.to_thread(place.remove_empty, folders)
    await asyncio.to_thread(shell.recorded, to_seq)
    return left


def _created_folders(rows: list[Row], state: SessionState, to_seq: int, children: Sequence[ChildLog]) -> list[str]:
    folders = file_restore.created_folders(rows, state, to_seq)
    for child in children:
        folders += file_restore.created_folders(child.rows, child.state, 0)
    return folders


def _plan(
    rows: list[Row],
    state: SessionState,
    to_seq: int,
    anyway: Sequence[str],
    children: Sequence[ChildLog],
    shell: WorkspaceChanges,
) -> list[RestoreStep]:
    """Plan the restore. A look first finds what a command changed whose result was never recorded."""
    shell.look(state.last_seq)
    return file_restore.steps(
        rows,
        state,
        to_seq,
        anyway=anyway,
        children=children,
        unrecorded=[(group, shell.pre_image) for group in shell.calls.unrecorded],
        blob=lambda blob: shell.content("", blob),
    )


async def unrewind(driver: Driver, context: TurnContext) -> list[FileChange]:
    """Undo the newest rewind and its file changes; return the files left alone. Raises `InvalidInput` if there is no
    active rewind."""
    seq = rewind_to_undo(driver.state)
    _, event = await driver.event(seq) if seq else (None, None)
    if not isinstance(event, e.Rewound):
        raise InvalidInput("the session is not rewound, so there is nothing to undo")
    closed = closing_events(driver.state, REWOUND, "a rewind was undone", await stored_partial_reply(driver))
    undone = e.RewindUndone(rewound_seq=seq)
    plan = file_restore.undone(file_restore.changes_in(event.files))
    if not plan:
        await driver.write(*closed, undone)
        return []
    place = _files(driver, context)
    changes = await asyncio.to_thread(decided, plan, place.read, place.mode)
    begun = e.RuntimeStateChanged(changes={RESTORING: {"undo": True, "rewound_seq": seq}})
    await driver.write(*closed, undone, begun)
    return await _restored(driver, place, changes)


async def finish_restoring(driver: Driver, context: TurnContext) -> list[FileChange]:
    """Finish the file changes that a dead process had recorded, if any; a driver calls this after a takeover. In
    read-only mode it does nothing and leaves them to the next driver."""
    begun = driver.state.runtime.get(RESTORING)
    if not begun or context.gate.mode is PermissionMode.READ_ONLY:
        return []
    seq = begun["rewound_seq"] if begun["undo"] else rewind_to_undo(driver.state)
    _, event = await driver.event(seq) if seq else (None, None)
    changes = file_restore.changes_in(event.files) if isinstance(event, e.Rewound) else []
    place = _files(driver, context)
    if begun["undo"]:
        plan = file_restore.undone(changes)
        changes = await asyncio.to_thread(decided, plan, place.read, place.mode)
    return await _restored(driver, place, changes)


async def _restored(driver: Driver, place: ProjectFiles, changes: list[FileChange]) -> list[FileChange]:
    await driver.fresh()
    left = await asyncio.to_thread(
        carried_out, changes, place.read, place.write, place.remove, place.mode, place.set_mode
    )
    await driver.write(e.RuntimeStateChanged(changes={RESTORING: None}))
    return left


def _files(driver: Driver, context: TurnContext) -> ProjectFiles:
    if context.gate.mode is PermissionMode.READ_ONLY:
        raise InvalidInput("files are read-only here; rewind without them, or start with --permission-mode")
    return ProjectFiles(context, driver.session_id)


async def _rows(driver: Driver, after: int) -> list[Row]:
    """Return the events after `after` up to the head, including those that no window shows."""
    last = driver.state.last_seq
    return await asyncio.to_thread(
        lambda: decode_events(driver.store, driver.store.read(driver.session_id, after=after, before=last + 1))
    )
