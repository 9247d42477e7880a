"""`/api/sessions`: lists sessions, creates one, and returns one with its messages."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response, get, post
from litestar.params import JSONBody, QueryParameter

from outlast.app.permissions import permission_mode_of
from outlast.app.sessions.create import check_project, create
from outlast.app.sessions.detail import open_work, takeover_trouble
from outlast.app.sessions.messages_page import opened
from outlast.app.sessions.pending_approvals import pending_approvals
from outlast.app.sessions.session_list import SessionListing, damaged_summary, listed_in, summary_of
from outlast.core.errors import ConflictError
from outlast.doors.http.json_body import JsonResponse, encoded
from outlast.doors.http.parameters import SESSION, BeforeSeq, Limit, OpenServer, SessionId, refused
from outlast.doors.http.schemas import CreateSessionRequest, SessionAck, SessionDetail, SessionSummary
from outlast.doors.http.serializers import message_row, summary_row
from outlast.doors.http.server_state import DOOR, OWNER, ServerState, folder

State = Literal["active", "ended", "archived"]
NEXT_CURSOR = "X-Next-Cursor"


@get(
    "/api/sessions",
    summary="List sessions, newest activity first",
    operation_id="listSessions",
    tags=["sessions"],
    responses=refused(),
)
async def list_sessions(
    server: OpenServer,
    limit: Limit = 50,
    of_state: Annotated[State | None, QueryParameter(name="state")] = None,
    project: Annotated[
        str | None, QueryParameter(max_length=4096, description="A project_key, or the path of a folder on the server.")
    ] = None,
    q: Annotated[str | None, QueryParameter(max_length=200, description="A part of the title.")] = None,
    cursor: Annotated[
        str | None, QueryParameter(max_length=200, description="X-Next-Cursor of the page before.")
    ] = None,
) -> Response[list[SessionSummary]]:
    """Returns a page of sessions. For the next page, repeat the request with `cursor` set to the header
    `X-Next-Cursor`, until the header is missing. Sessions whose header cannot be read come last, with the state
    `damaged`."""
    found = await server.read(_listed, server, limit, of_state, project, q, cursor)
    headers = {NEXT_CURSOR: found.cursor} if found.cursor is not None else {}
    rows = [summary_row(row) for row in found.sessions] + [_damaged(name) for name in found.damaged]
    return Response(rows, headers=headers)


def _listed(
    server: ServerState, limit: int, state: str | None, project: str | None, q: str | None, cursor: str | None
) -> SessionListing:
    return listed_in(
        server.store,
        project=project or None,
        state=state,
        title=q or None,
        limit=limit,
        cursor=cursor or None,
        owner_id=OWNER,
    )


def _damaged(session_id: str) -> SessionSummary:
    return summary_row(damaged_summary(session_id))


@post(
    "/api/sessions",
    status_code=200,
    summary="Create a session",
    operation_id="createSession",
    tags=["sessions"],
    responses=refused(408, 409, 413, 415),
)
async def create_session(server: OpenServer, data: JSONBody[CreateSessionRequest | None] = None) -> SessionAck:
    """The session is stored before the response, and empty until a message is posted to it."""
    wanted = data or CreateSessionRequest()
    if wanted.place is not None and wanted.repo_path is not None:
        raise ConflictError("give repo_path or place, not both: a place has its own folder")
    root = server.label_folder(wanted.place) if wanted.place else folder(wanted.repo_path, server.settings.project_root)
    if wanted.repo_path is not None and root is not None:
        await server.read(check_project, server.store, server.settings, root)
    session_id = await server.read(
        create,
        server.store,
        server.settings,
        root,
        door=DOOR,
        title=wanted.title,
        model=wanted.model_override,
        persona=wanted.persona_name,
        owner_id=OWNER,
        place=server.place(wanted.place),
    )
    return SessionAck(session_id=session_id, state="active")


@get(
    "/api/sessions/{session_id:str}",
    summary="Show a session with its newest messages",
    operation_id="getSession",
    tags=["sessions"],
    responses=SESSION,
)
async def get_session(
    server: OpenServer,
    session_id: SessionId,
    all: Annotated[bool, QueryParameter(description="Include cleared and rewound messages.")] = False,
    before: BeforeSeq = None,
    limit: Limit = 200,
) -> Response[SessionDetail]:
    """The last messages, newest last, and the reply in progress. For older messages, set `before` to the first `seq` of
    this page."""
    return JsonResponse(await server.read(_told, server, session_id, before, limit, all))


def _told(server: ServerState, named: str, before: int | None, limit: int, include_archived: bool) -> bytes:
    """Return the encoded session detail. It may be long, so it is also encoded in the worker thread."""
    return encoded(_detail(server, named, before, limit, include_archived))


def _detail(server: ServerState, named: str, before: int | None, limit: int, include_archived: bool) -> SessionDetail:
    found = opened(server.store, server.header(named), limit=limit, before=before, include_archived=include_archived)
    session_id = found.header.session_id
    summary = summary_row(summary_of(found.header, server.store))
    rows = [message_row(session_id, said) for said in found.said]
    return SessionDetail(
        session=summary,
        messages=rows,
        draft=found.draft,
        last_seq=found.header.last_seq,
        first_seq=rows[0].seq if rows else None,
        permission_mode=permission_mode_of(server.settings, found.state),
        workflow=found.state.runtime.get("workflow"),
        interrupted=open_work(found.state) if summary.activity == "interrupted" else None,
        trouble=server.pool.trouble(session_id) or takeover_trouble(found.state),
        approvals=len(pending_approvals(server.store, session_id, found.state)),
    )
