"""What waits for the user's answer: in a session, and in the sub-agents at work below it, however deep.

What a call is about to do, before it is approved: the change that a write or an edit would make, as a diff; and how
far an approval would reach.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.errors import SessionNotFound
from outlast.core.messages import ToolCall
from outlast.core.state import Approval, SessionState
from outlast.runtime.tools.builtin.edit import EditArguments, edited
from outlast.runtime.tools.files.atomic_write import ABSENT
from outlast.runtime.tools.files.diff import difference
from outlast.runtime.tools.port import Target, ToolFault
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.subagents import child_of
from outlast.runtime.turn.tool_context import tool_context
from outlast.store.log_store import LogStore
from outlast.store.read.decode import load_state

TASK = "task"


def pending_approvals(store: LogStore, session_id: str, state: SessionState) -> list[tuple[str, Approval]]:
    """Each with the session that asks; its own first."""
    found = [(session_id, one) for one in state.open_approvals]
    for call in state.open_calls:
        if call.name == TASK and call.started_seq:
            found += _below(store, child_of(session_id, call.requested_seq, call.call_id))
    return found


def _below(store: LogStore, child: str) -> list[tuple[str, Approval]]:
    try:
        tip = store.tip(child)
        return pending_approvals(store, tip, load_state(store, tip))
    except SessionNotFound:
        return []  # the call is in the log before the session that it begins


async def change_of(context: TurnContext, session_id: str, name: str, arguments: dict[str, Any]) -> str | None:
    """The unified diff of a file tool's call as things are now; None where it makes none that could be shown.

    A call that cannot be carried out says why instead. Nothing is changed by looking.
    """
    tool = context.tools.get(name)
    if tool is None or name not in {"write", "edit"}:
        return None
    try:
        target = await tool.target(arguments, tool_context(context, session_id, "preview"))
        after = _after(name, arguments, target) if target is not None else None
    except ToolFault as fault:
        return f"It will fail as things are now: {fault}"
    if target is None or after is None:
        return None
    facts = difference(target.path, target.before, after, created=target.digest_before == ABSENT)
    return facts.get("diff") or f"{target.path}: {facts['bytes']} bytes that cannot be compared as text"


def _after(name: str, arguments: dict[str, Any], target: Target) -> bytes | None:
    if name == "write":
        return str(arguments.get("content", "")).encode()
    before = (target.before or b"").decode("utf-8", "surrogateescape")
    wanted = msgspec.convert(arguments, EditArguments)
    text, _ = edited(before, wanted, wanted.file_path)
    return text.encode("utf-8", "surrogateescape")


def scope_of(context: TurnContext, name: str, arguments: dict[str, Any]) -> str:
    """What an approval for the session, or for always, would cover, in words."""
    found: list[list[str]] = (
        context.gate.grant(ToolCall(id="preview", name=name, arguments=arguments)).get("commands") or []
    )
    if not found:
        return "this very call and no other"
    beginnings = [f"`{' '.join(words)}`" for words in found]
    return f"every command that begins with {' or '.join(beginnings)}"
