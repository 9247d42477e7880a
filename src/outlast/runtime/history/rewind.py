"""Rewinding a session to a message: where exactly, and which events say so. Its files: `file_restore`.

A rewind sets events aside; it removes none and can be undone. It never parts a call from its result, and it closes what
is open first: after it nothing runs, and nothing that was said later waits for an answer.
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
from outlast.runtime.driver import Driver
from outlast.runtime.history import file_restore
from outlast.runtime.history.file_restore import FileChange, ProjectFiles
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.recovery import closing_events, stored_partial_reply
from outlast.store.read.decode import decode_events

REWOUND = "rewound"
RESTORING = "restoring"
"""In the runtime state while files are being written: which rewind, and whether it is undone."""
LOOK_BACK = 500


def rewind_point(rows: Sequence[Row], state: SessionState, seq: int, *, keep: bool = True) -> int:
    """The `to_seq` of a rewind to the message at `seq`: it stays the last thing said, or with `keep` False goes too.

    An input counts from where a turn read it; a reply brings the results of its calls along. `rows` reach from before
    the message to the head. `InvalidInput` when there is no such message in sight.
    """
    found = next(((stored, event) for stored, event in rows if stored.seq == seq), None)
    message = message_of(*found) if found else None
    is_input = isinstance(found and found[1], e.InputAdmitted)
    place = _read_at(rows, state, seq) if is_input else seq
    if message is None or message.is_summary or state.view.archives(place):
        raise InvalidInput(f"event {seq} is not a message that can be rewound to; `sessions show` lists those that are")
    if is_input:
        between = [stored for stored, event in rows if seq < stored.seq < place and message_of(stored, event)]
        waited = bool(between) or state.view.archives(seq)  # what happened before it was read stays as it is
        return place if keep else place - 1 if waited else seq - 1
    if not keep:
        return whole_from(rows, seq) - 1
    return _end_of_group(rows, message, seq)


def _read_at(rows: Sequence[Row], state: SessionState, seq: int) -> int:
    """Where a turn first read the input, in sight; its own place when none has."""
    for stored, event in rows:
        if (
            isinstance(event, e.TurnStarted | e.InputPromoted)
            and seq in event.inputs
            and not state.view.archives(stored.seq)
        ):
            return stored.seq
    return seq


def _end_of_group(rows: Sequence[Row], message: Message, seq: int) -> int:
    """The last event of what the message is part of: a reply, its calls and their results."""
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
    """What to write, in one commit and under the lease. `files` is from `file_restore.recorded`, and `partial` what
    there is of an open reply."""
    waiting = [seq for seq in state.unanswered if seq > to_seq and not (state.turn and seq in state.turn.inputs)]
    withdrawn = (e.InputWithdrawn(inputs=waiting, reason=REWOUND),) if waiting else ()
    rewound = e.Rewound(to_seq=to_seq, files=files or {})
    return (*closing_events(state, REWOUND, "the session was rewound", partial), *withdrawn, rewound)


def rewind_to_undo(state: SessionState) -> int:
    """The seq of the newest rewind that is in force; 0 when there is none."""
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
    """Rewind to the message at `seq`, with `files` those too; the files that were left alone, each with its problem."""
    rows = await _rows(driver, max(0, seq - LOOK_BACK))
    to_seq = rewind_point(rows, driver.state, seq, keep=keep)
    partial = await stored_partial_reply(driver)
    if not files:
        await driver.write(*rewind_events(driver.state, to_seq, partial=partial))
        return []
    place = _files(driver, context)
    plan = file_restore.steps(rows, driver.state, to_seq, anyway=anyway)
    changes = await asyncio.to_thread(file_restore.decided, plan, place.read)
    begun = e.RuntimeStateChanged(changes={RESTORING: {"undo": False}})
    await driver.write(*rewind_events(driver.state, to_seq, file_restore.recorded(changes), partial), begun)
    return await _restored(driver, place, changes)


async def unrewind(driver: Driver, context: TurnContext) -> list[FileChange]:
    """Take the newest rewind back, its files too; those that were left alone. `InvalidInput` when there is none."""
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
    changes = await asyncio.to_thread(file_restore.decided, plan, place.read)
    begun = e.RuntimeStateChanged(changes={RESTORING: {"undo": True, "rewound_seq": seq}})
    await driver.write(*closed, undone, begun)
    return await _restored(driver, place, changes)


async def finish_restoring(driver: Driver, context: TurnContext) -> list[FileChange]:
    """Go on with files that a dead process was about to write: to be called by whoever takes over. Else nothing; one
    who may not write leaves it to the next."""
    begun = driver.state.runtime.get(RESTORING)
    if not begun or context.gate.mode is PermissionMode.READ_ONLY:
        return []
    seq = begun["rewound_seq"] if begun["undo"] else rewind_to_undo(driver.state)
    _, event = await driver.event(seq) if seq else (None, None)
    changes = file_restore.changes_in(event.files) if isinstance(event, e.Rewound) else []
    place = _files(driver, context)
    if begun["undo"]:
        changes = await asyncio.to_thread(file_restore.decided, file_restore.undone(changes), place.read)
    return await _restored(driver, place, changes)


async def _restored(driver: Driver, place: ProjectFiles, changes: list[FileChange]) -> list[FileChange]:
    driver.fresh()
    left = await asyncio.to_thread(file_restore.carried_out, changes, place.read, place.write, place.remove)
    await driver.write(e.RuntimeStateChanged(changes={RESTORING: None}))
    return left


def _files(driver: Driver, context: TurnContext) -> ProjectFiles:
    if context.gate.mode is PermissionMode.READ_ONLY:
        raise InvalidInput("files are read-only here; rewind without them, or start with --permission-mode")
    return ProjectFiles(context, driver.session_id)


async def _rows(driver: Driver, after: int) -> list[Row]:
    """The events after that one, to the head, also those that no window shows."""
    last = driver.state.last_seq
    return await asyncio.to_thread(
        lambda: decode_events(driver.store, driver.store.read(driver.session_id, after=after, before=last + 1))
    )
