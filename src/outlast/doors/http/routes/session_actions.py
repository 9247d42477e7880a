"""Actions on a whole session: its life cycle, its turns, its boundaries, changing its settings and deleting it.

Each action is durable before its response.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Annotated, Any

from litestar import delete, patch, post
from litestar.params import JSONBody, QueryParameter

from outlast.app.sessions.boundaries import context_for_door
from outlast.app.sessions.delete import delete as erase
from outlast.app.sessions.messages_page import last_input
from outlast.app.sessions.session_list import refuse_ended, summary_of
from outlast.app.sessions.update import change, change_running_mode
from outlast.core.errors import ConflictError, InvalidInput
from outlast.core.events import Delivery
from outlast.core.header import Header
from outlast.doors.http.parameters import CHANGING, SESSION, OpenServer, SessionId
from outlast.doors.http.schemas import (
    CompactRequest,
    DeleteReceipt,
    ForkRequest,
    MessageAck,
    PatchSessionRequest,
    ReasonRequest,
    RewindRequest,
    SessionAck,
    SessionSummary,
    VerbAck,
)
from outlast.doors.http.serializers import receipt_row, summary_row
from outlast.doors.http.server_state import DOOR, ServerState

STOP_SECONDS = 15.0
Verb = Callable[..., Any]


def verb(name: str, summary: str) -> Callable[[Verb], Any]:
    """Declare the handler of `POST /api/sessions/{id}/<name>`."""
    return post(
        f"/api/sessions/{{session_id:str}}/{name}",
        status_code=200,
        summary=summary,
        operation_id=f"{name}Session",
        tags=["verbs"],
        responses=CHANGING,
    )


async def _done(server: ServerState, session_id: str, result: Any = "done") -> VerbAck:
    header = await server.read(server.store.head, session_id)
    return VerbAck(session_id=session_id, state=header.state, result=result)


# --- life cycle


@verb("end", "End a session; it accepts no more messages")
async def end(server: OpenServer, session_id: SessionId, data: JSONBody[ReasonRequest | None] = None) -> VerbAck:
    """A running turn is stopped first. Ending an ended session changes nothing."""
    header = await server.named(session_id)
    if header.has_ended:
        return VerbAck(session_id=header.session_id, state="ended", result="nothing")
    context = await server.read(context_for_door, server.settings, server.store, header)
    await server.service.end(header.session_id, context, data.reason if data is not None else None)
    return await _done(server, header.session_id)


@verb("reopen", "Reopen an ended session")
async def reopen(server: OpenServer, session_id: SessionId) -> VerbAck:
    header = await server.named(session_id)
    if header.rotated_to:
        refuse_ended(header)
    if not header.has_ended:
        return await _done(server, header.session_id, "nothing")
    await server.service.reopen(header.session_id)
    return await _done(server, header.session_id)


@verb("archive", "Archive a session: hide it from lists")
async def archive(server: OpenServer, session_id: SessionId) -> VerbAck:
    """Nothing is lost; `unarchive` undoes it."""
    header = await server.named(session_id)
    if header.state == "archived":
        return await _done(server, header.session_id, "nothing")
    await server.service.archive(header.session_id)
    return await _done(server, header.session_id)


@verb("unarchive", "Unarchive a session: show it in lists")
async def unarchive(server: OpenServer, session_id: SessionId) -> VerbAck:
    header = await server.named(session_id)
    if header.state != "archived":
        return await _done(server, header.session_id, "nothing")
    await server.service.unarchive(header.session_id)
    return await _done(server, header.session_id)


@verb("fork", "Start a new session from a point of this one")
async def fork(server: OpenServer, session_id: SessionId, data: JSONBody[ForkRequest | None] = None) -> SessionAck:
    """The original session stays unchanged; the response has the id of the new session."""
    header = await server.named(session_id)
    wanted = data or ForkRequest()
    with _as_conflict():
        made = await server.read(server.service.fork, header.session_id, at=wanted.at, title=wanted.title)
    return SessionAck(session_id=made, state="active")


# --- turns


@verb("interrupt", "Stop the running turn")
async def interrupt(server: OpenServer, session_id: SessionId, data: JSONBody[ReasonRequest | None] = None) -> VerbAck:
    """The session is kept and takes the next message. If no turn is open and no message is waiting, nothing is done."""
    header = await server.named(session_id)
    if header.turn is None and not header.pending_count:
        return await _done(server, header.session_id, "nothing")
    await server.service.interrupt(header.session_id, data.reason if data is not None else None)
    server.pool.wake(header.session_id)  # a worker must close an open turn that has no driver
    return await _done(server, header.session_id, "requested")


@verb("continue", "Continue pending or interrupted work")
async def go_on(server: OpenServer, session_id: SessionId) -> VerbAck:
    header = await server.named(session_id)
    refuse_ended(header)
    if not header.has_work:
        return await _done(server, header.session_id, "nothing")
    if not server.pool.answers:
        raise ConflictError("this server was started with --model none, so it runs no turns; start one with a model")
    if server.pool.works:
        server.pool.wake(header.session_id)
    elif not await _is_driven(server, header):
        await server.service.go_on(header.session_id)
    return await _done(server, header.session_id)


@verb("retry", "Retry the last message")
async def retry(server: OpenServer, session_id: SessionId) -> MessageAck:
    """Everything that followed the message is set aside, as by a rewind; a running turn is stopped first. Files are not
    changed."""
    header = await server.named(session_id)
    refuse_ended(header)
    last = await server.read(last_input, server.store, header.session_id)
    if last is None or last.seq is None:
        raise ConflictError("this session has no messages yet, so there is nothing to retry")
    await _stopped(server, header)
    await _drawn(server, header, "rewind", {"seq": last.seq, "keep": False})
    return await server.admit(header.session_id, last.parts, None, Delivery.QUEUE)


async def _is_driven(server: ServerState, header: Header) -> bool:
    held = await server.read(server.store.holder, header.session_id)
    return held is not None and not held.expired


async def _stopped(server: ServerState, header: Header) -> None:
    """Stop the turn that runs, here or in another process, and wait for its end. An open turn without a driver is left
    to the boundary that follows, which closes it."""
    if header.turn is None or not await _is_driven(server, header):
        return
    await server.service.interrupt(header.session_id, "asked again")
    await server.until(header.session_id, lambda now: now.turn is None or now.turn != header.turn, STOP_SECONDS)


# --- boundaries


@verb("clear", "Archive the messages and continue")
async def clear(server: OpenServer, session_id: SessionId) -> VerbAck:
    return await _boundary(server, session_id, "clear", {})


@verb("rewind", "Rewind to a message")
async def rewind(server: OpenServer, session_id: SessionId, data: JSONBody[RewindRequest]) -> VerbAck:
    """Nothing is removed; `unrewind` undoes it."""
    return await _boundary(server, session_id, "rewind", {"seq": data.seq, "keep": data.keep, "files": data.files})


@verb("unrewind", "Undo the newest rewind")
async def unrewind(server: OpenServer, session_id: SessionId) -> VerbAck:
    return await _boundary(server, session_id, "unrewind", {})


@verb("compact", "Replace older messages by a summary")
async def compact(server: OpenServer, session_id: SessionId, data: JSONBody[CompactRequest | None] = None) -> VerbAck:
    """The original messages stay readable; `uncompact` undoes it."""
    return await _boundary(
        server, session_id, "compact", {"instructions": data.instructions if data is not None else None}
    )


@verb("uncompact", "Undo the newest compaction")
async def uncompact(server: OpenServer, session_id: SessionId) -> VerbAck:
    return await _boundary(server, session_id, "uncompact", {})


async def _boundary(server: ServerState, session_id: str, what: str, arguments: dict[str, Any]) -> VerbAck:
    header = await server.named(session_id)
    refuse_ended(header)
    if what != "compact":
        context = await server.read(context_for_door, server.settings, server.store, header)
    elif server.pool.answers:
        context = await server.read(server.pool.turn_context, header.session_id)
    else:
        raise ConflictError("this server was started with --model none, so there is no window to compact")
    with _as_conflict():
        result = await server.service.boundary(header.session_id, what, arguments, context)
    return await _done(server, header.session_id, result)


@contextmanager
def _as_conflict() -> Generator[None]:
    """Turn InvalidInput into ConflictError: the request is well formed, but the session has no such event or nothing to
    undo."""
    try:
        yield
    except InvalidInput as error:
        raise ConflictError(str(error)) from error


async def _drawn(server: ServerState, header: Header, what: str, arguments: dict[str, Any]) -> None:
    """Request a boundary and wait until it is applied: the caller's next write must come after it."""
    context = await server.read(context_for_door, server.settings, server.store, header)
    with _as_conflict():
        result = await server.service.boundary(header.session_id, what, arguments, context)
    if result == "requested":
        server.pool.wake(header.session_id)
        await server.until(header.session_id, lambda now: not now.requests, STOP_SECONDS)


