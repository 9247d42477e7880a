"""Tool audit: every tool call with its approval and its result. A projection of the log; it writes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from outlast.core import events as e
from outlast.core.fold import Row
from outlast.core.messages import ToolCall


class Audited(msgspec.Struct, kw_only=True):
    """One call. `status` is None while it is open. `approval` is the user's answer, None if the user was not asked."""

    call_id: str
    name: str
    arguments: dict[str, Any]
    requested_seq: int
    turn: str | None = None
    started_seq: int | None = None
    finished_seq: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    effect: str | None = None
    approval: str | None = None
    status: str | None = None
    is_error: bool = False
    exit_code: int | None = None


def audit(rows: Iterable[Row]) -> list[Audited]:
    """Return every call in these rows in request order, including verification commands."""
    found: list[Audited] = []
    open_calls: dict[str, Audited] = {}
    questions: dict[int, str] = {}
    for stored, event in rows:
        match event:
            case e.AssistantReplied(parts=parts):
                for part in parts:
                    if isinstance(part, ToolCall):
                        one = Audited(
                            call_id=part.id,
                            name=part.name,
                            arguments=part.arguments,
                            requested_seq=stored.seq,
                            turn=stored.turn,
                        )
                        found.append(one)
                        open_calls[part.id] = one
            case e.ApprovalRequested(call_id=call_id):
                questions[stored.seq] = call_id
            case e.ApprovalAnswered(approval_seq=seq, answer=answer):
                if questions.get(seq) in open_calls:
                    open_calls[questions[seq]].approval = answer
            case e.ToolCallStarted(call_id=call_id, name=name, arguments=arguments, effect=effect):
                one = open_calls.get(call_id)
                if one is None:
                    one = Audited(
                        call_id=call_id, name=name, arguments=arguments, requested_seq=stored.seq, turn=stored.turn
                    )
                    found.append(one)
                    open_calls[call_id] = one
                one.started_seq, one.started_at, one.effect = stored.seq, stored.at, str(effect)
            case e.ToolCallFinished(call_id=call_id):
                _finish(open_calls.pop(call_id, None), stored.seq, stored.at, event)
            case _:
                pass
    return found


def _finish(one: Audited | None, seq: int, at: int, event: e.ToolCallFinished) -> None:
    if one is None:
        return
    code = event.facts.get("exit_code")
    one.finished_seq, one.finished_at = seq, at
    one.status, one.is_error = event.status, event.is_error
    one.exit_code = code if isinstance(code, int) else None
