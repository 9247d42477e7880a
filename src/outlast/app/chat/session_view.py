"""Sessions as a chat may see them: the sessions of the chat's project, their status and their open questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from outlast.app.sessions.detail import takeover_trouble
from outlast.app.sessions.session_list import SessionRow, summary_of
from outlast.core import events as e
from outlast.core.chat_route import debt_key
from outlast.core.errors import SessionNotFound
from outlast.core.outbox import OpenQuestion
from outlast.runtime.prompt.project_identity import project_key
from outlast.store.log_store import LogStore
from outlast.store.port import Query
from outlast.store.read.decode import decode_events, load_state

LOOKED_BACK = 2_000
"""How many events back the message of a question may be when a user answers it."""


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a session. `waiting` counts the inputs that no turn has started to answer. `trouble` says why an open
    turn does not go on yet."""

    summary: SessionRow
    model: str | None
    mode: str | None
    running: bool
    waiting: int
    questions: int
    compactions: int
    trouble: str | None = None


class ShownQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question as it was shown in a chat: its session and event, and the digest of the call shown."""

    session_id: str
    seq: int
    call_digest: str


class OpenSession(msgspec.Struct, frozen=True, kw_only=True):
    """An open question of a session."""

    session_id: str
    seq: int
    asked: OpenQuestion


def recent(store: LogStore, project: Path, limit: int) -> list[SessionRow]:
    """The newest active sessions of a project."""
    page = store.find(Query(project_key=project_key(project), state="active", limit=limit * 2))
    return [summary_of(header, store) for header in page.headers if header.depth == 0][:limit]


def found(store: LogStore, project: Path, prefix: str) -> SessionRow:
    """The session of this project whose id starts with `prefix`. For a chat, sessions of other projects do not
    exist."""
    missing = SessionNotFound(f"no session of this chat's project begins with {prefix}; /sessions lists them")
    try:
        header = store.head(store.tip(store.resolve(prefix)))
    except SessionNotFound as error:
        raise missing from error
    if header.project_key != project_key(project) or header.depth:
        raise missing
    return summary_of(header, store)


def standing(store: LogStore, session_id: str) -> SessionStatus:
    header, state = store.head(session_id), load_state(store, session_id)
    mode = state.runtime.get("permission_mode")
    return SessionStatus(
        summary=summary_of(header, store),
        model=state.model,
        mode=str(mode) if mode else None,
        running=state.turn is not None,
        waiting=len([seq for seq in state.unanswered if state.turn is None or seq not in state.turn.inputs]),
        questions=len(state.open_approvals),
        compactions=state.compactions.count,
        trouble=takeover_trouble(state),
    )


def of_chat(store: LogStore, route: str) -> list[str]:
    """The sessions a chat may still hear from: its own first, then those it left that still owe it something."""
    own = store.route(route)
    owing = [session_id for _, session_id in store.routes(debt_key(route, ""))]
    return list(dict.fromkeys([*([own] if own else []), *owing]))


# --- questions -------------------------------------------------------------------------------------------------------


def open_questions(store: LogStore, session_id: str) -> list[OpenSession]:
    """The unanswered questions of a session."""
    state = load_state(store, session_id)
    found: list[OpenSession] = []
    for approval in state.open_approvals:
        [row] = decode_events(store, store.read(session_id, after=approval.seq - 1, before=approval.seq + 1))
        event = row[1]
        if isinstance(event, e.ApprovalRequested):
            asked = OpenQuestion(
                name=event.name, arguments=event.arguments, call_digest=event.call_digest, reason=event.reason
            )
            found.append(OpenSession(session_id=session_id, seq=approval.seq, asked=asked))
    return found


def shown_in(store: LogStore, route: str, session_id: str, message_id: str | None = None) -> list[ShownQuestion]:
    """The questions shown by our messages in this chat, newest first; with `message_id` only that message's."""
    after = max(0, store.head(session_id).last_seq - LOOKED_BACK)
    rows = store.read(session_id, after=after, kinds=frozenset({"DeliveryMade"}), newest_first=True)
    seqs = [
        event.of_seq
        for _, event in decode_events(store, rows)
        if isinstance(event, e.DeliveryMade) and event.route == route and message_id in (None, event.message_id)
    ]
    found = (_question_at(store, session_id, seq) for seq in dict.fromkeys(seqs))
    return [shown for shown in found if shown is not None]


def answered_at(store: LogStore, shown: ShownQuestion, route: str, update_id: str) -> int | None:
    """The event by which this update answered the question; None if another update did, or none yet."""
    rows = store.read(shown.session_id, after=shown.seq, kinds=frozenset({"NoticePosted"}))
    ours = [row for row in rows if row.key == update_id]
    return next((row.seq for row, event in decode_events(store, ours) if getattr(event, "route", None) == route), None)


def _question_at(store: LogStore, session_id: str, seq: int) -> ShownQuestion | None:
    [(_, event)] = decode_events(store, store.read(session_id, after=seq - 1, before=seq + 1))
    match event:
        case e.ApprovalRequested(call_digest=digest):
            return ShownQuestion(session_id=session_id, seq=seq, call_digest=digest)
        case e.NoticePosted(facts=facts) if "question" in facts:
            question = cast("dict[str, Any]", facts["question"])
            return ShownQuestion(
                session_id=str(question["session_id"]),
                seq=int(question["seq"]),
                call_digest=str(question["call_digest"]),
            )
        case _:
            return None