@patch(
    "/api/sessions/{session_id:str}",
    summary="Change title, model, persona or permissions",
    operation_id="changeSession",
    tags=["sessions"],
    responses=CHANGING,
)
async def change_session(
    server: OpenServer, session_id: SessionId, data: JSONBody[PatchSessionRequest]
) -> SessionSummary:
    """Applies all given changes or none. Permission mode and plan mode take effect at once, also in a running turn."""
    header = await server.named(session_id)
    await server.read(
        change,
        server.store,
        server.settings,
        header,
        door=DOOR,
        title=data.title,
        model=data.model,
        persona=data.persona,
        permission_mode=data.permission_mode,
        plan_mode=data.plan_mode,
        workflow=data.workflow,
    )
    if data.permission_mode is not None:
        change_running_mode(server.pool.running_context(header.session_id), data.permission_mode)
    changed = await server.read(server.store.head, header.session_id)
    return summary_row(await server.read(summary_of, changed, server.store))


@delete(
    "/api/sessions/{session_id:str}",
    status_code=200,
    summary="Delete a session permanently",
    operation_id="deleteSession",
    tags=["sessions"],
    responses=SESSION,
)
async def delete_session(
    server: OpenServer,
    session_id: SessionId,
    with_forks: Annotated[bool, QueryParameter(description="Also delete its forks.")] = False,
) -> list[DeleteReceipt]:
    """This cannot be undone; `archive` only hides a session. Returns one receipt for each deleted session. Events that
    forks share with it stay until the last fork is deleted."""
    header = await server.named(session_id)
    gone = await server.read(
        erase, None, server.store, header.session_id, door=DOOR, with_forks=with_forks, settings=server.settings
    )
    return [receipt_row(one) for one in gone]
