"""`/api/sessions/{id}/approvals`: lists the open questions to the user, and answers them. The first answer counts."""

from __future__ import annotations

from litestar import get, post
from litestar.params import JSONBody

from outlast.app.sessions.pending_approvals import change_of, pending_approvals, scope_of
from outlast.app.streams.event_feed import rows_of
from outlast.core import events as e
from outlast.core.errors import ConfigError
from outlast.core.state import Approval
from outlast.doors.http.parameters import CHANGING, SESSION, OpenServer, SessionId
from outlast.doors.http.schemas import AnswerAck, AnswerRequest, ApprovalInfo
from outlast.doors.http.server_state import ServerState
from outlast.runtime.turn.context import TurnContext

ASK_USER, EXIT_PLAN = "ask_user", "exit_plan"
ANSWERS = ["once", "session", "always", "deny"]
FEWER_ANSWERS: dict[str, list[str]] = {ASK_USER: [], EXIT_PLAN: ["once", "deny"]}
"""A question takes any text; a plan is approved once."""


@get(
    "/api/sessions/{session_id:str}/approvals",
    summary="List pending approvals",
    operation_id="listApprovals",
    tags=["approvals"],
    responses=SESSION,
)
async def list_approvals(server: OpenServer, session_id: SessionId) -> list[ApprovalInfo]:
    """Oldest first; then the questions of its sub-agents, each with the `session_id` to answer it in. Questions survive
    a restart, and any door may answer them."""
    header = await server.named(session_id)
    state = await server.read(server.service.state, header.session_id)
    found = await server.read(pending_approvals, server.store, header.session_id, state)
    return [await _row(server, asking, one) for asking, one in found]


async def _turn_context(server: ServerState, session_id: str) -> TurnContext | None:
    """Return the context the call would run in; None if it cannot be built. The question is then shown without diff
    and scope."""
    try:
        return await server.read(server.pool.turn_context, session_id)
    except ConfigError:
        return None


async def _row(server: ServerState, session_id: str, one: Approval) -> ApprovalInfo:
    context = server.pool.running_context(session_id) or await _turn_context(server, session_id)
    [(stored, event)] = await server.read(rows_of, server.store, session_id, after=one.seq - 1, before=one.seq + 1)
    arguments = event.arguments if isinstance(event, e.ApprovalRequested) else {}
    is_call = one.name not in FEWER_ANSWERS and context is not None
    return ApprovalInfo(
        session_id=session_id,
        approval_id=one.seq,
        call_id=one.call_id,
        name=one.name,
        arguments=arguments,
        call_digest=one.call_digest,
        reason=one.reason,
        mode=one.mode,
        diff=await change_of(context, session_id, one.name, arguments) if is_call and context is not None else None,
        scope=await server.read(scope_of, context, one.name, arguments) if is_call else None,
        answers=FEWER_ANSWERS.get(one.name, ANSWERS),
        asked_at=stored.at,
    )


@post(
    "/api/sessions/{session_id:str}/approvals",
    status_code=200,
    summary="Answer",
    operation_id="answerApproval",
    tags=["approvals"],
    responses=CHANGING,
)
async def answer_approval(server: OpenServer, session_id: SessionId, data: JSONBody[AnswerRequest]) -> AnswerAck:
    """An answer is bound to the question, and to the exact call that was shown. Sending the same answer twice counts
    once; a different answer, or an answer to a question that is not open, is a conflict."""
    header = await server.named(session_id)
    seq = await server.service.answer(header.session_id, data.approval_id, data.answer, data.call_digest)
    server.pool.wake(header.session_id)
    return AnswerAck(session_id=header.session_id, approval_id=data.approval_id, seq=seq)
