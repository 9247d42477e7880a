"""Sessions that were worked in: logs as an agent leaves them, turn after turn, compacted now and then."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from outlast.core import events as e
from outlast.core.header import Header
from outlast.core.ids import id_from
from outlast.core.messages import TextPart, ToolCall, Usage
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, Create, Lease, NewEvent, Release
from outlast.store.read.decode import SNAPSHOT_EVERY, load_state

TOGETHER = 300
"""Events in one commit: nothing waits for them."""
ROOM = 20
"""More than a turn, which is never cut in two."""
COMPACTED_AFTER = 40
_WORDS = "The quick brown fox jumps over the lazy dog and writes it all down. "
_DONE = {"task_statement": "Go on.", "status": "in_progress", "touched_files": ["src/a.py"]}


def worked_session(store: LogStore, events: int) -> str:
    """A session of about so many events; its id.

    The driver of a session leaves a snapshot now and then, and so do we: the last one lies where it lies on average,
    half of `SNAPSHOT_EVERY` before the head. A session that is shorter has none yet.
    """
    session_id, token = id_from(secrets.token_bytes(16)), id_from(secrets.token_bytes(16))
    created = NewEvent(event=e.SessionCreated(title="Worked in", model="a:b"), actor="user/bench")
    store.commit(Create(header=Header(session_id=session_id), events=(created,)))
    lease = Lease(session_id, 1, token)
    store.commit(Claim(session_id=session_id, token=token, holder="bench", ttl_ms=3_600_000))
    last, turns = 1, 0
    opened = range(events - SNAPSHOT_EVERY // 2, SNAPSHOT_EVERY, -SNAPSHOT_EVERY - ROOM)
    for stop in (*reversed(opened), events):
        while last < stop:
            new: list[NewEvent] = []
            while len(new) < min(TOGETHER, stop - last):
                new += _turn(last + len(new), turns)
                turns += 1
            last = store.commit(Append(session_id=session_id, events=tuple(new), lease=lease))[0].seq
        if stop < events:
            load_state(store, session_id)
    store.commit(Release(lease=lease))
    return session_id


def _turn(after: int, number: int) -> Iterator[NewEvent]:
    """One turn with one tool call, its first event at `after + 1`."""
    for event in _events(after, number):
        yield NewEvent(event=event, actor="system/bench", turn=f"t{after + 2}")


def _events(after: int, number: int) -> list[e.Event]:
    call = ToolCall(id=f"call_{number}", name="read", arguments={"file_path": f"src/part_{number % 50}.py"})
    usage = Usage(input_tokens=900, output_tokens=60)
    entry = {"kind": "route", "mode": "execute", "reason_code": "task", "summary": _WORDS, "timestamp": "2026-01-01"}
    events: list[e.Event] = [
        e.InputAdmitted(parts=(TextPart(f"{number}: {_WORDS}"),)),
        e.TurnStarted(inputs=[after + 1], model="a:b", mode="execute"),
        e.RuntimeStateChanged(changes={"current_task": _WORDS, "active_turn_phase": "prepare"}),
        e.TimelineRecorded(entry=entry),
        e.DefinitionOfDoneUpdated(definition=_DONE),
        e.ModelRequested(model="a:b"),
        e.AssistantReplied(attempt_seq=after + 6, parts=(TextPart(_WORDS), call), usage=usage, model="a:b"),
        e.ToolCallStarted(call_id=call.id, name=call.name, arguments=call.arguments, effect=e.EffectClass.READ),
        e.ToolCallFinished(call_id=call.id, name=call.name, parts=(TextPart(_WORDS * 8),)),
        e.ModelRequested(model="a:b"),
        e.AssistantReplied(attempt_seq=after + 10, parts=(TextPart(_WORDS * 3),), usage=usage, model="a:b"),
        e.CompletionDecided(outcome="accept", code="done", summary="it is done"),
        e.TimelineRecorded(entry=entry),
        e.TurnEnded(outcome="completed", reason="done", answered=[after + 1]),
    ]
    if number % COMPACTED_AFTER == COMPACTED_AFTER - 1:
        first = after + 1  # the newest turn is kept
        events.append(e.Compacted(summary=_WORDS * 20, first_kept_seq=first, tokens_before=30_000, tokens_after=2_000))
    return events
