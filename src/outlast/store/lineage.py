"""Builds the writes of forks and rotations. Each is one commit of constant size, however long the history is.

A fork is a new session with a shared history: a header, a base pointer and one event. A rotation is a fork at the head
that replaces its parent: routes, lease and unanswered inputs move to it, and the parent's log names its successor.
"""

from __future__ import annotations

from outlast.core.errors import InvalidInput
from outlast.core.events import SessionForked, SessionRotated
from outlast.core.header import Header
from outlast.store.port import (
    LEASE_MS,
    Append,
    Base,
    Claim,
    Create,
    Lease,
    MoveRoutes,
    NewEvent,
    Release,
    Write,
)


def fork(
    parent: Header,
    session_id: str,
    *,
    at: int | None = None,
    messages: int | None = None,
    boundary_seq: int | None = None,
    plan_mode: bool | None = None,
    title: str | None = None,
    reason: str = "fork",
    actor: str = "system",
    events: tuple[NewEvent, ...] = (),
    key: str | None = None,
) -> Create:
    """The write that creates `session_id` as a fork of the parent at event `at` (default: its head).

    What is open in the parent (turn, inputs, approvals, draft, lease) is only history in the fork, and its costs stay
    with the parent. `messages` is the number of messages in the shared history, `boundary_seq` its last boundary,
    `plan_mode` whether it ends in plan mode; for a fork at the head the parent's header supplies them.
    """
    at = parent.last_seq if at is None else at
    if messages is None:
        if at != parent.last_seq:
            raise InvalidInput(f"a fork at event {at}, before the head, needs the number of messages before it")
        messages = parent.message_count
    header = inherited(parent, session_id, at, messages)
    header.parent_session_id = parent.session_id
    if boundary_seq is not None:
        header.boundary_seq = boundary_seq
    if plan_mode is not None:
        header.plan_mode = plan_mode
    if title is not None:
        header.title, header.titled = title, True
    forked = SessionForked(base_session_id=parent.session_id, base_seq=at, reason=reason)
    return Create(
        header=header,
        events=(NewEvent(event=forked, actor=actor), *events),
        base=Base(parent.session_id, at),
        key=key,
    )


def rotate(
    parent: Header,
    session_id: str,
    *,
    token: str,
    holder: str,
    lease: Lease | None = None,
    carried: list[int] | None = None,
    events: tuple[NewEvent, ...] = (),
    actor: str = "system",
    ttl_ms: int = LEASE_MS,
    key: str | None = None,
) -> tuple[Write, ...]:
    """The writes of one commit that makes `session_id` the tip of the parent's lineage, leased to `token`.

    `carried` lists the unanswered inputs; `events` (usually a compaction) follow the fork event. The commit is refused
    as `ConflictError` if the parent has new events since its header was read, as `StaleLease` if `lease` was taken
    over.
    """
    header = inherited(parent, session_id, parent.last_seq, parent.message_count)
    header.parent_session_id = parent_after_rotation(parent)
    forked = SessionForked(
        base_session_id=parent.session_id, base_seq=parent.last_seq, reason="rotate", carried_inputs=carried or []
    )
    if carried:
        header.pending_text, header.pending_at = parent.pending_text, parent.pending_at
    rotated = SessionRotated(to_session_id=session_id)
    return (
        Create(
            header=header,
            events=(NewEvent(event=forked, actor=actor), *events),
            base=Base(parent.session_id, parent.last_seq),
            continues=parent.session_id,
        ),
        Append(
            session_id=parent.session_id,
            events=(NewEvent(event=rotated, actor=actor),),
            key=key,
            lease=lease,
            expect=parent.last_seq,
        ),
        MoveRoutes(from_session_id=parent.session_id, to_session_id=session_id),
        Claim(session_id=session_id, token=token, holder=holder, ttl_ms=ttl_ms),
        *((Release(lease=lease),) if lease is not None else ()),
    )


def parent_after_rotation(parent: Header) -> str | None:
    """The parent of a rotated session: its predecessor, but for a sub-agent still the session that started it."""
    return parent.parent_session_id if parent.depth else parent.session_id


def inherited(parent: Header, session_id: str, at: int, messages: int) -> Header:
    """The initial header of a session that inherits the parent's history up to `at`."""
    return Header(
        session_id=session_id,
        owner_id=parent.owner_id,
        parent_session_id=parent.parent_session_id,
        depth=parent.depth,
        project_key=parent.project_key,
        project_root=parent.project_root,
        project_fingerprint=parent.project_fingerprint,
        place=parent.place,
        title=parent.title,
        titled=parent.titled,
        model=parent.model,
        persona=parent.persona,
        message_count=messages,
        boundary_seq=parent.boundary_seq if parent.boundary_seq <= at else 0,
        last_message_at=parent.last_message_at if messages else None,
        imported_seq=min(parent.imported_seq, at),
        plan_mode=parent.plan_mode,
    )
