"""Sub-agents: each runs in a child session with its own log, and its answer is the tool result of the parent's call.

The child's id and idempotency key are derived from the parent's call, so a resumed parent always finds and resumes the
child that it started.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec

from outlast.core.errors import ModelError, OutlastError, SessionBusy
from outlast.core.events import AssistantReplied, ToolCallFinished, ToolCallStarted, TurnEnded
from outlast.core.ids import id_from
from outlast.core.messages import text_of
from outlast.core.workflow_mode import WorkflowMode
from outlast.runtime.driver import RENEW_AFTER, Driver
from outlast.runtime.imported_trust import trusted_header
from outlast.runtime.session_writes import SessionWrites
from outlast.runtime.tools.files.write_targets import recorded_targets
from outlast.runtime.tools.output_limit import bounded
from outlast.runtime.tools.port import ToolFault, ToolOutcome
from outlast.runtime.turn.context import TurnContext
from outlast.runtime.turn.dialect import inherited_dialect
from outlast.runtime.turn.length_limit import MAX_CONTINUATIONS
from outlast.runtime.turn.turn_stats import TurnRecord
from outlast.store.port import Store
from outlast.store.read.decode import decode_events

MAX_DEPTH = 3
WRITES = SessionWrites("task")
_SAID = frozenset({"AssistantReplied", "CompletionDecided", "TurnEnded"})
_LAST_SAID = 2 * MAX_CONTINUATIONS + 4
"""Events that surely hold the last answer, which may have been continued after the length limit cut it off."""
_CHANGING = frozenset({"ToolCallStarted", "ToolCallFinished"})
MOST_TOUCHED = 500
DIFF_LIMIT = 64_000

RunSubAgent = Callable[[Store, str, TurnContext], Awaitable[str]]
"""Runs the turns of a child session to their end and returns the last answer. The runner passes it in, because this
module is in a layer below the runner."""


async def delegated(
    driver: Driver, context: TurnContext, run: RunSubAgent, call_id: str, prompt: str, persona: str | None
) -> ToolOutcome:
    """Run the task to its end in a child session, or resume the child session that this call already started."""
    if context.depth >= MAX_DEPTH:
        raise ToolFault(f"a sub-agent may not start another one below depth {MAX_DEPTH}; do this part yourself")
    assert context.sub_agent_context is not None
    try:
        sub = inherited_dialect(context.sub_agent_context(context, persona), driver.state)
        sub = _planning(sub, driver.state.plan_mode)
        child = await _child(driver, sub, call_id, prompt)
        await _drained(driver, sub, run, child)
    except OutlastError as error:
        return ToolOutcome(text=f"The sub-agent failed: {error}", is_error=True)
    return await asyncio.to_thread(_answered, driver.store, child)


def _planning(sub: TurnContext, plans: bool) -> TurnContext:
    """A sub-agent of a session in plan mode is in plan mode, too, and cannot leave it."""
    if plans == (sub.config.workflow_mode == WorkflowMode.PLAN):
        return sub
    mode = str(WorkflowMode.PLAN) if plans else None
    return replace(sub, config=msgspec.structs.replace(sub.config, workflow_mode=mode))


def child_of(session_id: str, requested_seq: int, call_id: str) -> str:
    """Return the id of this call's child session. Observers of the parent can compute it; it is as hard to guess as
    the parent's id."""
    named = f"{session_id} {requested_seq} {call_id}".encode("utf-8", "surrogatepass")
    return id_from(hashlib.sha256(named).digest()[:16])


async def _drained(driver: Driver, context: TurnContext, run: RunSubAgent, child: str) -> None:
    """Drive the child until no input waits in it. While another process drives it, for example the parent's previous
    driver, wait and retry."""
    while True:
        try:
            await run(driver.store, driver.store.tip(child), context)
        except SessionBusy:
            await driver.clock.sleep(driver.ttl_ms / 1000 * RENEW_AFTER)
        except ModelError:
            return  # the child's turn ended as failed, and its log says why
        else:
            return


