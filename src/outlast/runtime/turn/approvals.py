"""Questions to the user: approvals of calls, and the questions of the `ask_user` tool.

A question and its answer are events: the question is asked again after a restart, any door may answer it, and the first
answer counts. The call's digest binds the question to the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any

import msgspec

from outlast.core.errors import ConflictError
from outlast.core.events import ApprovalRequested
from outlast.core.state import Approval, SessionState
from outlast.runtime.driver import Driver
from outlast.runtime.failpoints import reach
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.session_writes import SessionWrites
from outlast.store.port import Store

ANSWERS = ("once", "session", "always", "deny")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question. For a call, the answer is once, session, always or deny; for `ask_user`, it is any text."""

    session_id: str
    seq: int
    call_id: str
    name: str
    arguments: dict[str, Any]
    call_digest: str
    reason: str | None = None


Answerer = Callable[[Question], Awaitable[str]]
"""Asks the user of this process. An answer that arrives earlier through another door wins."""


def answer_in(state: SessionState, approval_seq: int) -> str | None:
    return next((found.answer for found in state.approvals if found.seq == approval_seq), None)


def existing_answer(
    state: SessionState, call_id: str, digest: str, mode: PermissionMode | None = None
) -> Approval | None:
    """Return the question about exactly this call, answered or not. Returns None if it was answered under a mode that
    permits more than `mode`: the question must then be asked again."""
    fitting = [found for found in state.approvals if found.call_id == call_id and found.call_digest == digest]
    if not fitting or (mode is not None and fitting[-1].answer is not None and not _stands(fitting[-1], mode)):
        return None
    return fitting[-1]


def _stands(answered: Approval, mode: PermissionMode) -> bool:
    asked_under = answered.mode
    return asked_under is None or (asked_under in set(PermissionMode) and PermissionMode(asked_under).is_at_most(mode))


async def ask_and_wait(
    driver: Driver,
    answerer: Answerer | None,
    *,
    call_id: str,
    name: str,
    arguments: dict[str, Any],
    digest: str,
    reason: str | None,
    mode: PermissionMode | None = None,
    aside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> tuple[int, str]:
    """Record the question unless it was asked before, wait for the answer inside the context `aside`, and return the
    question's seq and the answer."""
    found = existing_answer(driver.state, call_id, digest, mode)
    if found is None:
        receipt = await driver.write(
            ApprovalRequested(
                call_id=call_id,
                name=name,
                arguments=arguments,
                call_digest=digest,
                reason=reason,
                mode=str(mode) if mode is not None else None,
            )
        )
        seq = receipt.seq
        reach("approval.requested")
    else:
        seq = found.seq
    question = Question(
        session_id=driver.session_id,
        seq=seq,
        call_id=call_id,
        name=name,
        arguments=arguments,
        call_digest=digest,
        reason=reason,
    )
    answer = answer_in(driver.state, seq)
    if answer is None:
        async with aside():
            answer = await _answered(driver, answerer, question)
    reach("approval.answered")
    return seq, answer


async def _answered(driver: Driver, answerer: Answerer | None, question: Question) -> str:
    waiting = asyncio.ensure_future(driver.until(lambda state: answer_in(state, question.seq) is not None))
    asking = asyncio.ensure_future(answerer(question)) if answerer is not None else None
    try:
        await asyncio.wait([task for task in (waiting, asking) if task is not None], return_when="FIRST_COMPLETED")
        if asking is not None and asking.done() and not waiting.done():
            with suppress(ConflictError):  # another door was faster, and the first answer counts
                await answer(driver.store, driver.session_id, question.seq, asking.result(), question.call_digest)
            await driver.catch_up()
    finally:
        waiting.cancel()
        if asking is not None:
            asking.cancel()
    given = answer_in(driver.state, question.seq)
    assert given is not None
    return given


async def answer(
    store: Store, session_id: str, approval_seq: int, text: str, call_digest: str | None, door: str = "library"
) -> int:
    """Record a door's answer, durable on return. The same answer twice counts once; a different second answer is
    refused with `ConflictError`."""
    write = SessionWrites(door).answer(session_id, approval_seq, text, call_digest)
    try:
        [receipt] = await store.commit_async(write)
    except ConflictError as error:
        raise ConflictError(f"question {approval_seq} was already answered; the first answer stands") from error
    return receipt.seq
