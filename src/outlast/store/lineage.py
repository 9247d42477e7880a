"""Forks and rotations: which writes they are. Both are one commit, whatever the length of the history.

A fork is a new session on a shared past: its header, a base pointer and one event. A rotation is a fork at the head
that takes the place of its parent: routes, lease and unanswered inputs move with it, and the parent says where it went.
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
    """The write that makes `session_id` go on from the parent's event `at` (its head, if not given).

    What the parent has open (turn, inputs, approvals, draft, lease) is history in the fork, and what it cost was paid
    there. `messages` is how many messages the shared history holds, `boundary_seq` its last boundary, `plan_mode`
    whether it ends in plan mode; a fork at the head knows them.
    """
    at = parent.last_seq if at is None else at
    if messages is None:
        if at != parent.last_seq:
            raise InvalidInput(f"a fork at event {at}, before the head, must be told how many messages lie before it")
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
    """The writes of one commit after which `session_id` is the tip of the parent's lineage and driven by `token`.

    `carried` names the inputs nobody has answered yet; `events` (a compaction, usually) follow the fork. Refused as
    `ConflictError` when the parent has moved on since its header was read, as `StaleLease` when `lease` was taken over.
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
    """It came from the session it goes on for; one of a sub-agent still works for whoever began it."""
    return parent.parent_session_id if parent.depth else parent.session_id


def inherited(parent: Header, session_id: str, at: int, messages: int) -> Header:
    """What a list shows of a session that begins with the parent's history up to `at`."""
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