def _answered(store: Store, child: str) -> ToolOutcome:
    """Build the result from the child's log, because the child may have ended before the parent was resumed."""
    facts = {"session_id": child, **_changes(store, child)}
    rows = decode_events(store, store.read(store.tip(child), kinds=_SAID, limit=_LAST_SAID, newest_first=True))
    said = [event for _, event in rows]
    answer = TurnRecord(reversed(rows), 0).last_answer
    if not answer:
        answer = next((text_of(event.parts) for event in said if isinstance(event, AssistantReplied)), "")
    ended = next((event for event in said if isinstance(event, TurnEnded)), None)
    if ended is not None and ended.outcome not in {"completed", "stopped"}:
        why = f"{ended.outcome}: {ended.reason}" if ended.reason else ended.outcome
        return ToolOutcome(
            text="\n".join((f"The sub-agent did not finish ({why}).", answer)), is_error=True, facts=facts
        )
    note = str(ended.facts.get("note") or "").strip() if ended is not None else ""
    said = "\n\n".join(part for part in (answer, f"[Outlast runtime] {note}" if note else "") if part)
    return ToolOutcome(text=said or "(the sub-agent gave no answer)", facts=facts)


def _changes(store: Store, child: str) -> dict[str, Any]:
    """Return the facts that make a sub-agent's file changes those of its parent: `touched` paths, counts of lines, and
    the diffs. Changes of the sub-agent's own sub-agents are in the results of its calls."""
    touched: dict[str, None] = {}
    started: dict[str, list[str]] = {}
    diffs: list[str] = []
    added = removed = 0
    for _, event in decode_events(store, store.read(store.tip(child), kinds=_CHANGING)):
        if isinstance(event, ToolCallStarted):
            started[event.call_id] = [file.path for file in recorded_targets(event)]
        if not isinstance(event, ToolCallFinished):
            continue
        recorded = started.pop(event.call_id, [])
        paths = changed_paths(event.facts) or ([] if event.is_error else recorded)
        touched |= dict.fromkeys(paths)
        if paths:
            added += _count(event.facts, "added")
            removed += _count(event.facts, "removed")
            diffs += [diff] if isinstance(diff := event.facts.get("diff"), str) else []
    if not touched:
        return {}
    diff = bounded("\n".join(diffs), DIFF_LIMIT)
    return {"touched_files": list(touched)[:MOST_TOUCHED], "added": added, "removed": removed, "diff": diff}


def changed_paths(facts: Mapping[str, Any]) -> list[str]:
    """Return the paths that a call changed, by the facts of its result: a sub-agent's, a patch's, or a file tool's."""
    several: Any = facts.get("touched_files") or facts.get("paths")
    if isinstance(several, list):
        return [path for path in cast("list[object]", several) if isinstance(path, str)]
    path = facts.get("path")
    return [path] if isinstance(path, str) and "created" in facts else []


def _count(facts: Mapping[str, Any], name: str) -> int:
    count = facts.get(name)
    return count if isinstance(count, int) else 0


async def _child(driver: Driver, context: TurnContext, call_id: str, prompt: str) -> str:
    """Create this call's child session and admit the prompt to it. Idempotent."""
    parent = trusted_header(driver.store.head(driver.session_id), driver.state)
    # A provider may reuse a call id in its next reply, so the seq of the request is part of the child's id.
    asked_at = next((call.requested_seq for call in driver.state.open_calls if call.call_id == call_id), 0)
    made = child_of(driver.session_id, asked_at, call_id)
    key = f"task-{made}"
    create = WRITES.child_creation(
        made, parent, title=prompt[:50], persona=context.persona.name, depth=context.depth, key=key
    )
    [receipt] = await driver.store.commit_async(create)
    await driver.store.commit_async(WRITES.admission(receipt.session_id, prompt, key=f"{key}-input", to_tip=False))
    return receipt.session_id
