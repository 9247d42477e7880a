"""Read-only views of a session: its stored events, and projections of them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response, get
from litestar.params import QueryParameter

from outlast.app.sessions.lineage_tree import LineageTree, family_of
from outlast.app.sessions.messages_page import event_page
from outlast.app.sessions.usage import SessionSpending, spending_of
from outlast.core.errors import ConfigError
from outlast.core.event_row import StoredEvent
from outlast.doors.http.parameters import SESSION, AfterSeq, BeforeSeq, Limit, OpenServer, SessionId
from outlast.doors.http.routes.sessions import NEXT_CURSOR
from outlast.doors.http.schemas import ContextInfo, EventInfo, ReplyUsage, RoleUse, UsageInfo
from outlast.doors.http.serializers import spent_row
from outlast.doors.http.server_state import ServerState
from outlast.session import ConversationSession


def view(name: str, summary: str) -> Any:
    """Declare the handler of `GET /api/sessions/{id}/<name>`."""
    return get(
        f"/api/sessions/{{session_id:str}}/{name}",
        summary=summary,
        operation_id=f"{name}OfSession",
        tags=["projections"],
        responses=SESSION,
    )


@view("events", "List the stored events")
async def events(
    server: OpenServer,
    session_id: SessionId,
    after: AfterSeq = 0,
    before: BeforeSeq = None,
    limit: Limit = 200,
    kinds: Annotated[
        str | None, QueryParameter(max_length=2000, pattern="^[A-Za-z]+(,[A-Za-z]+)*$", description="Only these.")
    ] = None,
) -> Response[list[EventInfo]]:
    """Oldest first, including the history that a fork shares. `X-Next-Cursor` is the `after` of the next page."""
    header = await server.named(session_id)
    wanted = frozenset(kinds.split(",")) if kinds else None
    page = await server.read(
        event_page, server.store, header.session_id, after=after, before=before, limit=limit, kinds=wanted
    )
    headers = {NEXT_CURSOR: str(page.next_after)} if page.next_after is not None else {}
    return Response([_event(stored, body) for stored, body in page.rows], headers=headers)


def _event(stored: StoredEvent, body: msgspec.Raw) -> EventInfo:
    return EventInfo(
        seq=stored.seq,
        kind=stored.kind,
        v=stored.v,
        at=stored.at,
        actor=stored.actor,
        turn=stored.turn,
        epoch=stored.epoch,
        hash=stored.hash.hex(),
        redacted=bool(stored.redacted),
        body=body,
    )


async def _session(server: ServerState, session_id: str) -> ConversationSession:
    header = await server.named(session_id)
    found = await server.read(ConversationSession.load, session_id=header.session_id, store=server.store)
    assert found is not None
    return found


@view("timeline", "List the decisions and their reasons")
async def timeline(server: OpenServer, session_id: SessionId) -> list[dict[str, Any]]:
    """The latest decisions about the work, oldest first."""
    session = await _session(server, session_id)
    return await server.read(lambda: session.state.timeline)


@view("ledger", "List assumptions, acceptance anchors and decision boundaries")
async def ledger(server: OpenServer, session_id: SessionId) -> dict[str, Any]:
    session = await _session(server, session_id)
    empty: dict[str, Any] = {"assumptions": [], "acceptance_anchors": [], "decision_boundaries": []}
    return await server.read(lambda: empty | session.state.ledger)


@view("prompts", "List the system prompts that were sent")
async def prompts(server: OpenServer, session_id: SessionId) -> list[dict[str, Any]]:
    """The latest prompts, oldest first, without duplicates."""
    session = await _session(server, session_id)
    return await server.read(lambda: session.state.prompts)


@view("tree", "Show forks, rotations and sub-agents")
async def tree(server: OpenServer, session_id: SessionId) -> LineageTree:
    """All sessions of the family, each after the session it came from."""
    header = await server.named(session_id)
    return await server.read(family_of, server.store, header.session_id)


@view("usage", "Show tokens, cost and context use")
async def usage(server: OpenServer, session_id: SessionId) -> UsageInfo:
    header = await server.named(session_id)
    try:
        turn_context = await server.read(server.pool.turn_context, header.session_id)
    except ConfigError:
        turn_context = None  # only the window is unknown then
    return _usage(header.session_id, await server.read(spending_of, server.store, header.session_id, turn_context))


def _usage(session_id: str, found: SessionSpending) -> UsageInfo:
    context = found.context
    return UsageInfo(
        session_id=session_id,
        turns=found.usage.turns,
        replies=found.usage.replies,
        tool_calls=found.usage.tool_calls,
        total=spent_row(found.usage.total),
        models={name: spent_row(spent) for name, spent in found.usage.models.items()},
        context=ContextInfo(
            window=context.window,
            used=context.used,
            compacts_at=context.compacts_at,
            system=context.system,
            tools=context.tools,
            by_role={role: RoleUse(messages=n, tokens=size) for role, (n, size) in context.by_role.items()},
        ),
        recent=[
            ReplyUsage(
                seq=one.seq,
                at=one.at,
                kind=one.kind,
                turn=one.turn,
                model=one.model,
                input_tokens=one.usage.input_tokens,
                output_tokens=one.usage.output_tokens,
                cache_read_tokens=one.usage.cache_read_tokens,
                cost_micros=one.usage.cost_micros,
            )
            for one in found.recent
        ],
    )
