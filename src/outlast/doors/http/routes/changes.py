"""Changing a session, and deleting it for good."""

from __future__ import annotations

from typing import Annotated

from litestar import delete, patch
from litestar.params import JSONBody, QueryParameter

from outlast.app.changing import change, change_running_mode
from outlast.app.deleting import delete as erase
from outlast.app.sessions import summary_of
from outlast.doors.http.desk import DOOR
from outlast.doors.http.routes.parameters import CHANGING, SESSION, OpenDesk, SessionId
from outlast.doors.http.rows import receipt_row, summary_row
from outlast.doors.http.wire import DeleteReceipt, PatchSessionRequest, SessionSummary


@patch(
    "/api/sessions/{session_id:str}",
    summary="Change its title, model, persona or rights",
    operation_id="changeSession",
    tags=["sessions"],
    responses=CHANGING,
)
async def change_session(desk: OpenDesk, session_id: SessionId, data: JSONBody[PatchSessionRequest]) -> SessionSummary:
    """All of what is given, or nothing. A permission mode is in force at once, in a running turn too."""
    header = await desk.named(session_id)
    await desk.read(
        change,
        desk.store,
        desk.settings,
        header,
        door=DOOR,
        title=data.title,
        model=data.model,
        persona=data.persona,
        permission_mode=data.permission_mode,
        plan_mode=data.plan_mode,
    )
    if data.permission_mode is not None:
        change_running_mode(desk.crew.running_kit(header.session_id), data.permission_mode)
    changed = await desk.read(desk.store.head, header.session_id)
    return summary_row(await desk.read(summary_of, changed, desk.store))


@delete(
    "/api/sessions/{session_id:str}",
    status_code=200,
    summary="Delete it for good",
    operation_id="deleteSession",
    tags=["sessions"],
    responses=SESSION,
)
async def delete_session(
    desk: OpenDesk,
    session_id: SessionId,
    with_forks: Annotated[bool, QueryParameter(description="Also every session that stands on it.")] = False,
) -> list[DeleteReceipt]:
    """It cannot be undone; `archive` only hides it. One receipt for each session that is gone. What forks share with it
    stays until the last of them goes."""
    header = await desk.named(session_id)
    gone = await desk.read(
        erase, None, desk.store, header.session_id, door=DOOR, with_forks=with_forks, settings=desk.settings
    )
    return [receipt_row(one) for one in gone]
