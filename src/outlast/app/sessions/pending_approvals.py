"""Open approvals of a session and of all sub-agents running below it.

Also previews a call before it is approved: the diff that a write or an edit would make, and the scope of an approval.
And it tells a user why a call was denied, without the words that are for the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from outlast.core.errors import SessionNotFound
from outlast.core.events import ApprovalRequested, ToolCallFinished
from outlast.core.messages import ToolCall, text_of
from outlast.core.state import Approval, SessionState
from outlast.runtime.permissions.evaluate import NOBODY
from outlast.runtime.permissions.session_policy import session_grants
from outlast.runtime.tools.builtin.apply_patch import patch_preview
from outlast.runtime.tools.builtin.edit import EditArguments, edited
from outlast.runtime.tools.files.atomic_write import ABSENT
from outlast.runtime.tools.files.diff import difference
from outlast.runtime.tools.port import Target, ToolFault
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.loop_guard import QUESTION_ID
from outlast.runtime.turn.subagents import child_of
from outlast.runtime.turn.tool_context import tool_context
from outlast.store.log_store import LogStore
from outlast.store.read.decode import load_state

TASK = "task"


def pending_approvals(store: LogStore, session_id: str, state: SessionState) -> list[tuple[str, Approval]]:
    """The open approvals, each with the session that asks; those of `session_id` first."""
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
        return []  # the call is logged before its child session is created


def is_from_runtime(asked: ApprovalRequested) -> bool:
    """Whether the loop guard asks, not the model."""
    return asked.call_id.startswith(QUESTION_ID)


def denied_while_running(finished: ToolCallFinished) -> list[str]:
    """Return what a command was denied while it ran, each with the flag that allows it, in words for the user."""
    told: list[str] = []
    for one in finished.facts.get("connections", ()):
        if isinstance(need := one.get("need"), str):
            told.append(f"{finished.name} was not allowed to reach {one.get('host')} (--allow {need} allows it)")
    paths = finished.facts.get("put_back", ())
    if paths:
        names = ", ".join(paths)
        told.append(
            f"{finished.name} changed {names}, which other programs obey: put back (--permission-mode allow keeps it)"
        )
    return list(dict.fromkeys(told))


def denial_reason(denied: ToolCallFinished) -> str:
    return text_of(denied.parts).removeprefix("Not executed: ").removesuffix(f"; {NOBODY}")


async def change_of(context: TurnContext, session_id: str, name: str, arguments: dict[str, Any]) -> str | None:
    """The unified diff that a file tool's call would make now; None if the call has no diff to show.

    For a call that would fail, the reason is returned instead. The preview changes nothing.
    """
    tool = context.tools.get(name)
    if tool is None or name not in {"write", "edit", "apply_patch"}:
        return None
    try:
        if name == "apply_patch":
            return await patch_preview(arguments, tool_context(context, session_id, "preview"))
        target = await tool.target(arguments, tool_context(context, session_id, "preview"))
        after = _after(name, arguments, target) if target is not None else None
    except ToolFault as fault:
        return f"This call would fail now: {fault}"
    if target is None or after is None:
        return None
    facts = difference(target.path, target.before, after, created=target.digest_before == ABSENT)
    return facts.get("diff") or f"{target.path}: {facts['bytes']} bytes that cannot be compared as text"


def _after(name: str, arguments: dict[str, Any], target: Target) -> bytes | None:
    if name == "write":
        return str(arguments.get("content", "")).encode()
    before = (target.before or b"").decode("utf-8", "surrogateescape")
    wanted = msgspec.convert(arguments, EditArguments)
    return edited(before, wanted, wanted.file_path).text.encode("utf-8", "surrogateescape")


def scope_of(context: TurnContext, name: str, arguments: dict[str, Any]) -> str:
    """Describe what an approval for the session, or for always, would cover."""
    try:
        grant = context.gate.grant(ToolCall(id="preview", name=name, arguments=arguments))
    except ValueError:
        return "this exact call only"  # a need that cannot be read is refused before anything is granted
    if grant.get("needs"):
        return f"{opened_walls(grant['needs'])}, for every command"
    found: list[list[str]] = grant.get("commands") or []
    if not found:
        return "this exact call only"
    beginnings = [f"`{' '.join(words)}`" for words in found]
    return f"every command that begins with {' or '.join(beginnings)}"


_OPENED = {
    "network": "the network to {}",
    "write": "writing to {}",
    "read": "reading {}",
    "localhost": "port {} of this machine",
    "socket": "the socket {}",
}


def opened_walls(needs: Sequence[object]) -> str:
    """Name walls of the sandbox in words: `network:example.org` is "the network to example.org"."""
    named: list[str] = []
    for need in needs:
        kind, separator, value = str(need).partition(":")
        named.append(_OPENED[kind].format(value) if separator and kind in _OPENED else str(need))
    return " and ".join(named)


def session_walls(state: SessionState) -> list[str]:
    """Return the walls that the user has lifted for this session."""
    grants = session_grants(state.runtime.get("grants"))
    return list(dict.fromkeys(need for grant in grants for need in grant.needs))


def command_details(arguments: dict[str, Any], reason: str | None) -> list[str]:
    """Describe the arguments of a bash call except its command, one per line. The model's words are a quotation, and
    are left out where the reason quotes them already."""
    lines: list[str] = []
    for name, value in arguments.items():
        if name == "needs" and isinstance(value, list):
            walls = cast("list[object]", value)
            lines += [f"opens {opened_walls(walls)}"] if walls else []
        elif name == "why" and isinstance(value, str):
            is_quoted = bool(reason) and f'"{value}"' in (reason or "")
            lines += [] if is_quoted else [f'the model says: "{value}"']
        elif name != "command":
            lines.append(f"{name} = {value}")
    return lines
